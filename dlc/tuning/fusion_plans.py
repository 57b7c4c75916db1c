"""
Which kernels merge, as a part of the search: plans beside the one that fusion makes by itself.

A plan is what the attribute `fuse` says of kernels as they are before `fuse-loops`: `exp:never`,
`add:always`. Each is judged by the sum of what its kernels take with their default schedules. The
search goes from the best plan so far to those that say one thing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import kernel_key
from dlc.dialects.loop import KernelOp
from dlc.passes import Step, step_before, steps
from dlc.pipeline import apply_step, run_pipeline
from dlc.remarks import Remark
from dlc.stages import compiler_context
from dlc.text import counted, table
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Objective
from dlc.tuning.tuner import Budget, tune_kernel
from dlc.tuning.workers import Died

FUSING, ATTRIBUTE = "fuse-loops", "fuse"


def _from_fusion_on() -> list[Step]:
    """From fusion on, the steps that make Loop IR."""
    rest = steps()[steps().index(step_before(FUSING)) + 1 :]
    return [step for step in rest if step.stage == "loop"]


@dataclass(frozen=True)
class Plan:
    """A plan, and what came of it."""

    wishes: tuple[tuple[str, str], ...]
    """Kernels by name, each with `never` or `always`; nothing in the default plan."""
    module: ModuleOp = field(repr=False)
    """The Loop IR that it makes."""
    seconds: float | None = None
    refusal: str = ""

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        return [op.name_ for op in self.module.walk() if isinstance(op, KernelOp)]

    def __str__(self) -> str:
        return ",".join(f"{name}:{wish}" for name, wish in self.wishes) or "default"


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
    _seconds: dict[str, float] = field(default_factory=dict)
    """Of kernels, by their structure."""

    def run(self, most: int) -> Plan:
        """The best of so many plans; Died if the default one cannot be judged."""
        seen = _Unfused()
        run_pipeline(compiler_context(), self.module.clone(), "loop", [seen])
        assert seen.module is not None, "a program before Loop IR is fused on its way"
        best = self._judged(seen.module, ())
        if best.refusal:
            raise Died(f"the default plan cannot be judged: {best.refusal}")
        known = {tuple(best.kernels)}
        for wishes in islice(self._neighbours(seen.module), most - 1):
            plan = self._judged(seen.module, (*best.wishes, wishes), known)
            if plan.seconds is not None and plan.seconds < (best.seconds or 0):
                best = plan
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
        wishes: tuple[tuple[str, str], ...],
        known: set[tuple[str, ...]] | None = None,
    ) -> Plan:
        """A plan with its time; one that makes the same kernels as another is refused."""
        module = module.clone()
        wanted = dict(wishes)
        for op in module.walk():
            if isinstance(op, KernelOp) and op.name_ in wanted:
                op.attributes[ATTRIBUTE] = StringAttr(wanted[op.name_])
        try:
            for step in _from_fusion_on():
                apply_step(compiler_context(), module, step.pass_name)
            plan = Plan(wishes, module)
            if known is not None and tuple(plan.kernels) in known:
                plan = Plan(wishes, module, None, "its kernels are those of another plan")
            else:
                plan = Plan(wishes, module, sum(map(self._time, _subjects(module, self.seed))))
                if known is not None:
                    known.add(tuple(plan.kernels))
        except Died as reason:
            plan = Plan(wishes, module, None, str(reason))
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
