"""
Tuning of all kernels of a program, one after the other; the program with the best schedules.

    found = dlc.tune(f, args, objective="static", budget="200")
    print(found)
    g = dlc.compile(f, args, schedules=found.schedules)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.backend.executor import default_backend
from dlc.backend.kernel_program import isolated
from dlc.compiler import compile
from dlc.diagnostics import did_you_mean, with_hint
from dlc.dialects import loop
from dlc.tuning.candidate_program import Subject
from dlc.tuning.objectives import Objective, objective
from dlc.tuning.tuner import Budget, OnTrial, Tuning, tune_kernel
from dlc.tuning.tuning_report import report, verdict

BUDGET = "200"


@dataclass
class TunedKernels:
    """What was found about the kernels of a program."""

    tunings: list[Tuning] = field(default_factory=list)

    @property
    def schedules(self) -> dict[str, str]:
        """For each kernel the best schedule, by its name, where that is not the default."""
        better = [t for t in self.tunings if t.best is not t.default]
        return {t.subject.name: t.best.schedule for t in better}

    def __str__(self) -> str:
        return "\n\n".join(map(report, self.tunings))

    @property
    def summary(self) -> str:
        """A line or two for each kernel."""
        return "\n".join(map(verdict, self.tunings))


def subjects(module: ModuleOp, kernel: str | None, seed: int) -> Iterator[Subject]:
    """The kernels of a module of Loop IR, or the one of that name; ValueError if there is none."""
    found = dict(isolated(module))
    if kernel is not None and kernel not in found:
        error = ValueError(f"there is no kernel '{kernel}' to tune")
        raise with_hint(error, did_you_mean(kernel, found) or f"they are {', '.join(found)}")
    for name, alone in found.items():
        if kernel in (None, name):
            yield Subject(alone, name, seed)


def tune_module(
    module: ModuleOp,
    judge: Objective,
    budget: Budget,
    *,
    kernel: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    on_trial: OnTrial | None = None,
    on_kernel: Callable[[Tuning], None] | None = None,
) -> TunedKernels:
    """Tunes the kernels of a module of Loop IR; what is interrupted is kept, and ends it."""
    found = TunedKernels()
    for subject in subjects(module, kernel, seed):
        tuning = tune_kernel(subject, judge, budget, seed=seed, jobs=jobs, on_trial=on_trial)
        found.tunings.append(tuning)
        if on_kernel is not None:
            on_kernel(tuning)
        if tuning.interrupted:
            break
    return found


def with_schedules(module: ModuleOp, schedules: Mapping[str, str]) -> ModuleOp:
    """A module of Loop IR with schedules written on its kernels."""
    module = module.clone()
    for op in module.walk():
        if isinstance(op, loop.KernelOp) and op.name_ in schedules:
            op.schedule = StringAttr(schedules[op.name_])
    return module


def tune(
    f: Callable[..., Any],
    args: Sequence[Any],
    target: str | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    objective: str | None = None,
    budget: str | int = BUDGET,
    kernel: str | None = None,
    seed: int = 0,
    jobs: int = 1,
) -> TunedKernels:
    """
    Searches for schedules of the kernels of a module or function, called with `args`.

    `objective` is what they are judged by: `gpu` (the default where there is one), `static`: the
    machine code that nvcc makes, `host`: the CPU's clock, `estimate`. `budget` is of each kernel:
    `"60s"`, or a number of candidates. The first candidate is the default schedule, so that none
    that is slower by the objective is chosen. Errors as of `dlc.compile`; BackendError where the
    objective cannot be had, `Died` where a default schedule cannot be judged.
    """
    judge = get_objective(objective)
    program = compile(f, args, target, "host", kwargs)
    module = program.variants[0].module("loop")
    return tune_module(module, judge, Budget.of(str(budget)), kernel=kernel, seed=seed, jobs=jobs)


def get_objective(name: str | None) -> Objective:
    """The objective of a name, or the default one."""
    return objective(name or ("gpu" if default_backend() == "cuda" else "static"))
