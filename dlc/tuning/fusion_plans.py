"""
Which kernels merge, as a part of the search: plans beside the one that fusion makes by itself.

A plan is a text (`dlc.dialects.fusion_plan`): `exp,add+sum`. Each is judged by the sum of what its
kernels take with their default schedules. The search goes from the best plan so far to those in
which a group falls in two, at one of its kernels, or becomes one with those that read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import kernel_key
from dlc.dialects.fusion_plan import FUSING, FusionPlan, Group, note_members
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.judge.tuned_schedules import merged
from dlc.passes import Step, step_before
from dlc.pipeline import run_pipeline
from dlc.remarks import Remark
from dlc.stages import compiler_context
from dlc.text import counted, table
from dlc.tuning.candidate_program import Subject
from dlc.tuning.interrupts import interrupted
from dlc.tuning.objectives import Objective
from dlc.tuning.tuner import Budget, tune_kernel
from dlc.tuning.workers import Died

DEFAULT = FusionPlan()


@dataclass(frozen=True)
class Plan:
    """A plan, and what came of it."""

    said: FusionPlan
    """Nothing in the default plan."""
    module: ModuleOp = field(repr=False)
    """The Loop IR that it makes."""
    made: FusionPlan = DEFAULT
    """What it makes, all kernels in groups."""
    seconds: float | None = None
    refusal: str = ""

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        return [op.name_ for op in kernels_in(self.module, KernelOp)]

    def __str__(self) -> str:
        return str(self.said) or "default"


class _Unfused:
    """An observer that keeps the module as it is before fusion."""

    def __init__(self) -> None:
        self.module: ModuleOp | None = None

    def start(self, module: ModuleOp, steps: Sequence[Step]) -> None:
        pass

    def passed(
        self, step: Step, module: ModuleOp, remarks: Sequence[Remark], seconds: float
    ) -> None:
        if step == step_before(FUSING):
            self.module = module.clone()


@dataclass
class PlanSearch:
    """Plans for a program, by an objective."""

    module: ModuleOp
    """In an IR before Loop IR."""
    objective: Objective
    seed: int = 0
    tried: list[Plan] = field(default_factory=list)
    """The default plan first."""
    best: Plan | None = None
    """Of those that were tried."""
    unfused: ModuleOp | None = None
    """The program before kernels merge, once it was searched."""
    _seconds: dict[str, float] = field(default_factory=dict)
    """Of kernels, by their structure."""

    def run(self, most: int) -> Plan:
        """
        The best of so many plans, of fewer after Ctrl-C; Died if the default one cannot be judged.
        """
        seen = _Unfused()
        run_pipeline(compiler_context(), self.module.clone(), "loop", [seen])
        assert seen.module is not None, "a program before Loop IR is fused on its way"
        self.unfused = seen.module
        best = self.best = self._judged(seen.module, DEFAULT)
        if best.refusal:
            raise Died(f"the default plan cannot be judged: {best.refusal}")
        for said in islice(self._neighbours(seen.module), most - 1):
            if interrupted():
                break
            plan = self._judged(seen.module, said)
            if plan.seconds is not None and plan.seconds < (self.best.seconds or 0):
                self.best = plan
        return self.best

    def _neighbours(self, module: ModuleOp) -> Iterator[FusionPlan]:
        """Plans that are the best so far but for the groups of one kernel that others read."""
        readers = {kernel.name_: _readers(kernel) for kernel in kernels_in(module, KernelOp)}
        for name in readers:
            for move in (_apart, _together):
                assert self.best is not None
                for old, new in move(name, readers, self.best.made.groups):
                    gone = list(map(set, old))
                    kept = [g for g in self.best.said.groups if set(g) not in gone]
                    yield FusionPlan(tuple(dict.fromkeys((*kept, *new))))

    def _judged(self, module: ModuleOp, said: FusionPlan) -> Plan:
        """A plan with its time; one that makes the same kernels as another is refused."""
        module = module.clone()
        note_members(module)
        plan = Plan(said, module)
        try:
            module = merged(compiler_context(), module, said)
            plan = Plan(said, module, FusionPlan.made(module))
            if set(plan.made.groups) in (set(other.made.groups) for other in self.tried):
                plan = replace(plan, refusal="its kernels are those of another plan")
            else:
                seconds = sum(map(self._time, _subjects(module, self.seed)))
                plan = replace(plan, seconds=seconds)
        except (Died, DiagnosticException) as reason:
            plan = replace(plan, refusal=str(reason))
        self.tried.append(plan)
        return plan

    def _time(self, subject: Subject) -> float:
        """Seconds of a kernel with its default schedule."""
        key = kernel_key(subject.kernel)
        if key not in self._seconds:
            tuning = tune_kernel(subject, self.objective, Budget(candidates=1))
            self._seconds[key] = tuning.default.seconds or 0.0
        return self._seconds[key]

    def __str__(self) -> str:
        """The table of the plans, and the groups of the best one."""
        rows = [
            [str(plan), "-" if plan.seconds is None else f"{plan.seconds * 1e6:.2f}", _told(plan)]
            for plan in self.tried
        ]
        what = f"{counted(len(self.tried), 'plan')}, {self.objective.measures}"
        best = "" if self.best is None else f"\nthe best plan: {self.best}"
        if self.best is not None and not self.best.said.groups:
            best += f", which is {self.best.made}"
        return f"{what}\n{table(('plan', 'us', 'kernels'), rows)}{best}"


Groups = tuple[Group, ...]
Change = tuple[Groups, Groups]
"""Groups, and those that take their place."""


def _apart(name: str, readers: Mapping[str, Sequence[str]], groups: Groups) -> Iterator[Change]:
    """
    Groups in which a kernel and what it is computed from are apart from what reads it there: what
    both need is stored by the first, or, if it can be told apart, computed in both.
    """
    for group in groups:
        if name in group and any(reader in group for reader in readers[name]):
            first = _before(name, readers, group)
            rest = tuple(member for member in group if member not in first)
            yield (group,), (first, rest)
            shared = [m for m in first if m != name and set(readers[m]).intersection(rest)]
            again = {m for other in shared for m in _before(other, readers, group)}
            if again:
                yield (group,), (first, tuple(m for m in group if m in again or m in rest))


def _together(name: str, readers: Mapping[str, Sequence[str]], groups: Groups) -> Iterator[Change]:
    """The groups of a kernel joined to each one that reads it."""
    for group in groups:
        others = [g for g in groups if g != group and set(readers[name]).intersection(g)]
        if name in group and others:
            yield (group, *others), tuple(_joined(group, other) for other in others)


def _joined(group: Group, other: Group) -> Group:
    return tuple(dict.fromkeys((*group, *other)))


def _before(name: str, readers: Mapping[str, Sequence[str]], group: Group) -> Group:
    """A kernel and those of a group that it is computed from."""
    found = {name}
    while more := {m for m in group if m not in found and found.intersection(readers[m])}:
        found |= more
    return tuple(member for member in group if member in found)


def _readers(kernel: KernelOp) -> list[str]:
    users = (use.operation for result in kernel.results for use in result.uses)
    return list(dict.fromkeys(user.name_ for user in users if isinstance(user, KernelOp)))


def _told(plan: Plan) -> str:
    return plan.refusal.partition("\n")[0] or " | ".join(plan.kernels)


def _subjects(module: ModuleOp, seed: int) -> Iterator[Subject]:
    return (Subject(alone, name, seed) for name, alone in isolated(module))
