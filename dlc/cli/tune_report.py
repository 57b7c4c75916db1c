"""
`dlc tune`: schedules that are faster than the default ones, by an objective.

    dlc tune -c "torch.nn.RMSNorm(2048)(torch.randn(32, 2048))" --objective host --budget 60s

For each kernel a table of the best candidates and the best schedule; with -v each candidate as it
comes; with --plot a picture of the search; with -o the program in Loop IR with the schedules that
were found. Ctrl-C keeps these.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from dlc.backend.schedule_database import ScheduleDatabase
from dlc.cli.job import Job
from dlc.cli.status_line import STATUS, bar, progress
from dlc.diagnostics import UsageError
from dlc.passes import STAGES
from dlc.pipeline import Observer, stage_of, text_of
from dlc.text import counted
from dlc.tuning.fusion_plans import PlanSearch
from dlc.tuning.interrupts import interruptible
from dlc.tuning.objectives import Objective
from dlc.tuning.traced import GivenSchedules, candidates_of
from dlc.tuning.tune_program import TunedKernels, get_objective, keep_plan, tune_module
from dlc.tuning.tuner import Budget, Trial, Tuning
from dlc.tuning.tuning_plot import plot
from dlc.tuning.tuning_report import difference, report


def tune_and_report(job: Job, writers: Sequence[Observer]) -> int:
    """
    Tunes what was loaded; 130 if it was interrupted, else 0. `writers` say which kernels merge.
    """
    options, module = job.options, job.loaded.module
    if STAGES.index(stage_of(module)) > STAGES.index("loop"):
        raise UsageError(
            f"schedules are for kernels of the Loop IR, and the file is {stage_of(module)} IR"
        )
    try:
        budget, judge = Budget.of(options.budget), get_objective(options.objective, options.ray)
    except ValueError as error:
        raise UsageError(str(error)) from None
    database = ScheduleDatabase(None if options.db is None else Path(options.db))
    untuned = module.clone() if options.trace is not None else None
    plan: list[Observer] = []
    with progress("tuning …"), interruptible():
        if options.plans > 1:
            module, plan = _planned(module, judge, options, database)
        else:
            job.run_passes("loop")
        shown = _Shown(budget, options.verbose > 0)
        found = tune_module(
            module,
            judge,
            budget,
            kernel=options.kernel,
            seed=options.seed,
            jobs=options.j,
            ray=options.ray,
            on_trial=shown.trial,
            on_kernel=shown.kernel,
            database=database,
        )
    if untuned is not None:
        _trace(job, untuned, found, [*writers, *plan])
    if options.plot is not None:
        plot(found.tunings, Path(options.plot))
    if options.o is not None:
        Path(options.o).write_text(text_of(found.module))
    return 130 if found.interrupted else 0


def _trace(job: Job, module: ModuleOp, found: TunedKernels, writers: Sequence[Observer]) -> None:
    """Writes the page of the program with the schedules that were found, and what these beat."""
    from dlc.cli.trace_report import write_trace

    tuned = {tuning.subject.name: candidates_of(tuning) for tuning in found.tunings}
    given = [*writers, GivenSchedules(found.schedules)]
    write_trace(job, job.options.trace, given, tuned=tuned, module=module)


def _planned(
    module: ModuleOp, judge: Objective, options: argparse.Namespace, database: ScheduleDatabase
) -> tuple[ModuleOp, list[Observer]]:
    """
    The Loop IR of the best plan of which kernels merge, which is kept, and the plan; all are
    printed.
    """
    if stage_of(module) == "loop":
        raise UsageError("--plans is for programs whose kernels are not made yet, not for Loop IR")
    search = PlanSearch(module, judge, options.seed or 0)
    best = search.run(options.plans)
    keep_plan(search, database)
    STATUS.clear()
    print(search, end="\n\n")
    return best.module, [best.said] if best.said.groups else []


def transfer(options: argparse.Namespace) -> int:
    """Writes the database of schedules as text, or adds such a text to it."""
    database = ScheduleDatabase(None if options.db is None else Path(options.db))
    if options.read is not None:
        count = database.read(Path(options.read).read_text())
        print(f"{counted(count, 'schedule')} added to {database.path}")
    if options.export is not None:
        text = database.text()
        Path(options.export).write_text(text)
        print(f"{counted(text.count(chr(10)), 'schedule')} written to {options.export}")
    return 0


class _Shown:
    """What is seen of a tuning while it goes on."""

    def __init__(self, budget: Budget, verbose: bool) -> None:
        self.budget, self.verbose = budget, verbose
        self.begin = time.monotonic()

    def trial(self, tuning: Tuning, trial: Trial) -> None:
        if self.verbose:
            number = tuning.trials.index(trial)
            took = "refused" if trial.seconds is None else f"{trial.seconds * 1e6:.2f} us"
            why = trial.refusal or difference(tuning.default.schedule, trial.schedule) or "default"
            print(f"{number:5} {took:>12}  {why.splitlines()[0]}", file=sys.stderr)
        share = self.budget.share(len(tuning.trials), time.monotonic() - self.begin)
        STATUS.show(f"{bar(share)} {tuning.so_far}")

    def kernel(self, tuning: Tuning) -> None:
        self.begin = time.monotonic()
        STATUS.clear()
        print(report(tuning), end="\n\n")
