"""What the database has on a program: plans of which kernels merge, schedules of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.backend.cache import content_key
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import Entry, ScheduleDatabase, kernel_key
from dlc.dialects import loop
from dlc.dialects.fusion_plan import FUSING, FusionPlan
from dlc.dialects.kernel_op import TUNED
from dlc.log import get_logger
from dlc.passes import CHOOSING, Step, step_before, steps
from dlc.pipeline import apply_step, run_pipeline, stage_of, text_of
from dlc.remarks import Remark
from dlc.target import target_of
from dlc.version import source_key

PLAN = "which kernels merge"
"""What the entry of a plan has in the place of a kernel's name."""


def objectives_for(backend: str) -> Sequence[str]:
    """The objectives whose schedules serve a backend, best first."""
    return ("host",) if backend == "host" else ("gpu", "static")


class TunedSchedules:
    """
    An observer that writes what the database has: on kernels that are about to merge the plan for
    them, unless there is one; on kernels without a schedule that, before they would get the default
    one.
    """

    def __init__(self, ctx: Context, database: ScheduleDatabase, objectives: Sequence[str]) -> None:
        self.ctx, self.database, self.objectives = ctx, database, objectives

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        if stage_of(module) == "loop":
            self.apply(module)

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == step_before(FUSING):
            self.apply_plan(module)
        if step == step_before(CHOOSING):
            self.apply(module)

    def apply_plan(self, module: ModuleOp) -> None:
        """The plan of the database on a program whose kernels are about to merge."""
        if FusionPlan.written(module).groups:
            return
        entry = self.database.find(program_key(module), target_of(module).label, self.objectives)
        if entry is None or not entry.schedule:
            return
        plan = FusionPlan.of(entry.schedule)
        if entry.source != source_key():
            if content_key(text_of(merged(self.ctx, module, plan))) != entry.digest:
                get_logger("compile").warning(
                    "the tuned plan %s makes other kernels than when it was tuned, and is left "
                    "out: tune it again",
                    plan,
                )
                return
        plan.write(module)
        module.attributes[TUNED] = StringAttr(str(entry))

    def apply(self, module: ModuleOp) -> None:
        """The schedules of the database on the kernels of a module of Loop IR."""
        target = target_of(module).label
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


def program_key(module: ModuleOp) -> str:
    """The key of a program whose kernels are about to merge."""
    return content_key(text_of(module))


def merged(ctx: Context, module: ModuleOp, plan: FusionPlan) -> ModuleOp:
    """The Loop IR that a plan makes of a program whose kernels are about to merge."""
    module = module.clone()
    plan.write(module)
    rest = steps()[steps().index(step_before(FUSING)) + 1 :]
    for step in (step for step in rest if step.stage == "loop"):
        apply_step(ctx, module, step.pass_name)
    return module


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
