"""Schedules of the database on the kernels of a module, those that make what they made."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.backend.cache import content_key
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import Entry, ScheduleDatabase, kernel_key
from dlc.dialects import loop
from dlc.dialects.kernel_op import TUNED
from dlc.log import get_logger
from dlc.passes import CHOOSING, Step, step_before
from dlc.pipeline import run_pipeline, stage_of
from dlc.remarks import Remark
from dlc.target import target_of
from dlc.version import source_key

"""The pass before kernels get schedules."""


def objectives_for(backend: str) -> Sequence[str]:
    """The objectives whose schedules serve a backend, best first."""
    return ("host",) if backend == "host" else ("gpu", "static")


class TunedSchedules:
    """
    An observer that writes what the database has on kernels without a schedule, before they would
    get the default one.
    """

    def __init__(self, ctx: Context, database: ScheduleDatabase, objectives: Sequence[str]) -> None:
        self.ctx, self.database, self.objectives = ctx, database, objectives

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        if stage_of(module) == "loop":
            self.apply(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == step_before(CHOOSING):
            self.apply(module)

    def apply(self, module: ModuleOp) -> None:
        """The schedules of the database on the kernels of a module of Loop IR."""
        target = target_of(module).name
        for kernel in module.walk():
            if not isinstance(kernel, loop.KernelOp) or kernel.schedule is not None:
                continue
            entry = self.database.find(kernel_key(kernel), target, self.objectives)
            if entry is None:
                continue
            alone = dict(isolated(module))[kernel.name_]
            if not still_makes(self.ctx, alone, entry):
                get_logger("compile").warning(
                    "the tuned schedule of %s makes other code than when it was tuned, and is "
                    "left out: tune it again",
                    kernel.name_,
                )
                continue
            kernel.schedule = StringAttr(entry.schedule)
            kernel.attributes[TUNED] = StringAttr(str(entry))


def still_makes(ctx: Context, alone: ModuleOp, entry: Entry) -> bool:
    """True if this dlc makes of a kernel alone what was made of it when it was tuned."""
    return entry.source == source_key() or text_digest(ctx, alone, entry.schedule) == entry.digest


def text_digest(ctx: Context, alone: ModuleOp, schedule: str) -> str:
    """The digest of the CUDA text of a kernel alone with a schedule; empty if it is refused."""
    module = alone.clone()
    for op in module.walk():
        if isinstance(op, loop.KernelOp):
            op.schedule = StringAttr(schedule)
            op.sym_name = StringAttr("kernel")
    try:
        run_pipeline(ctx, module, "kernel")
        return content_key(print_module(module))
    except Exception:  # what cannot be obeyed any more makes no text
        return ""
