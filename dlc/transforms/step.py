"""
What all scheduling steps share: which kernels a step acts on, and with which options.

A step whose options are given acts on every kernel with these. A bare step takes its options from
the kernel's schedule, a pipeline string on the kernel, and leaves kernels alone whose schedule
does not name it. A kernel that has no schedule yet gets the default one of `heuristics`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline

from dlc.dialects import loop, tile
from dlc.remarks import remark
from dlc.schedule.heuristics import choose_schedule
from dlc.target import target_of

CHOOSING = "schedule-kernels"
"""The pass that chooses schedules, under whose name a choice is remarked wherever it is made."""


class Decline(Exception):
    """A step cannot act on a kernel; the message says why. Raised before anything is changed."""


@lru_cache(maxsize=1024)
def parse_schedule(schedule: str) -> tuple[ArgSpec, ...]:
    """The steps of a schedule, in order; PipelineError for an unknown step or option."""
    if not schedule:
        return ()
    # The registry knows all passes, which are based on this module.
    from dlc import registry
    from dlc.passes import STEPS

    steps = [step.pass_name for step in STEPS if step.stage == "tile"]
    registry.parse_pipeline(schedule, {name: registry.pass_factories()[name] for name in steps})
    return tuple(parse_pipeline(schedule))


def ensure_schedule(kernel: loop.KernelOp, module: ModuleOp) -> None:
    """Writes the default schedule on a kernel that has none, and remarks why it is chosen."""
    if kernel.schedule is not None:
        return
    choice = choose_schedule(kernel, target_of(module))
    kernel.schedule = StringAttr(choice.schedule)
    remark(CHOOSING, kernel.name_, f"gets {choice.schedule}")
    remark(CHOOSING, kernel.name_, f"because {choice.reason}")
    for lost in choice.lost:
        remark(CHOOSING, kernel.name_, f"rather than {lost}")


@dataclass(frozen=True)
class SchedulingPass(ModulePass, ABC):
    """Base of the sixteen steps."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.walk() if isinstance(k, loop.KernelOp | tile.KernelOp)]:
            step = self._step_for(kernel, op)
            if step is None:
                remark(self.name, kernel.name_, "skipped, the kernel's schedule does not name it")
                continue
            schedule = kernel.schedule
            name = kernel.name_
            try:
                done = step.rewrite(kernel, op)
            except Decline as reason:
                done = f"skipped, {reason}"
            else:
                if step is self and schedule is not None:
                    self._note(name, schedule.data, op)
            remark(self.name, name, done)

    def _note(self, name: str, schedule: str, module: ModuleOp) -> None:
        """States in a kernel's schedule the options that this step was given."""
        steps = {spec.name: str(spec) for spec in parse_schedule(schedule)}
        steps[self.name] = str(self)
        for kernel in module.walk():
            if isinstance(kernel, tile.KernelOp) and kernel.name_ == name:
                kernel.schedule = StringAttr(",".join(steps.values()))

    def _step_for(self, kernel: loop.KernelOp | tile.KernelOp, module: ModuleOp) -> Self | None:
        if self != type(self)():
            return self
        if isinstance(kernel, loop.KernelOp):
            ensure_schedule(kernel, module)
        schedule = "" if kernel.schedule is None else kernel.schedule.data
        for spec in parse_schedule(schedule):
            if spec.name == self.name:
                return type(self).from_spec(spec)
        return None

    def rewrite(self, kernel: loop.KernelOp | tile.KernelOp, module: ModuleOp) -> str:
        """Rewrites a kernel and says what was done, or raises `Decline`."""
        if isinstance(kernel, loop.KernelOp):
            raise Decline("tileify has not run")
        return self.rewrite_tile(kernel, module)

    @abstractmethod
    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        """Rewrites a kernel in the tile dialect and says what was done, or raises `Decline`."""
