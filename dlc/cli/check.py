"""
`dlc check` and `dlc-opt --check-hazards`: races, missing waits and the like, found on the CPU.

    dlc check -c "torch.randn(64,64) @ torch.randn(64,64)" --target sm_90
    dlc-opt k.mlir --check-hazards

A line for each kernel: `clean`, `hazard` or `not checked`, with what was left out; for a hazard the
operation, its place, and the accesses of both threads. Exit code 0 if all are clean, 1 for a
hazard, 3 if there is none but something was not checked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation

from dlc.analysis.kernel.bank_accesses import report
from dlc.cli.job import Job
from dlc.cli.status_line import STATUS, bar, progress
from dlc.diagnostics import OpError
from dlc.dialects import tile
from dlc.dialects.kernel import FuncOp
from dlc.error_report import file_line_col, format_error
from dlc.ir.locations import LocParser
from dlc.passes import Step, last_step
from dlc.pipeline import Observer, run_pipeline, stage_of, text_of
from dlc.remarks import Remark
from dlc.simulator.checker import Verdict, check_module
from dlc.text import GREEN, RED, YELLOW, paint

CODES = {"clean": 0, "hazard": 1, "not checked": 3}
COLOURS = {"clean": GREEN, "hazard": RED, "not checked": YELLOW}
KERNEL_IR = "<kernel IR>"
"""The file that hazards of kernels name which were not read as Kernel IR."""
Origins: TypeAlias = Mapping[Operation, FileLineColLoc]
Conflicts: TypeAlias = Mapping[str, Sequence[str]]
"""The bank conflicts of kernels, by their names."""


def check_and_report(job: Job) -> int:
    """Checks what was loaded; the exit code."""
    loaded, inputs = job.loaded, None
    if loaded.program is not None:
        inputs = [as_array(t.detach()) for t in loaded.program.bind(loaded.args)]
    text, code = check_text(
        job.ctx,
        loaded.module,
        job.sources,
        inputs,
        job.options.blocks,
        job.options.seed,
        observers=job.observers,
        colour=job.colour,
    )
    sys.stdout.write(text)
    return code


def check_text(
    ctx: Context,
    module: ModuleOp,
    sources: Mapping[str, str],
    inputs: Sequence[NDArray[Any]] | None = None,
    blocks: int | None = None,
    seed: int = 0,
    *,
    conflicts: Conflicts | None = None,
    observers: Sequence[Observer] = (),
    colour: bool = False,
) -> tuple[str, int]:
    """
    Takes a module of any IR to Kernel IR and checks it: the report and the exit code. `conflicts`
    are those of kernels that are Kernel IR already.
    """
    collected = Collected(conflicts)
    run_pipeline(ctx, module, "kernel", [*observers, collected])
    shown, origins = module, {}
    # Terminators that the text leaves out have no place.
    written = (op for op in module.walk() if not isinstance(op, ModuleOp | scf.YieldOp))
    if not all(file_line_col(op.location) for op in written):
        shown, origins = _placed(ctx, module)
        sources = {**sources, KERNEL_IR: text_of(module)}

    def show(func: FuncOp, share: float) -> None:
        STATUS.show(f"{bar(share)} {share:.0%} checking @{func.name_} …")

    with progress("checking …"):
        verdicts = list(check_module(shown, inputs, blocks=blocks, seed=seed, progress=show))
    for verdict in verdicts:
        found = collected.conflicts.get(verdict.func.name_, ())
        verdict.notes += [f"bank conflicts in the model: {access}" for access in found]
    if not verdicts:
        return "not checked: the module has no kernel\n", CODES["not checked"]
    text = "".join(f"{described(v, sources, origins, colour)}\n" for v in verdicts)
    answers = {verdict.answer for verdict in verdicts}
    worst = next(a for a in ("hazard", "not checked", "clean") if a in answers)
    return text, CODES[worst]


def _placed(ctx: Context, module: ModuleOp) -> tuple[ModuleOp, Origins]:
    """The module as its text gives it, each operation at its place there, and where it is from."""
    placed = LocParser(ctx, text_of(module), KERNEL_IR).parse_module()
    pairs = zip(placed.walk(), module.walk(), strict=True)
    return placed, {new: place for new, old in pairs if (place := file_line_col(old.location))}


def described(
    verdict: Verdict,
    sources: Mapping[str, str],
    origins: Origins | None = None,
    colour: bool = False,
) -> str:
    """A verdict as lines."""
    func = verdict.func
    answer = paint(verdict.answer, COLOURS[verdict.answer], colour)
    lines = [f"{func.name_}: {answer}, {func.grid_size} x {func.block_size} threads"]
    lines += [f"  {note}" for note in verdict.notes]
    lines += [f"  not checked: {reason}" for reason in verdict.unknown]
    for hazard in verdict.hazards:
        error = OpError(hazard.op, f"{hazard.kind}: {hazard.sentence}")
        lines += [format_error(error, sources), *(f"  {access}" for access in hazard.accesses)]
        if place := (origins or {}).get(hazard.op):
            lines.append(f"  made from {place.filename.data}:{place.line.data}")
    return "\n".join(lines)


def as_array(tensor: Any) -> NDArray[Any]:
    """A tensor as the interpreter takes it: what NumPy lacks as float32, bytes with a sign."""
    import torch

    if tensor.is_floating_point() and tensor.dtype not in (torch.float64, torch.float16):
        tensor = tensor.float()
    elif tensor.dtype == torch.uint8:
        tensor = tensor.view(torch.int8)
    return tensor.cpu().contiguous().numpy()


def bank_conflicts(module: ModuleOp) -> Conflicts:
    """The bank conflicts of a module's Tile IR kernels, in the model."""
    return {
        op.name_: list(dict.fromkeys(str(access) for access in report(op) if access.ways > 1))
        for op in module.walk()
        if isinstance(op, tile.KernelOp)
    }


class Collected:
    """Collects the bank conflicts of each kernel when its layouts are settled."""

    def __init__(self, conflicts: Conflicts | None = None) -> None:
        self.conflicts: dict[str, Sequence[str]] = dict(conflicts or {})

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        if stage_of(module) == "tile":
            self.conflicts |= bank_conflicts(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == last_step("tile"):
            self.conflicts |= bank_conflicts(module)
