"""
The base of scheduling steps: the kernels that a step acts on, and its options.

A step whose options are given acts on every kernel with these. A bare step takes its options from
the kernel's schedule, a pipeline string on the kernel, and leaves kernels alone whose schedule
does not name it. A kernel that has no schedule yet gets the default one of `heuristics`.

An option that is None is not decided yet. Some steps decide theirs by the kernel as scheduled so
far, when they are bare in its schedule, and state there what they decided; default schedules state
it from the start.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Self, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from dlc import registry
from dlc.dialects import loop, tile
from dlc.dialects.kernel_op import KernelSignature, kernels_in
from dlc.passes import CHOOSING, STEPS
from dlc.remarks import collect, remark
from dlc.schedule.heuristics import choose_schedule
from dlc.target import target_of

Kernel = loop.KernelOp | tile.KernelOp
T = TypeVar("T")

SKIPPED = "skipped, "
"""How the remark of a step that declined begins."""


class Decline(Exception):
    """A step cannot act on a kernel; the message says why. Raised before anything is changed."""


@dataclass(frozen=True)
class SchedulingPass(ModulePass, ABC):
    """Base of the sixteen steps."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels_of(op):
            self.act(kernel, op)

    def act(self, kernel: Kernel, module: ModuleOp) -> None:
        """Applies the step to a kernel of a module, and remarks what was done or why it was not."""
        name, step = kernel.name_, self._step_for(kernel, module)
        if step is None:
            remark(self.name, name, f"{SKIPPED}the kernel's schedule does not name it")
            return
        schedule = kernel.schedule
        try:
            step, done = step.rewrite(kernel, module)
        except Decline as reason:
            done = f"{SKIPPED}{reason}"
        else:
            if schedule is not None:
                _note(step, name, schedule.data, module)
        remark(self.name, name, done)

    def _step_for(self, kernel: Kernel, module: ModuleOp) -> Self | None:
        if self != type(self)():
            return self
        if isinstance(kernel, loop.KernelOp):
            ensure_schedule(kernel, module)
        schedule = "" if kernel.schedule is None else kernel.schedule.data
        return next((s for s in parse_schedule(schedule) if isinstance(s, type(self))), None)

    def rewrite(self, kernel: Kernel, module: ModuleOp) -> tuple[Self, str]:
        """
        Rewrites a kernel, or raises `Decline`. Returns the step with the options that it was done
        with, and what was done.
        """
        if isinstance(kernel, loop.KernelOp):
            raise Decline("tileify has not run")
        step, why = self.decided(kernel, module)
        done = step.rewrite_tile(kernel, module)
        return step, why or done

    def decided(self, kernel: tile.KernelOp, module: ModuleOp) -> tuple[Self, str]:
        """
        This step, with its open options decided for the kernel as scheduled so far, and why; or
        raises `Decline`.
        """
        return self, ""

    @abstractmethod
    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        """Rewrites a kernel in the tile dialect and says what was done, or raises `Decline`."""

    @property
    def is_open(self) -> bool:
        """True if an option is not decided."""
        return any(getattr(self, option.name) is None for option in fields(self))

    def __str__(self) -> str:
        """The step as a schedule states it."""
        options = (
            f"{name}={','.join(map(_written, values))}"
            for name, values in self.spec().parameters.items()
        )
        text = " ".join(options)
        return f"{self.name}{{{text}}}" if text else self.name


def _written(value: object) -> str:
    """A value of an option; names need no quotes."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z_][\w-]*", value, re.ASCII) else f'"{value}"'
    return str(value).lower()


@lru_cache(maxsize=1024)
def parse_schedule(schedule: str) -> tuple[SchedulingPass, ...]:
    """The steps of a schedule, in order; PipelineError for an unknown step or option."""
    steps = [step.pass_name for step in STEPS if step.stage == "tile"]
    known = {name: registry.pass_factories()[name] for name in steps}
    passes = registry.parse_pipeline(schedule, known)
    return tuple(step for step in passes if isinstance(step, SchedulingPass))


def kernels_of(module: ModuleOp) -> list[Kernel]:
    """The kernels of a module that steps act on, in program order."""
    return [k for k in kernels_in(module, KernelSignature) if isinstance(k, Kernel)]


def ensure_schedule(kernel: loop.KernelOp, module: ModuleOp) -> None:
    """Writes the default schedule on a kernel that has none, and remarks why it is chosen."""
    if kernel.schedule is not None:
        return
    choice = choose_schedule(kernel, target_of(module))
    schedule, notes = _decided(kernel, choice.schedule, module)
    kernel.schedule = StringAttr(schedule)
    remark(CHOOSING, kernel.name_, f"gets {schedule}")
    remark(CHOOSING, kernel.name_, f"because {choice.reason}")
    for lost in choice.lost:
        remark(CHOOSING, kernel.name_, f"rather than {lost}")
    for note in notes:
        remark(CHOOSING, kernel.name_, note)


def _decided(kernel: loop.KernelOp, schedule: str, module: ModuleOp) -> tuple[str, list[str]]:
    """
    A schedule with all options decided and without open steps that decline, and what is to be said
    of these decisions. They are made on a copy of the kernel.
    """
    steps = parse_schedule(schedule)
    open_steps = {step.name for step in steps if step.is_open}
    if not open_steps:
        return schedule, []
    last = max(n for n, step in enumerate(steps) if step.is_open)
    copy = kernel.clone()
    copy.schedule = StringAttr(schedule)
    trial = ModuleOp([copy], dict(module.attributes))

    def done() -> Kernel:
        return next(k for k in kernels_of(trial) if k.name_ == kernel.name_)

    with collect() as remarks:
        for step in steps[: last + 1]:
            type(step)().act(done(), trial)
    found = done().schedule
    assert found is not None
    texts = _texts(found.data)
    for step in parse_schedule(found.data):
        if step.is_open:
            del texts[step.name]
    trial.erase()
    notes = [
        f"rather than {r.pass_name}: {r.text.removeprefix(SKIPPED)}"
        if r.text.startswith(SKIPPED)
        else f"with {r.pass_name}: {r.text}"
        for r in remarks
        if r.kernel == kernel.name_ and r.pass_name in open_steps
    ]
    return ",".join(texts.values()), notes


def _texts(schedule: str) -> dict[str, str]:
    """The text of each step of a schedule, by its name."""
    names = [step.name for step in parse_schedule(schedule)]
    return {
        name: schedule[start:end].strip()
        for name, (start, end) in zip(names, registry.pieces(schedule), strict=True)
    }


def _note(step: SchedulingPass, name: str, schedule: str, module: ModuleOp) -> None:
    """States in a kernel's schedule the options that a step was done with."""
    if step in parse_schedule(schedule):
        return
    texts = _texts(schedule)
    texts[step.name] = str(step)
    for kernel in kernels_of(module):
        if isinstance(kernel, tile.KernelOp) and kernel.name_ == name:
            kernel.schedule = StringAttr(",".join(texts.values()))


def by_name(
    found: Sequence[tuple[str, T]], what: str, names: Sequence[str], values: Sequence[int]
) -> dict[T, int]:
    """
    Those of `found` that names stand for, all if there are none, each with its value, or all with
    one. A name that several share stands for the first of them, the next time for the second.
    """
    names = names or [name for name, _ in found]
    if len(values) == 1:
        values = [*values] * len(names)
    if len(values) != len(names):
        raise Decline(f"expected a value for each {what}, found {len(values)} for {len(names)}")
    left = list(found)
    chosen: dict[T, int] = {}
    for name, value in zip(names, values, strict=True):
        match = next((pair for pair in left if pair[0] == name), None)
        if match is None:
            raise Decline(f"it has no {what} {name}")
        left.remove(match)
        chosen[match[1]] = value
    return chosen
