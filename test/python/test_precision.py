"""What products of f32 may be computed in: asked for, or as PyTorch is told."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.schedule_database import Entry, ScheduleDatabase, kernel_key
from dlc.cli.dlc_cli import main
from dlc.dialects.loop import KernelOp
from dlc.judge.accuracy import compare
from dlc.judge.conditioning import Expected
from dlc.judge.tuned_schedules import TunedSchedules
from dlc.precision import PRECISIONS, Precision, default_precision
from dlc.schedule.estimate import estimate
from dlc.simulator import run_module
from dlc.stages import compiler_context
from dlc.target import get_target, precision_of, set_target, target_of
from dlc.tuning.space import Space


@pytest.fixture
def flags() -> Iterator[None]:
    """PyTorch's flags are left as they are found."""
    before = torch.backends.cuda.matmul.fp32_precision
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.fp32_precision = before


def compiled(
    m: int, n: int, k: int, precision: str | None, target: str = "sm_80"
) -> dlc.CompiledProgram:
    torch.manual_seed(0)
    args = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    return dlc.compile(F.linear, args, target=target, backend="host", precision=precision)


def multiplies(program: dlc.CompiledProgram) -> str:
    """What the first kernel multiplies in, as its schedule says."""
    schedule = program.kernels[0].schedule
    return next((p for p in PRECISIONS[1:] if f"precision={p}" in schedule), "f32")


@pytest.mark.parametrize(
    ("target", "precision", "found"),
    [
        ("sm_80", "f32", "f32"),
        ("sm_80", "3xtf32", "3xtf32"),
        ("sm_80", "tf32", "tf32"),
        ("sm_90", "3xtf32", "3xtf32"),
        ("sm_90", "tf32", "tf32"),
        ("sm_120", "3xtf32", "f32"),
        ("sm_75", "tf32", "f32"),
    ],
)
def test_the_estimate_decides_what_may_be(target: str, precision: Precision, found: str) -> None:
    program = compiled(512, 512, 1024, precision, target)
    assert multiplies(program) == found
    (kernel,) = (op for op in program.variants[0].module("loop").walk() if isinstance(op, KernelOp))
    asked = target_of(program.variants[0].program.module)
    assert asked.precision == precision
    seconds = [estimate(kernel, t).seconds for t in (asked, get_target(target))]
    assert (seconds[0] < seconds[1]) == (found != "f32")
    said = " ".join(program.explain().split())
    if target == "sm_75":
        assert (
            "products by tf32: sm_75 has no mma.m16n8k8 of tf32 (PTX ISA: sm_80 or later)" in said
        )
    else:
        by = "wgmma of tf32" if (target, precision) == ("sm_90", "tf32") else precision
        assert (f"products by {by}:" in said) == (precision != "f32")


SIZES = [(1, 7, 17), (7, 17, 100), (17, 100, 7), (100, 1, 17), (100, 17, 64), (40, 33, 16)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_results(size: tuple[int, int, int], precision: Precision) -> None:
    m, n, k = size
    program = compiled(m, n, k, precision)
    x, w, b = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    exact = F.linear(x.double(), w.double(), b.double())
    simulated = run_module(program.variants[0].module("kernel"), [t.numpy() for t in (x, w, b)])
    for found in (program(x, w, b), *map(torch.from_numpy, simulated)):
        verdict = compare(found, exact, F.linear(x, w, b), k, precision=precision)
        assert verdict.ok, verdict


def test_programs_of_several_products() -> None:
    """A product computed of another, a convolution, and one whose inputs are computed."""

    def network(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        y = F.gelu(torch.tanh(x) @ w) @ v
        return F.conv2d(y.view(1, 16, 40, 25), c, padding=1)

    torch.manual_seed(0)
    shapes = (400, 256), (256, 288), (288, 40), (64, 16, 3, 3)
    args = tuple(torch.randn(*shape) for shape in shapes)
    errors: dict[str, float] = {}
    exact = network(*(a.double() for a in args))
    for precision in PRECISIONS:
        program = dlc.compile(network, args, target="sm_80", backend="host", precision=precision)
        used = [precision for k in program.kernels if f"precision={precision}" in k.schedule]
        assert len(used) == (0 if precision == "f32" else 3)
        verdict = compare(program(*args), exact, network(*args), 288, precision=precision)
        assert verdict.ok, verdict
        errors[precision] = verdict.error
    assert errors["3xtf32"] <= 4 * errors["f32"] < errors["tf32"] / 50


@pytest.mark.parametrize("level", ["highest", "high", "medium"])
def test_it_is_what_pytorch_is_told(flags: None, level: str) -> None:
    wanted = "f32" if level == "highest" else "tf32"
    torch.set_float32_matmul_precision(level)
    assert default_precision() == wanted
    assert multiplies(compiled(64, 64, 256, None)) == wanted
    assert multiplies(compiled(64, 64, 256, "3xtf32")) == "3xtf32"


def test_every_way_to_tell_pytorch(flags: None) -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    assert default_precision() == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = False
    assert default_precision() == "f32"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert default_precision() == "tf32"


def test_a_call_goes_by_what_pytorch_is_told_then(flags: None, tmp_path: Path) -> None:
    program = compiled(64, 64, 256, None)
    args = torch.randn(64, 256), torch.randn(64, 256), torch.randn(64)
    plain = program(*args)
    torch.set_float32_matmul_precision("high")
    coarse = program(*args)
    assert [v.precision for v in program.variants] == ["f32", "tf32"]
    assert not torch.equal(plain, coarse)
    program.save(tmp_path / "coarse.dlc")
    torch.set_float32_matmul_precision("highest")
    assert torch.equal(program(*args), plain)
    assert len(program.variants) == 2
    loaded = dlc.load_program(tmp_path / "coarse.dlc")
    assert [v.precision for v in loaded.variants] == ["tf32"]
    assert torch.equal(loaded(*args), coarse)


def test_copies_keep_it() -> None:
    program = compiled(64, 64, 256, "tf32")
    again = copy.copy(program)
    args = torch.randn(64, 256), torch.randn(64, 256), torch.randn(64)
    assert torch.equal(again(*args), program(*args))
    schedule = program.kernels[0].schedule
    assert program.with_schedule({"linear": schedule}).precision == "tf32"


def test_unknown_precisions() -> None:
    with pytest.raises(ValueError, match="unknown precision '3xtf23'") as error:
        compiled(8, 8, 8, "3xtf23")
    assert "3xtf32" in error.value.__notes__[0]
    with pytest.raises(Exception, match="unknown precision 'fp32'"):
        torch.compile(torch.sin, backend="dlc", options={"precision": "fp32"})(torch.ones(3))


def test_torch_compile(flags: None) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(64, 256), torch.randn(256, 64)
    exact, made = x.double() @ w.double(), dict[str, torch.Tensor]()
    for precision in PRECISIONS:
        torch._dynamo.reset()
        options: dict[str, Any] = {"precision": precision, "backend": "host", "target": "sm_80"}
        made[precision] = torch.compile(torch.matmul, backend="dlc", options=options)(x, w)
        assert compare(made[precision], exact, x @ w, 256, precision=precision).ok
    assert not compare(made["tf32"], exact, x @ w, 256).ok
    assert compare(made["3xtf32"], exact, x @ w, 256).ok


def text_of_command(*words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(words) == 0
    return out.getvalue()


PROGRAM = "torch.randn(64, 256) @ torch.randn(256, 256)"


def test_commands(tmp_path: Path, flags: None) -> None:
    given = "-c", PROGRAM, "--target", "sm_80"
    text = text_of_command("compile", *given, "--precision", "tf32", "--ir", "loop")
    assert 'dlc.precision = "tf32"' in text
    assert "precision=tf32" in text
    assert "precision" not in text_of_command("compile", *given, "--ir", "loop")
    file = tmp_path / "product.mlir"
    file.write_text(text_of_command("compile", *given, "--precision", "3xtf32", "--ir", "tensor"))
    kept = text_of_command("compile", str(file), "--ir", "loop")
    assert "precision=3xtf32" in kept
    other = text_of_command("compile", str(file), "--ir", "loop", "--precision", "f32")
    assert "precision" not in other
    torch.set_float32_matmul_precision("high")
    assert "precision=tf32" in text_of_command("compile", *given, "--ir", "loop")


def test_runs_are_judged_by_it(flags: None) -> None:
    """A run that is known is of its precision alone."""
    given = "run", "-c", PROGRAM, "--target", "sm_80", "--backend", "host"
    errors = []
    for precision in ("tf32", "f32", "tf32"):
        found = text_of_command(*given, "--precision", precision)
        assert "OK" in found
        errors.append(float(re.findall(r"\d\.\d+e-\d+", found)[0]))
    assert errors[0] == errors[2] > 50 * errors[1]


def test_validation_goes_by_it() -> None:
    given = "compile", "-c", PROGRAM, "--target", "sm_80", "--validate", "--ir", "kernel"
    assert "kernel.mma" in text_of_command(*given, "--precision", "tf32")


def loop_module(precision: Precision) -> ModuleOp:
    module = compiled(64, 64, 256, "f32").variants[0].module("tensor").clone()
    set_target(module, "sm_80", precision)
    assert precision_of(module) == precision
    from dlc.pipeline import run_pipeline

    run_pipeline(compiler_context(), module, "loop")
    for op in module.walk():
        if isinstance(op, KernelOp):
            op.schedule = None
    return module


def test_a_tuned_schedule_is_of_its_precision(tmp_path: Path) -> None:
    database = ScheduleDatabase(tmp_path / "tuned.sqlite")
    modules = {precision: loop_module(precision) for precision in PRECISIONS}
    asked = target_of(modules["tf32"])
    assert asked.label == "sm_80 tf32"
    assert target_of(modules["f32"]).label == "sm_80"
    (kernel,) = (op for op in modules["tf32"].walk() if isinstance(op, KernelOp))
    from dlc.version import source_key

    entry = Entry(
        kernel_key(kernel), asked.label, "host", "linear", "tileify", 1e-6, 2e-6, "", source_key()
    )
    database.put(entry)
    for precision, module in modules.items():
        TunedSchedules(compiler_context(), database, ("host",)).apply(module)
        (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
        assert (kernel.schedule is not None) == (precision == "tf32")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_searches_know_it(precision: Precision) -> None:
    """Of a default schedule with products on tensor cores, what its last options may be."""
    space = Space(loop_module(precision), "linear")
    state, found = space.start, dict[str, list[object]]()
    while choices := space.choices(state):
        cls = space.classes[state.number]
        names = list(cls.domains)
        if cls.name == "register-tile" and len(state.given) < len(names):
            found[names[len(state.given)]] = list(choices)
        state = space.take(state, choices[0])
    assert ("m16n8k8" in found["mma"]) == (precision != "f32")
    assert found["precision"] == [precision]


def test_numbers_that_tf32_decides_are_not_judged() -> None:
    """Where products may be of tf32, a result is right that is as far off as these are."""
    program = compiled(64, 64, 256, "tf32")
    module = program.variants[0].program.module
    args = [torch.randn(64, 256), torch.randn(64, 256), torch.randn(64)]
    result = program(*args)
    assert Expected(module, args).complaint([result]) is None
    assert Expected(module, args).complaint([result * 1.1]) is not None
    plain = module.clone()
    set_target(plain, "sm_80")
    assert Expected(plain, args).complaint([result]) is not None
