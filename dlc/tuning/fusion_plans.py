"""
Which kernels merge, as a part of the search: plans beside the one that fusion makes by itself.

A plan is a text (`dlc.dialects.fusion_plan`): `exp:never,add:always`. Each is judged by the
sum of what its kernels take with their default schedules. The search goes from the best plan so far
to those that say one thing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import kernel_key
from dlc.dialects.fusion_plan import FUSING, FusionPlan
from dlc.dialects.loop import KernelOp
from dlc.judge.tuned_schedules import merged
from dlc.passes import Step, step_before
from dlc.pipeline import run_pipeline
from dlc.remarks import Remark
from dlc.stages import compiler_context
from dlc.text import counted, table
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Objective
from dlc.tuning.tuner import Budget, tune_kernel
from dlc.tuning.workers import Died


@dataclass(frozen=True)
class Plan:
    """A plan, and what came of it."""

    said: FusionPlan
    """Nothing in the default plan."""
    module: ModuleOp = field(repr=False)
    """The Loop IR that it makes."""
    seconds: float | None = None
    refusal: str = ""

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        return [op.name_ for op in self.module.walk() if isinstance(op, KernelOp)]

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
        """The best of so many plans; Died if the default one cannot be judged."""
        seen = _Unfused()
        run_pipeline(compiler_context(), self.module.clone(), "loop", [seen])
        assert seen.module is not None, "a program before Loop IR is fused on its way"
        self.unfused = seen.module
        best = self.best = self._judged(seen.module, FusionPlan())
        if best.refusal:
            raise Died(f"the default plan cannot be judged: {best.refusal}")
        known = {tuple(best.kernels)}
        for wishes in islice(self._neighbours(seen.module), most - 1):
            plan = self._judged(seen.module, FusionPlan((*best.said.wishes, wishes)), known)
            if plan.seconds is not None and plan.seconds < (best.seconds or 0):
                best = self.best = plan
        return best

    def _neighbours(self, module: ModuleOp) -> Iterator[tuple[str, str]]:
        """What may be said of kernels that others read."""
        for kernel in module.walk():
            if isinstance(kernel, KernelOp):
                uses = (use.operation for result in kernel.results for use in result.uses)
                if any(isinstance(user, KernelOp) for user in uses):
                    yield kernel.name_, "never"
                    yield kernel.name_, "always"

    def _judged(
        self,
        module: ModuleOp,
        said: FusionPlan,
        known: set[tuple[str, ...]] | None = None,
    ) -> Plan:
        """A plan with its time; one that makes the same kernels as another is refused."""
        try:
            module = merged(compiler_context(), module, said)
            plan = Plan(said, module)
            if known is not None and tuple(plan.kernels) in known:
                plan = Plan(said, module, None, "its kernels are those of another plan")
            else:
                plan = Plan(said, module, sum(map(self._time, _subjects(module, self.seed))))
                if known is not None:
                    known.add(tuple(plan.kernels))
        except Died as reason:
            plan = Plan(said, module, None, str(reason))
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
        """The table of the plans."""
        rows = [
            [str(plan), "-" if plan.seconds is None else f"{plan.seconds * 1e6:.2f}", _told(plan)]
            for plan in self.tried
        ]
        what = f"{counted(len(self.tried), 'plan')}, {self.objective.measures}"
        return f"{what}\n{table(('plan', 'us', 'kernels'), rows)}"


def _told(plan: Plan) -> str:
    return plan.refusal or " | ".join(plan.kernels)


def _subjects(module: ModuleOp, seed: int) -> Iterator[Subject]:
    return (Subject(alone, name, seed) for name, alone in isolated(module))
