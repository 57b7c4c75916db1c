"""Kernel IR on disk: found by its program, never a stranger's."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from caches import own_cache
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import dlc
from dlc import kernel_cache, pipeline, plugins, stages, version
from dlc.backend import BackendError
from dlc.backend.bound_program import flat
from dlc.backend.cache import cache_directory, lookup_or_build
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.stored_program import FACTS, program_of_json, program_to_json
from dlc.cli import dlc_cli
from dlc.frontend.export.fx import import_program
from dlc.frontend.scripts.capture import capture_text
from dlc.kernel_cache import Lowered, lower
from dlc.passes import Stage
from dlc.pipeline import Observer, run_pipeline
from dlc.registry import register
from dlc.stages import Stages
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lowered(factor: float = 2.0, target: str = "sm_90") -> Lowered:
    program = import_program(
        lambda x: (x * factor).softmax(-1) @ x.t(), (torch.ones(6, 40),), whole=DECOMPOSITIONS
    )
    set_target(program.module, target)
    return lower(register(Context()), program.module)


def test_a_program_is_lowered_once(cache: Path, monkeypatch: pytest.MonkeyPatch):
    first = lowered()
    other, elsewhere = lowered(3.0), lowered(target="sm_80")
    monkeypatch.setattr(pipeline, "run_pipeline", lambda *_: pytest.fail("it is there"))
    again = lowered()
    assert print_module(again.module) == print_module(first.module)
    assert again.longest_reduction == first.longest_reduction == 40
    assert str(lowered(target="sm_80").module) == str(elsewhere.module)
    assert len({str(each.module) for each in (first, other, elsewhere)}) == 3
    assert len(list(cache.iterdir())) == 3


def test_a_run_parses_no_kernel(monkeypatch: pytest.MonkeyPatch):
    first = lowered()
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse_module", lambda *_: pytest.fail("nobody asks for the IR"))
        again = lowered()
        x = torch.randn(6, 40)
        results = [Executor(each.program, HostBackend())([x])[0] for each in (first, again)]
        assert torch.equal(*results)
        facts = [[getattr(k, name) for name in FACTS] for k in again.program.funcs]
    assert facts == [[getattr(k, name) for name in FACTS] for k in first.program.funcs]
    bodies = [image.func for image in again.program.funcs]
    assert [op.parent_op() for op in bodies] == [again.module] * len(bodies)
    assert [op.name_ for op in bodies] == [image.name_ for image in again.program.funcs]


def test_a_second_run_imports_no_pass_and_no_kernel_dialect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", str(own_cache(tmp_path / "own")))
    command = ["run", "-c", "torch.randn(4, 40).softmax(-1)", "--backend", "host"]
    code = (
        f"import sys; from dlc.cli.dlc_cli import main; assert main({command}) == 0; "
        "print('loaded', *sorted(sys.modules))"
    )
    python = [sys.executable, "-c", code]
    _, done = (subprocess.run(python, capture_output=True, text=True, check=True) for _ in range(2))
    loaded = done.stdout.splitlines()[-1].split()
    needless = (
        "dlc.transforms",
        "dlc.schedule",
        "dlc.simulator",
        "dlc.backend.cuda",
        "dlc.compiler",
    )
    assert not [name for name in loaded if name.startswith(needless)]
    assert not {f"dlc.dialects.{name}" for name in ("tensor_ir", "loop", "tile", "kernel")} & {
        *loaded
    }
    assert "xdsl.dialects.arith" not in loaded


LOOP = "torch.nn.LSTM(8, 8)(torch.randn(5, 2, 8))"
CONDITION = "torch.cond(x.sum() > 0, lambda x: x.sin() @ x, lambda x: x.cos(), (x,))"


@pytest.mark.parametrize(
    "text",
    [
        "torch.nn.Sequential(torch.nn.Linear(8, 96), torch.nn.Linear(96, 8))(torch.randn(4, 8))",
        "torch.randn(256, 512, dtype=torch.float16) @ torch.randn(512, 256, dtype=torch.float16)",
        LOOP,
        f"x = torch.randn(4, 4)\n{CONDITION}",
    ],
)
def test_a_stored_program_is_the_program(text: str):
    program = import_program(*capture_text(text), whole=DECOMPOSITIONS)
    set_target(program.module, "sm_90")
    module = program.module
    run_pipeline(register(Context()), module, "kernel")
    bound = Lowered.of(module).program
    stored = program_to_json(bound)
    again = program_of_json(stored, lambda: module)
    assert program_to_json(again) == stored
    assert [type(step) for step in flat(again.steps)] == [type(step) for step in flat(bound.steps)]
    assert again.arguments == bound.arguments
    for known, image in zip(again.funcs, bound.funcs, strict=True):
        assert known.tensor_maps == image.tensor_maps
        assert known.func is image.func


def test_a_damaged_entry_is_written_anew(cache: Path, monkeypatch: pytest.MonkeyPatch):
    first = lowered()
    (entry,) = cache.iterdir()
    (entry / "program.json").write_text("{}")
    ran: list[str] = []
    run = pipeline.run_pipeline

    def counted(ctx: Context, module: ModuleOp, until: Stage, observers: Sequence[Observer]):
        ran.append(until)
        run(ctx, module, until, observers)

    monkeypatch.setattr(pipeline, "run_pipeline", counted)
    for _ in range(2):
        assert print_module(lowered().module) == print_module(first.module)
    assert ran == ["loop", "kernel"]


def test_names_of_what_is_lowered_are_those_of_the_decompositions():
    for _ in range(2):
        assert set(kernel_cache.lowered_overloads()) == DECOMPOSITIONS.keys()
        kernel_cache.lowered_overloads.cache_clear()


def test_another_dlc_finds_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch):
    lowered()
    monkeypatch.setattr(kernel_cache, "source_key", lambda: "changed")
    lowered()
    assert len(list(cache.iterdir())) == 2


def test_the_second_run_says_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    command = ["run", "-c", "torch.randn(4, 40).softmax(-1)", "--backend", "host"]
    outputs: list[str] = []
    for _ in range(2):
        assert dlc_cli.main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        outputs.append("\n".join(line for line in lines if " ms" not in line and " us" not in line))
        monkeypatch.setattr(pipeline, "run_pipeline", lambda *_: pytest.fail("it is there"))
    assert outputs[0] == outputs[1]
    assert "OK" in outputs[0]


def test_the_cache_is_ones_own(cache: Path):
    assert cache_directory().stat().st_mode & 0o777 == 0o700
    lowered()
    (entry,) = cache.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o700
    entry.chmod(0o777)
    with pytest.raises(BackendError, match="is another user's, or others may write to it"):
        lowered()


def test_what_is_anothers_is_refused(monkeypatch: pytest.MonkeyPatch):
    lookup_or_build("host", "key", "file", lambda path: {})
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(BackendError, match="remove it, or set DLC_CACHE_DIR"):
        lookup_or_build("host", "key", "file", lambda path: {})


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are kept as they are outside of tests, whatever other tests have registered."""
    monkeypatch.setattr(Stages, "keeps", True)
    monkeypatch.setattr(plugins, "are_in_files", lambda: True)


def scores(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scores = (x @ y.t()).softmax(-1)
    return scores, x.sum(0)


@pytest.mark.usefixtures("kept")
def test_a_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    """In another process, too: nothing of the first is looked at but what lies on disk."""
    given = torch.randn(6, 40), torch.randn(9, 40)
    first = dlc.compile(scores, given, "sm_90", "host")
    with monkeypatch.context() as patch:
        patch.setattr(stages, "run_pipeline", lambda *_: pytest.fail("it is there"))
        patch.setattr(Parser, "parse_module", lambda *_: pytest.fail("nobody asks for the IR"))
        again = dlc.compile(scores, given, "sm_90", "host")
        assert all(map(torch.equal, again(*given), first(*given)))
        facts = [
            [getattr(k, name) for name in ("name", "source", "schedule")] for k in again.kernels
        ]
    assert facts == [[k.name, k.source, k.schedule] for k in first.kernels]
    for ir in ("torch", "tensor", "loop", "tile", "kernel", "cuda"):
        assert again.ir(ir) == first.ir(ir)
    assert again.explain() == first.explain()
    assert [k.schedules for k in again.kernels] == [k.schedules for k in first.kernels]
    assert [k.ir("kernel") for k in again.kernels] == [k.ir("kernel") for k in first.kernels]


@pytest.mark.usefixtures("kept")
def test_what_is_kept_is_kept_apart(cache: Path):
    """By shapes, target, and each option that Torch IR or the kernels show."""
    given = torch.randn(6, 40), torch.randn(9, 40)

    def source(target: str = "sm_90", rows: int = 6, **how: Any) -> str:
        tensors = torch.randn(rows, 40), given[1]
        return dlc.compile(scores, tensors, target, "host", **how).ir("cuda")

    variants: list[Callable[[], str]] = [
        source,
        lambda: source("sm_80"),
        lambda: source(rows=7),
        lambda: source(precision="tf32"),
        lambda: source(overlap=True),
    ]
    made = [make() for make in variants]
    entries = sorted(path.name for path in cache.glob("kernel-ir-*"))
    assert len(entries) == len(variants)
    assert [make() for make in variants] == made
    assert sorted(path.name for path in cache.glob("kernel-ir-*")) == entries


@pytest.mark.usefixtures("kept")
def test_what_the_user_chooses_is_not_kept(cache: Path):
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sum(-1)

    given = (torch.randn(6, 40),)
    dlc.compile(program, given, backend="host", tuned=True)
    dlc.compile(program, given, backend="host", plan="exp+sum")
    own = dlc.compile(torch.exp, given, backend="host", schedules={"exp": "tileify"})
    assert not [*cache.glob("kernel-ir-*")]
    assert own.kernels[0].schedule == "tileify"


def by_registering(table: plugins.Table[object]) -> None:
    table.add("sin.default", plugins.Entry(scores, None, plugins.__file__))


def by_replacing(table: plugins.Table[object]) -> None:
    table["exp.default"] = plugins.key


def by_deleting(table: plugins.Table[object]) -> None:
    del table["exp.default"]


@pytest.mark.parametrize("change", [by_registering, by_replacing, by_deleting])
def test_what_a_script_changes_is_neither_kept_nor_found(
    change: Callable[[object], None], cache: Path, monkeypatch: pytest.MonkeyPatch
):
    """It has no file that a key is of: the next script may do something else."""
    monkeypatch.setattr(Stages, "keeps", True)
    table: plugins.Table[object] = plugins.Table("decomposition")
    monkeypatch.setattr(plugins, "TABLES", (table,))
    table.add("exp.default", plugins.Entry(plugins.key, None, plugins.__file__))
    assert plugins.are_in_files()
    dlc.compile(torch.exp, (torch.ones(3),), backend="host").ir("kernel")
    assert len([*cache.glob("kernel-ir-*")]) == 1
    assert lowered().key is not None
    change(table)
    assert not plugins.are_in_files()
    with pytest.raises(TypeError):
        table.rows["exp.default"] = plugins.key  # pyright: ignore
    for path in cache.glob("kernel-ir-*"):
        shutil.rmtree(path)
    dlc.compile(torch.exp, (torch.ones(3),), backend="host").ir("kernel")
    assert lowered().key is None
    assert not [*cache.glob("kernel-ir-*")]


EDITED = """
import os
from dlc import version

before = version.source_key()
assert version.is_as_imported()
path = os.path.join(os.path.dirname(version.__file__), "garbage.py")
with open(path, "a") as file:
    file.write("# of now")
assert not version.is_as_imported()
version._own_key.cache_clear()
assert version.source_key() == before
print(before)
"""


def test_a_key_is_of_the_files_that_were_imported(tmp_path: Path):
    """A process whose dlc is edited keeps nothing under the key of the new files."""
    shutil.copytree(Path(dlc.__file__).parent, tmp_path / "dlc")
    code = [sys.executable, "-c", EDITED]
    where = {**os.environ, "PYTHONPATH": str(tmp_path)}
    keys = [subprocess.check_output(code, cwd=tmp_path, env=where) for _ in range(2)]
    assert keys[0] != keys[1]


def test_what_a_dlc_of_other_files_made_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(version, "_IMPORTED", "others")
    first = lowered()
    assert first.key is None
    assert not [*cache.glob("kernel-ir-*")]
    monkeypatch.undo()


@pytest.mark.usefixtures("kept")
def test_ir_needs_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    program = dlc.compile(scores, (torch.randn(6, 40), torch.randn(9, 40)), "sm_90", "host")
    assert "kernel.func" in program.ir("kernel")
    assert "softmax" in program.ir("cuda")
    assert kernel_cache.lowered_overloads.__wrapped__() == DECOMPOSITIONS.keys()
    with pytest.raises(BackendError, match="set DLC_CACHE_DIR"):
        program(torch.randn(6, 40), torch.randn(9, 40))


@pytest.mark.usefixtures("kept")
def test_ir_needs_no_room(cache: Path, monkeypatch: pytest.MonkeyPatch):
    write = Path.write_text

    def full(path: Path, text: str) -> int:
        if path.is_relative_to(cache.resolve()):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", full)
    program = dlc.compile(torch.exp, (torch.randn(6),), "sm_90", "host")
    assert "kernel.func" in program.ir("kernel")
    assert not [*cache.iterdir()]


VARIED = (
    "torch.nn.Conv2d(3, 5, 3)(torch.randn(2, 3, 9, 11))",
    "torch.randn(96, 40, dtype=torch.float16) @ torch.randn(40, 24, dtype=torch.float16)",
    "torch.nn.functional.scaled_dot_product_attention(*(torch.randn(3, 1, 2, 33, 16)))",
    "torch.nn.functional.layer_norm(torch.randn(7, 513), (513,))",
    "torch.randn(3, 257).topk(5)",
    "torch.zeros(5, 3).index_add(0, torch.tensor([4, 0, 4]), torch.randn(3, 3))",
    "torch.nn.functional.dropout(torch.randn(9, 5), 0.5)",
    "torch.randn(4, 0, 5).sum(1)",
    "torch.arange(12).reshape(3, 4).cumsum(1) // 5",
    "torch.fft.rfft(torch.randn(3, 12)).abs()",
    "torch.tensor([float('inf'), float('nan'), -0.0]).expand(2, 3).softmax(0)",
    LOOP,
    f"x = torch.randn(4, 4)\n{CONDITION}",
)


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("text", VARIED)
def test_what_is_found_is_what_was_made(text: str, cache: Path, monkeypatch: pytest.MonkeyPatch):
    program, arguments = capture_text(text)

    def compiled() -> dlc.CompiledProgram:
        return dlc.compile(program, arguments, "sm_90", "host")

    first = compiled()
    entries = [*cache.glob("kernel-ir-*")]
    assert len(entries) == 1
    monkeypatch.setattr(stages, "run_pipeline", lambda *_: pytest.fail("it is there"))
    again = compiled()
    assert again.ir("kernel") == first.ir("kernel")
    assert again.ir("cuda") == first.ir("cuda")
    assert [*cache.glob("kernel-ir-*")] == entries


@pytest.mark.usefixtures("kept")
def test_programs_for_all_sizes_are_compiled_each_time(cache: Path):
    x, batch = torch.randn(6, 40), torch.export.Dim("batch")
    for _ in range(2):
        program = dlc.compile(torch.exp, (x,), backend="host", dynamic_shapes=({0: batch},))
        assert torch.allclose(program(x), x.exp())
    assert not [*cache.glob("kernel-ir-*")]
