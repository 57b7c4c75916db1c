"""A schedule is obeyed, or refused at its place in the text; what a kernel states made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import cases
import loop_cases
import pytest
import torch
from harness import STEPS, apply, scheduled
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from dlc.cli import dlc_opt
from dlc.cli.dlc_cli import main
from dlc.diagnostics import TextError
from dlc.dialects import tile
from dlc.frontend.export.fx import import_program
from dlc.pipeline import run_pipeline
from dlc.registry import register
from dlc.remarks import collect
from dlc.target import set_target
from dlc.transforms.step import SKIPPED, SchedulingPass, kernels_of, parse_schedule

GEMM = loop_cases.gemm(64, 64, 64)
BLOCKS = "blockify-launch{block=16,16 thread=8,8}"

WRONG = {
    "tileify,blockify-lunch": ("blockify-lunch", "unknown step", "did you mean blockify-launch?"),
    "tileify,cse": ("cse", "is a pass, but no scheduling step", "sixteen"),
    "tileify,mark-unroll{limit=4},mark-unroll{limit=8}": ("mark-unroll", "named twice", "once"),
    f"tileify,{BLOCKS},chunk-matmul-k{{bk=8}}": ("chunk-matmul-k", "named after", "before"),
    "tileify,chunk-matmul-k{bk=x}": ("bk", "expects a number, found x", ""),
    "tileify,chunk-matmul-k{bk=-32}": ("bk", "bk must be at least 1, not -32", ""),
    "tileify,chunk-matmul-k{size=8}": ("size", "has no option 'size'", ""),
    "tileify,chunk-matmul-k": ("chunk-matmul-k", "option 'bk' is missing", "bk=..."),
    "tileify,pad-smem{buffers=A}": ("pad-smem", "option 'padding' is missing", "alone"),
    "tileify,split-matmul-k{splits=2 then=tilefy}": ("then", "unknown step 'tilefy'", ""),
    "tileify,blockify-launch{block=16,16 thread=7,8}": ("thread", "7 threads", "1, 2, 4, 8 or 16"),
    "tileify,blockify-launch{block=64,64 thread=64,64}": ("thread", "4096 threads", ""),
    "tileify,blockify-launch{block=8,8,8 thread=8,8,8}": ("block", "has 3 sizes", "leave out"),
    f"tileify,{BLOCKS},register-tile{{extents=3,3}}": ("extents", "3 does not divide", "1 or 2"),
    "tileify,register-tile{extents=2,2}": ("register-tile", "no serial axis", "blockify-launch"),
    "tileify,double-buffer{depth=300}": ("depth", "2 to 16, not 300", ""),
    f"tileify,{BLOCKS},stage-inputs{{budget=9 buffers=zz}}": (
        "buffers",
        "no input zz",
        "its inputs are",
    ),
    f"tileify,{BLOCKS},pad-smem{{buffers=zz padding=4}}": ("buffers", "no buffer in shared", ""),
}
"""Schedules with the word that each is wrong at, and what the error and its hint say."""


@pytest.mark.parametrize("schedule", WRONG)
def test_what_is_not_obeyed_is_an_error_at_its_place(
    schedule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    word, said, hint = WRONG[schedule]
    file = tmp_path / "k.mlir"
    file.write_text(str(scheduled(GEMM, schedule)))
    assert main(["compile", str(file), "--ir", "tile"]) == 1
    first, line, carets, *rest = capsys.readouterr().err.splitlines()
    assert said in first
    row, column = map(int, first.removeprefix(f"{file}:").split(":")[:2])
    assert file.read_text().splitlines()[row - 1][column - 1 :].startswith(word)
    assert line[carets.index("^") :].startswith(word)
    assert carets.count("^") == len(word)
    assert hint in "\n".join(rest)
    assert "reproduce with" not in "\n".join(rest)


def test_bisect_names_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.mlir"
    file.write_text(str(scheduled(GEMM, "tileify,blockify-lunch")))
    assert main(["bisect", str(file)]) == 1
    said = capsys.readouterr()
    assert "unknown step 'blockify-lunch'" in said.err
    assert "is wrong" not in said.out


def test_dlc_opt_says_what_was_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.mlir"
    file.write_text(str(scheduled(GEMM, "tileify")))
    assert dlc_opt.main([str(file), "-p", "tileify,mark-unroll", "--validate"]) == 0
    assert "2 passes ran: 1 changed the program, and none its results" in capsys.readouterr().err


@dataclass(frozen=True)
class MarkedPass(SchedulingPass):
    """A step outside of the pipeline."""

    name = "mark-all"
    limit: int = 1

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        return "marked"


def test_a_pass_outside_of_the_pipeline_stands_in_no_schedule() -> None:
    module = scheduled(GEMM, "tileify,mark-unroll{limit=4}")
    apply(module, "tileify")
    MarkedPass(3).apply(Context(), module)
    apply(module, "mark-unroll")
    (kernel,) = kernels_of(module)
    assert kernel.schedule is not None
    assert kernel.schedule.data == "tileify,mark-unroll{limit=4}"


def test_what_is_given_is_noted_in_order() -> None:
    module = scheduled(GEMM, f"tileify,{BLOCKS}")
    apply(module, f"tileify,chunk-matmul-k{{bk=8}},{BLOCKS}")
    (kernel,) = kernels_of(module)
    assert kernel.schedule is not None
    assert kernel.schedule.data == f"tileify,chunk-matmul-k{{bk=8}},{BLOCKS}"


def test_steps_with_nothing_to_do_stay_in_the_text() -> None:
    schedule = f"tileify,cooperative-reduce{{threads=32}},{BLOCKS},mark-unroll{{limit=1}}"
    module = scheduled(loop_cases.silu_mul(64, 64), schedule)
    apply(module, ",".join(STEPS))
    assert [k.schedule.data for k in kernels_of(module) if k.schedule] == [schedule]


def test_a_refused_step_changes_nothing() -> None:
    module = scheduled(GEMM, "tileify,register-tile{extents=2}")
    apply(module, "tileify")
    before = str(module)
    with pytest.raises(TextError, match="no serial axis"):
        apply(module, "register-tile")
    assert str(module) == before


ONCE = {(case.expression, *case.inputs.values()): case for case in cases.SUITE}
"""The programs of the suite, of which some have several names."""


@pytest.mark.parametrize("case", ONCE.values(), ids=lambda case: case.name)
def test_default_schedules_are_obeyed(case: cases.Case) -> None:
    """The text stays what it is, and of each step there is a remark on what it did."""
    inputs = [torch.empty(shape) for shape in case.inputs.values()]
    program = import_program(case.function, [*inputs, *case.make_constants()])
    set_target(program.module, "sm_90")
    run_pipeline(register(Context()), program.module, "loop")
    before = {k.name_: k.schedule for k in kernels_of(program.module)}
    with collect() as remarks:
        apply(program.module, ",".join(STEPS), round_trip=False)
    after = {k.name_: k.schedule for k in kernels_of(program.module)}
    assert before.items() <= after.items()
    for name, schedule in before.items():
        assert schedule is not None
        for step in parse_schedule(schedule.data):
            (done,) = {r.text for r in remarks if (r.kernel, r.pass_name) == (name, step.name)}
            assert not done.startswith(SKIPPED) or step.name in ("stage-inputs", "mark-unroll")


def test_a_schedule_that_ran_in_part_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a kernel prints is what made it, also where steps were run by hand."""

    def written(name: str, *arguments: str) -> Path:
        file = tmp_path / name
        assert dlc_opt.main([*arguments, "-o", str(file)]) == 0
        return file

    before = tmp_path / "k.mlir"
    before.write_text(
        str(
            scheduled(
                GEMM, "tileify,chunk-matmul-k{bk=8},stage-inputs{budget=8192},mark-unroll{limit=8}"
            )
        )
    )
    some = written("t.mlir", str(before), "-p", "tileify,blockify-launch{block=8,8 thread=8,8}")
    assert 'until = "blockify-launch"' in some.read_text()
    assert "chunk-matmul-k" not in some.read_text()  # which comes before, and was passed over
    assert main(["compile", str(some)]) == 0
    out, err = capsys.readouterr()
    assert "// grid " in out
    assert "schedule: tileify,blockify-launch{block=8,8 thread=8,8}\n" in out
    assert "of its schedule stage-inputs, mark-unroll did not run" in err
    more = written("u.mlir", str(some), "-p", "stage-inputs")
    assert 'until = "stage-inputs"' in more.read_text()
    done = written("v.mlir", str(more), "-p", "mark-unroll")
    assert "until" not in done.read_text()
    assert main(["compile", str(done)]) == 0
    out, err = capsys.readouterr()
    made = "tileify,blockify-launch{block=8,8 thread=8,8},stage-inputs{budget=8192},mark-unroll"
    assert f"schedule: {made}" in re.sub(r"\n//\s*", "", out)
    assert "did not run" not in err
    assert dlc_opt.main([str(done), "-p", "mark-unroll{limit=4}"]) == 0
    assert "until" not in capsys.readouterr().out  # Tile IR that does not say so is done
