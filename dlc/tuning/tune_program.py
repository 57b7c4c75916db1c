"""
Tuning of all kernels of a program, one after the other; the program with the best schedules.

    found = dlc.tune(f, args, objective="static", budget="200")
    print(found)
    g = dlc.compile(f, args, plan=found.plan, schedules=found.schedules)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.backend import BackendError
from dlc.backend.cache import content_key
from dlc.backend.executor import default_backend
from dlc.backend.kernel_program import isolated
from dlc.backend.schedule_database import Entry, ScheduleDatabase, kernel_key
from dlc.compiler import compile
from dlc.diagnostics import did_you_mean, with_hint
from dlc.dialects import loop
from dlc.judge.tuned_schedules import PLAN, program_key, still_makes, text_digest
from dlc.log import get_logger
from dlc.notebook import Bar, is_notebook
from dlc.pipeline import text_of
from dlc.stages import compiler_context
from dlc.target import target_of
from dlc.tuning.candidate_program import Subject
from dlc.tuning.fusion_plans import PlanSearch
from dlc.tuning.interrupts import interrupted, interruptible
from dlc.tuning.objectives import Objective, objective
from dlc.tuning.tuner import Budget, OnTrial, Trial, Tuning, tune_kernel
from dlc.tuning.tuning_report import report, verdict
from dlc.tuning.workers import Died
from dlc.version import source_key

BUDGET = "200"


@dataclass
class TunedKernels:
    """What was found about the kernels of a program."""

    program: ModuleOp
    """The Loop IR that was tuned."""
    tunings: list[Tuning] = field(default_factory=list)
    interrupted: bool = False
    """True if Ctrl-C ended it."""
    plans: PlanSearch | None = None
    """The search for which kernels merge, if there was one."""

    @property
    def module(self) -> ModuleOp:
        """The Loop IR with the schedules that were found."""
        return with_schedules(self.program, self.schedules)

    @property
    def plan(self) -> str | None:
        """The best plan of which kernels merge, where that is not the default."""
        best = None if self.plans is None else self.plans.best
        return str(best.said) if best is not None and best.said.groups else None

    @property
    def schedules(self) -> dict[str, str]:
        """For each kernel the best schedule, by its name, where that is not the default."""
        better = [t for t in self.tunings if t.best is not t.default]
        return {t.subject.name: t.best.schedule for t in better}

    def __str__(self) -> str:
        plans = [str(self.plans)] if self.plans is not None else []
        return "\n\n".join([*plans, *map(report, self.tunings)])

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
    ray: str | None = None,
    on_trial: OnTrial | None = None,
    on_kernel: Callable[[Tuning], None] | None = None,
    database: ScheduleDatabase | None = None,
) -> TunedKernels:
    """
    Tunes the kernels of a module of Loop IR; what is interrupted is kept, and ends it. Each that is
    better than all before goes to the database, if there is one, as it is found.
    """
    found = TunedKernels(module)
    with interruptible():
        for subject in subjects(module, kernel, seed):
            if found.interrupted or interrupted():
                found.interrupted = True
                break
            keeper = None if database is None else _Keeper(database)

            def noted(tuning: Tuning, trial: Trial, keeper: _Keeper | None = keeper) -> None:
                if keeper is not None and trial is tuning.best:
                    keeper.keep(tuning)
                if on_trial is not None:
                    on_trial(tuning, trial)

            options: dict[str, Any] = {"seed": seed, "jobs": jobs, "ray": ray}
            try:
                tuning = tune_kernel(subject, judge, budget, **options, on_trial=noted)
            except Died:
                if not interrupted():
                    raise
                found.interrupted = True
                break
            found.tunings.append(tuning)
            found.interrupted = tuning.interrupted
            if keeper is not None and tuning.best.score is not None:
                keeper.keep(tuning)
            if on_kernel is not None:
                on_kernel(tuning)
    return found


@dataclass
class _Keeper:
    """
    Keeps the best of a tuning in the database, in the place of the best before, and of what an
    earlier dlc has found if it makes other code by now.
    """

    database: ScheduleDatabase
    last: Entry | None = None
    """What is in the database by now and shall be replaced."""
    kept: bool = False
    failed: bool = False

    def keep(self, tuning: Tuning) -> None:
        """BackendError if not even the first entry can be kept; later ones may be missing."""
        if self.failed:
            return
        entry, subject = entry_of(tuning), tuning.subject
        try:
            if not self.kept:
                known = self.database.find(entry.kernel, entry.target, (entry.objective,))
                if known is not None and not still_makes(compiler_context(), subject.module, known):
                    self.last = known
            self.database.put(entry, instead_of=self.last)
        except BackendError as error:
            if not self.kept:
                raise
            get_logger("compile").warning("%s; the search goes on without it", error)
            self.failed = True
        self.last, self.kept = entry, True


def entry_of(tuning: Tuning) -> Entry:
    """What a database keeps of a tuning: the best so far."""
    subject, best = tuning.subject, tuning.best
    digest = text_digest(compiler_context(), subject.module, best.schedule)
    return Entry(
        kernel_key(subject.kernel),
        subject.target.label,
        tuning.objective.name,
        subject.name,
        best.schedule,
        best.seconds or 0.0,
        tuning.default.seconds or 0.0,
        digest,
        source_key(),
    )


def keep_plan(search: PlanSearch, database: ScheduleDatabase) -> None:
    """Writes the best plan to a database, where it is not the default."""
    best, default, unfused = search.best, search.tried[0], search.unfused
    if best is None or unfused is None or best is default:
        return
    seconds, usual = best.seconds or 0.0, default.seconds or 0.0
    digest = content_key(text_of(best.module))
    by = program_key(unfused), target_of(unfused).label, search.objective.name
    database.put(Entry(*by, PLAN, str(best), seconds, usual, digest, source_key()))


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
    precision: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    objective: str | None = None,
    budget: str | int = BUDGET,
    kernel: str | None = None,
    plans: int = 1,
    seed: int = 0,
    jobs: int = 1,
    ray: str | None = None,
    database: str | Path | bool = True,
) -> TunedKernels:
    """
    Searches for schedules of the kernels of a module or function, called with `args`.

    `objective` is what they are judged by: `gpu` (the default where there is one), `static`: the
    machine code that nvcc makes, `host`: the CPU's clock, `estimate`. `budget` is of each kernel:
    `"60s"`, or a number of candidates. The first candidate is the default schedule, so that none
    that is slower by the objective is chosen. Of so many `plans` of which kernels merge, the best
    is taken first: `dlc.compile(f, args, plan=found.plan, schedules=found.schedules)` takes it.
    What is found goes to the database beside the cache, which `dlc.compile(…, tuned=True)` reads;
    to the file `database` if it is one, or nowhere.
    `jobs` candidates are judged at once, in processes or, with an address `ray`, as tasks of a Ray
    cluster. Ctrl-C ends it, with what was found by then. Errors as of `dlc.compile`; BackendError
    where the objective cannot be had, `Died` where a default schedule cannot be judged.
    """
    judge = get_objective(objective, ray)
    program = compile(f, args, target, "host", kwargs, precision=precision)
    stages = program.variants[0]
    module = stages.module("loop")
    search = PlanSearch(stages.module("tensor"), judge, seed) if plans > 1 else None
    where = Path(database) if isinstance(database, str | Path) else None
    kept = ScheduleDatabase(where) if database else None
    with interruptible():
        if search is not None:
            module = search.run(plans).module
            if kept is not None:
                keep_plan(search, kept)
        spent = Budget.of(str(budget))
        shown = _InNotebook(spent) if is_notebook() else None
        found = tune_module(
            module,
            judge,
            spent,
            kernel=kernel,
            seed=seed,
            jobs=jobs,
            ray=ray,
            on_trial=shown and shown.trial,
            on_kernel=shown and shown.kernel,
            database=kept,
        )
    found.plans = search
    return found


class _InNotebook:
    """How far a tuning is, below the cell, with the best so far."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.bar = budget, Bar()
        self.begin = time.monotonic()

    def trial(self, tuning: Tuning, trial: Trial) -> None:
        share = self.budget.share(len(tuning.trials), time.monotonic() - self.begin)
        self.bar.show(share, tuning.so_far)

    def kernel(self, tuning: Tuning) -> None:
        self.begin = time.monotonic()
        self.bar.clear()


def get_objective(name: str | None, ray: str | None = None) -> Objective:
    """The objective of a name, or the default one, to be had here or on a Ray cluster."""
    name = name or ("gpu" if default_backend() == "cuda" else "static")
    return objective(name, elsewhere=ray is not None)
