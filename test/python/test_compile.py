"""`dlc.compile`: programs through all stages, on the host, against fp64."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Hashable, Sequence
from io import StringIO
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from expected import judge, rounded
from made_up import MADE_UP
from torch import nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

import dlc
from dlc.compile_options import CompileOptions
from dlc.compiler import CompiledProgram
from dlc.diagnostics import OpError
from dlc.dialects import tile
from dlc.frontend.scripts.capture import capture_text
from dlc.frontend.source import UnsupportedError
from dlc.ir.locations import LocParser
from dlc.judge.reference import evaluate
from dlc.passes import STAGES, STEPS, Stage, Step
from dlc.pipeline import run_pipeline, stage_of, text_of
from dlc.registry import register
from dlc.transforms.tile.mark_unroll import MarkUnrollPass
from dlc.transforms.tile.pad_smem import PadSmemPass

WHOLE = bool(os.environ.get("DLC_PREFIX"))

LAYER_NORM = """
class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n))
        self.b = nn.Parameter(torch.randn(n))
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5) * self.w + self.b
Norm({n})(torch.randn({m}, {n}))
"""

MLP = """
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear({n}, 48, bias=False), nn.Linear({n}, 48, bias=False)
        self.down = nn.Linear(48, {n}, bias=False)
    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))
MLP()(torch.randn(1, {m}, {n}))
"""

PROGRAMS = {
    "rms_norm": "torch.nn.RMSNorm({n})(torch.randn(1, {m}, {n}))",
    "softmax": "torch.nn.Softmax(dim=-1)(torch.randn(1, 3, {m}, {n}))",
    "matmul": "torch.relu(torch.matmul(torch.randn({m}, {n}) + torch.randn({n}), "
    "torch.randn({n}, 16)))",
    "layer_norm": LAYER_NORM,
    "mlp": MLP,
}


def captured(name: str, m: int, n: int) -> tuple[nn.Module, tuple[Any, ...]]:
    text = PROGRAMS[name].replace("{m}", str(m)).replace("{n}", str(n))
    return capture_text(text, f"<{name}>")


def assert_accurate(compiled: CompiledProgram, args: Sequence[Any]) -> None:
    """Every result of @main obeys the accuracy rule."""
    variant = compiled.variant(args)
    bound = variant.program.bind(args)
    results = variant.executor([t.detach() for t in bound])
    exact = evaluate(variant.program.module, bound, double=True)
    eager = rounded(evaluate, variant.program.module, bound)
    for result, reference, own in zip(results, exact, eager, strict=True):
        accuracy = judge(result, reference, own, variant.longest_reduction)
        assert accuracy.ok, accuracy


@pytest.mark.parametrize(("m", "n"), [(8, 64), (5, 127), (1, 1), (0, 16), (4, 0)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_accurate_at_any_extent(name: str, m: int, n: int):
    module, args = captured(name, m, n)
    compiled = dlc.compile(module, args, backend="host")
    assert_accurate(compiled, args)
    with torch.no_grad():
        expected = module(*args)
        got = compiled(*args)
    assert got.shape == expected.shape
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(("m", "n"), [(5, 127), (0, 16), (1, 1)][: 3 if WHOLE else 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage_reads_back_and_goes_on(name: str, m: int, n: int):
    module, args = captured(name, m, n)
    compiled = dlc.compile(module, args, target="sm_80", backend="host")
    for stage in STAGES:
        text = compiled.ir(stage)
        ctx = register(Context())
        again = LocParser(ctx, text, stage).parse_module()
        assert stage_of(again) == stage
        assert text_of(again) == text
        generic = StringIO()
        Printer(generic, print_generic_format=True).print_op(again)
        assert text_of(LocParser(ctx, generic.getvalue(), stage).parse_module()) == text
        run_pipeline(ctx, again, "kernel")
        assert text_of(again) == compiled.ir("kernel")


def test_compilation_is_deterministic():
    texts = set()
    for _ in range(2):
        module, args = captured("mlp", 6, 40)
        texts.add(dlc.compile(module, args, target="sm_90", backend="host").ir("cuda"))
    assert len(texts) == 1


def retyped(module: ModuleOp) -> None:
    store = next(op for op in module.walk() if isinstance(op, tile.StoreOp))
    store.operands[0] = next(op for op in module.walk() if isinstance(op, tile.LaunchOp)).axes[0]


def unordered(module: ModuleOp) -> None:
    store = next(op for op in module.walk() if isinstance(op, tile.StoreOp))
    store.detach()
    block = next(op for op in module.walk() if isinstance(op, tile.LaunchOp)).body.block
    block.insert_op_before(store, block.first_op)


def unnamed(module: ModuleOp) -> None:
    del next(op for op in module.walk() if isinstance(op, tile.KernelOp)).properties["sym_name"]


@pytest.mark.parametrize("damage", [retyped, unordered, unnamed])
def test_a_pass_that_damages_the_ir_is_named(
    damage: Callable[[ModuleOp], None], monkeypatch: pytest.MonkeyPatch
):
    """After passes that change nothing, too, and where only what all of them leave is verified."""
    module, args = captured("softmax", 4, 64)
    state = dlc.compile(module, args, backend="host").variants[0].module("loop").clone()
    monkeypatch.setattr(MarkUnrollPass, "apply", lambda self, ctx, module: damage(module))
    for until in ("tile", "kernel"):
        with pytest.raises(Exception, match="after pass mark-unroll"):
            run_pipeline(register(Context()), state.clone(), until)


def test_a_pass_before_the_last_of_an_ir_that_damages_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
):
    """To who looks at times alone, too; what is looked at after each pass is verified by then."""

    class Clock:
        is_clock = True

        def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
            self.passed_ = list[str]()

        def passed(self, step: Step, module: ModuleOp, *about: object) -> None:
            self.passed_.append(step.pass_name)

    class Observer(Clock):
        is_clock = False

    module, args = captured("softmax", 4, 64)
    state = dlc.compile(module, args, backend="host").variants[0].module("loop").clone()
    monkeypatch.setattr(PadSmemPass, "apply", lambda self, ctx, module: unordered(module))
    for observer, last in ((Clock(), "pipeline-k-outer"), (Observer(), "async-copy")):
        with pytest.raises(Exception, match="after pass pad-smem"):
            run_pipeline(register(Context()), state.clone(), "tile", [observer])
        assert observer.passed_[-1] == last


def test_each_prefix_of_the_schedule_runs():
    """Rule R4: between any two passes the program can be lowered plainly, and computes the same."""
    from dlc.backend.executor import Executor, get_backend
    from dlc.judge.validation import PLAINEST
    from dlc.registry import get_pass

    to_kernels = [step for step in STEPS if step.stage == "kernel" and step.pass_name in PLAINEST]

    module, args = captured("matmul", 20, 40)
    compiled = dlc.compile(module, args, backend="host")
    variant = compiled.variant(args)
    bound = [t.detach() for t in variant.program.bind(args)]
    expected = compiled(*args)
    ctx = register(Context())
    state = variant.module("loop").clone()
    for step in STEPS:
        if step.stage != "tile":
            continue
        get_pass(step.pass_name)().apply(ctx, state)
        kernels = state.clone()
        for finishing in to_kernels:
            get_pass(finishing.pass_name)().apply(ctx, kernels)
        (result,) = Executor(kernels, get_backend("host"))(bound)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["matmul", "softmax"])
def test_canonicalization_keeps_what_any_ir_computes(name: str, stage: Stage):
    """`canonicalize,cse,dce` between any two IRs, and of the last."""
    from dlc.backend.executor import Executor, get_backend
    from dlc.registry import parse_pipeline

    module, args = captured(name, 20, 40)
    compiled = dlc.compile(module, args, target="sm_90", backend="host")
    variant = compiled.variant(args)
    ctx = register(Context())
    state = variant.module(stage).clone()
    for cleanup in parse_pipeline("canonicalize,cse,dce"):
        cleanup.apply(ctx, state)
        state.verify()
    run_pipeline(ctx, state, "kernel")
    bound = [t.detach() for t in variant.program.bind(args)]
    (result,) = Executor(state, get_backend("host"))(bound)
    torch.testing.assert_close(result, compiled(*args), rtol=1e-5, atol=1e-5)


def test_kernels_say_how_they_are_launched():
    module, args = captured("softmax", 4, 64)
    (kernel,) = dlc.compile(module, args, target="sm_90", backend="host").kernels
    assert kernel.grid >= 1
    assert kernel.block >= 1
    assert kernel.shared_bytes >= 0
    assert kernel.schedule.startswith("tileify")
    assert f"{kernel.name}(" in kernel.source
    assert "__global__" in kernel.source


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    "other",
    [
        torch.randn(5, 3),
        torch.randn(3, 4).t(),
        torch.randn(13)[1:].view(4, 3),
        torch.randn(4, 6)[:, ::2],
        torch.randn(3).expand(4, 3),
        torch.arange(12).view(4, 3),
        torch.randn(4, 3, dtype=torch.float64),
    ],
    ids=["shape", "strides", "alignment", "step", "expanded", "integers", "double"],
)
def test_another_kind_of_argument_compiles_a_variant(other: torch.Tensor):
    compiled = dlc.compile(double, (torch.randn(4, 3),), backend="host")
    for _ in range(2):
        got = compiled(other)
        assert torch.equal(got, other * 2)
        assert got.stride() == (other * 2).stride()
    assert len(compiled.variants) == 2


def test_a_better_aligned_argument_needs_no_variant():
    compiled = dlc.compile(double, (torch.randn(5)[1:],), backend="host")
    compiled(torch.randn(4))
    assert len(compiled.variants) == 1


def test_other_constants_compile_a_variant():
    def scale(x: torch.Tensor, by: float, *, shift: float = 0.0) -> torch.Tensor:
        return x * by + shift

    x = torch.randn(4)
    compiled = dlc.compile(scale, (x, 2.0), backend="host", kwargs={"shift": 1.0})
    assert torch.equal(compiled(x, 2.0, shift=1.0), x * 2 + 1)
    assert torch.equal(compiled(x, 3.0), x * 3)
    assert len(compiled.variants) == 2


def test_written_arguments_and_views():
    def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        return x, x[1:], y.t(), x + y

    x, y = torch.ones(3, 3), torch.randn(3, 3)
    compiled = dlc.compile(step, (x, y), backend="host")
    assert torch.equal(x, torch.ones(3, 3))
    same, tail, turned, total = compiled(x, y)
    assert same is x
    assert torch.equal(x, torch.full((3, 3), 2.0))
    assert tail.data_ptr() == x[1:].data_ptr()
    assert turned.data_ptr() == y.data_ptr()
    assert turned.stride() == (1, 3)
    assert torch.equal(total, 2 + y)


def test_parameters_are_used_as_they_are_now():
    linear = nn.Linear(8, 4)
    x = torch.randn(2, 8)
    compiled = dlc.compile(linear, (x,), backend="host")
    with torch.no_grad():
        linear.weight.copy_(torch.eye(4, 8))
        linear.bias.zero_()
    assert torch.equal(compiled(x), x[:, :4])
    assert len(compiled.variants) == 1


def test_buffers_are_written_back():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            return x + self.seen

    counter = Counter()
    compiled = dlc.compile(counter, (torch.zeros(2),), backend="host")
    compiled(torch.zeros(2))
    assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), 2.0))
    assert counter.seen.item() == 2


def test_structures_go_in_and_come_out():
    def f(pair: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {"sum": pair["a"] + pair["b"], "n": 3, "none": None}

    pair = {"a": torch.randn(3), "b": torch.randn(3)}
    out = dlc.compile(f, (pair,), backend="host")(pair)
    assert torch.equal(out["sum"], pair["a"] + pair["b"])
    assert out["n"] == 3
    assert out["none"] is None


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: x + 1, (torch.tensor([254, 255, 3], dtype=torch.uint8),)),
        (lambda x, m: torch.where(m, x, -x), (torch.arange(4), torch.tensor([True, False] * 2))),
        (lambda t, i: F.embedding(i, t), (torch.randn(5, 4), torch.tensor([[4, 0], [2, 2]]))),
        (lambda x: (x > 0, x.argmax(-1)), (torch.randn(3, 7),)),
        (lambda x: x.to(torch.int8), (torch.tensor([1.5, -2.5, 3.0]),)),
        (lambda x: x.tril(), (torch.randn(4, 4),)),
        (lambda x: x, (torch.randn(2),)),
        (lambda x: torch.full((3,), 2.0), (torch.randn(2),)),
    ],
    ids=["uint8", "where", "embedding", "argmax", "int8", "tril", "identity", "constant"],
)
def test_integers_booleans_and_data_agree_with_eager(
    function: Callable[..., Any], args: tuple[Any, ...]
):
    got = dlc.compile(function, args, backend="host")(*args)
    torch.testing.assert_close(got, function(*args), rtol=0, atol=0)


def test_unknown_names_are_sentences():
    x = (torch.randn(2),)
    with pytest.raises(ValueError, match="unknown target 'sm_91'"):
        dlc.compile(double, x, target="sm_91")
    with pytest.raises(ValueError, match="unknown backend 'hots'"):
        dlc.compile(double, x, backend="hots")
    with pytest.raises(ValueError, match="found 'tiles'"):
        dlc.compile(double, x, backend="host").ir("tiles")  # pyright: ignore[reportArgumentType]


def test_an_operation_without_a_lowering_names_itself():
    with pytest.raises(OpError, match=re.escape(MADE_UP)):
        dlc.compile(torch.ops.aten.made_up, (torch.randn(3),), backend="host")


def test_where_only_pytorch_is_called_the_place_is_the_line_of_the_call():
    here = "test_compile.py"
    with pytest.raises(OpError, match=rf"{here}:\d+: nobody has written it yet"):
        dlc.compile(torch.ops.aten.made_up, (torch.randn(3),), backend="host")
    with pytest.raises(UnsupportedError, match=rf"{here}:\d+:\d+: error: aten\."):
        dlc.compile(torch.nonzero, (torch.eye(3),), backend="host")


def test_import_of_dlc_is_light():
    code = "import dlc, sys; sys.exit('torch' in sys.modules or 'xdsl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_scale_is_rounded_before_the_maximum_is_taken_away(target: str) -> None:
    """A multiply-add would leave the rounding error, whose exponential is infinite."""
    x = torch.randn(8, 40, generator=torch.Generator().manual_seed(0)) * 2.0**40

    def scores(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 0.3, -1)

    compiled = dlc.compile(scores, (x,), target=target, backend="host")
    assert torch.equal(compiled(x), scores(x))


def test_options_are_equal_where_they_compile_alike():
    sizes = ({0: torch.export.Dim("batch")},)
    options = CompileOptions(dynamic_shapes=sizes, schedules={"exp": "tileify"})
    assert options == CompileOptions(dynamic_shapes=sizes).with_schedules({"exp": "tileify"})
    assert options != CompileOptions(schedules={"exp": "tileify"})
    assert options != CompileOptions(dynamic_shapes=sizes)
    assert not isinstance(options, Hashable)
