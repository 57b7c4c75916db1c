"""The commands of `dlc` behind the options of its command line."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.utils.exceptions import ArgSpecParseError

from dlc.cli.job import Job, new_context
from dlc.cli.observers import Diffs, Remarks, Timing
from dlc.cli.option_rules import settle
from dlc.cli.program_input import (
    Loaded,
    check_present,
    kind_of,
    load_model_program,
    load_module,
    load_program,
)
from dlc.cli.status_line import STATUS
from dlc.cli.written_files import check_written
from dlc.diagnostics import UsageError, failed_pass
from dlc.garbage import uncollected
from dlc.text import wants_colour

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from dlc.judge.validation import Validation
    from dlc.pipeline import Observer
    from dlc.trace.model import Measurement
    from dlc.trace.verdicts import Verdicts


def run_command(options: argparse.Namespace, begin: float) -> int:
    """The exit code; errors are printed. `begin` is when the import of this module began."""
    sources: dict[str, str] = {}
    timing = Timing(time.perf_counter() - begin)
    try:
        if options.command == "generate":
            from dlc.cli.generate_report import generate_and_report

            return generate_and_report(options)
        settle(options)
        check_written(options)
        if options.command == "tune" and (options.export or options.read):
            from dlc.cli.tune_report import transfer

            return transfer(options)
        with _device_of_tensors(options):
            return _load_and_run(options, sources, timing)
    except BrokenPipeError:
        raise
    except (Exception, ArgSpecParseError) as error:
        return _tell(error, options, sources)
    finally:
        STATUS.clear()


def _tell(error: BaseException, options: argparse.Namespace, sources: dict[str, str]) -> int:
    """Prints an error and how to show it again: the exit code."""
    from dlc.cli.error_text import describe  # with xDSL
    from dlc.cli.pass_reproducer import advance, is_refusal, reproduction

    STATUS.clear()
    if options.debug:
        traceback.print_exception(error)
    sys.stdout.flush()
    print(describe(error, sources), file=sys.stderr)
    failed = None if options.command == "generate" else failed_pass(error)
    if failed is not None and not is_refusal(error):

        def before() -> ModuleOp:
            module = _load(options, sources, Timing()).module
            advance(new_context(), module, failed)
            return module

        print(reproduction(error, sources, failed, before), file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def _load(options: argparse.Namespace, sources: dict[str, str], timing: Timing) -> Loaded:
    file: str | None = options.file
    kind = "text" if file is None else kind_of(file)
    if file not in (None, "-") and kind in ("module", "script"):
        check_present(file)
    if file is not None and kind == "module":
        from dlc.cli.edit_warnings import warn_of_oversights, warn_of_steps_left

        with timing.phase("dlc", "parsing"):
            module = load_module(new_context(), file, options, sources)
            warn_of_oversights(module, sources)
            warn_of_steps_left(module, sources)
            return Loaded.of(module)
    if file is not None and kind == "model":
        return load_model_program(file, options, timing)
    return load_program(options, options.text, file, options.target, timing)


def _load_and_run(options: argparse.Namespace, sources: dict[str, str], timing: Timing) -> int:
    loaded = _load(options, sources, timing)
    validation = _validation(loaded, options, timing) if options.validate else None
    page = getattr(options, "trace", None)
    traced = validation is not None and (page is not None or options.command == "trace")
    verdicts = _verdicts(validation) if traced else None
    observers: list[Observer] = [timing, *filter(None, [None if traced else validation])]
    writers = _writers(options, loaded)
    observers[:0] = writers
    if options.verbose > (options.command == "tune"):  # whose -v shows candidates
        observers.insert(0, Remarks())
    if options.verbose > 1:
        observers.insert(0, Diffs(wants_colour(options.color, sys.stdout)))
    job = Job(loaded, options, observers, timing, sources)
    if page is not None and options.command == "compile":
        from dlc.cli.trace_report import write_trace

        write_trace(job, page, writers, verdicts)
    code = _run(job, writers, verdicts)
    sys.stdout.flush()
    if validation is not None:
        print(validation, file=sys.stderr)
        timing.phases.append(("dlc", "runs of states", validation.seconds))
    if options.timing:
        print(timing, file=sys.stderr)
    return code


def _writers(options: argparse.Namespace, loaded: Loaded) -> list[Observer]:
    """What says which kernels merge, and gives them schedules. IR is made for a plan alone."""
    found: list[Observer] = []
    if (text := getattr(options, "plan", None)) is not None:
        from dlc.dialects.fusion_plan import FusionPlan
        from dlc.pipeline import stage_of

        if (stage := stage_of(loaded.module)) not in ("torch", "tensor"):
            raise UsageError(
                f"--plan is for programs whose kernels are not made yet, not {stage} IR"
            )
        found.append(FusionPlan.of(text))
    if getattr(options, "tuned", False):
        found.append(_tuned(options))
    return found


def _tuned(options: argparse.Namespace) -> Observer:
    """What gives kernels the schedules that were tuned for where they will run."""
    from dlc.backend.executor import default_backend
    from dlc.backend.schedule_database import ScheduleDatabase
    from dlc.judge.tuned_schedules import TunedSchedules, objectives_for

    given = "cuda" if options.command in ("compile", "trace") else options.backend
    database = ScheduleDatabase(None if options.db is None else Path(options.db))
    return TunedSchedules(new_context(), database, objectives_for(given or default_backend()))


def _validation(loaded: Loaded, options: argparse.Namespace, timing: Timing) -> Validation:
    from dlc.judge.validation import Question, Validation

    with timing.phase("dlc", "the results to validate by"):
        question = Question.of(new_context(), loaded.module, loaded.arguments(options.seed))
    return Validation(new_context(), question)


def _verdicts(validation: Validation | None) -> Verdicts | None:
    """A validation whose answers the page shows, so that each state is run once."""
    from dlc.trace.verdicts import Verdicts

    return None if validation is None else Verdicts(validation)


def _run(job: Job, writers: Sequence[Observer], verdicts: Verdicts | None) -> int:
    """The command itself: its exit code. `writers` and `verdicts` are for the page of a trace."""
    match job.options.command:
        case "compile":
            from dlc.cli.outputs import compile_and_write

            with uncollected():  # a whole model leaves 15 MiB of garbage
                compile_and_write(job)
            return 0
        case "check":
            from dlc.cli.check import check_and_report

            return check_and_report(job)
        case "bisect":
            from dlc.cli.bisection import bisect_and_report

            return bisect_and_report(job)
        case "tune":
            from dlc.cli.tune_report import tune_and_report

            return tune_and_report(job, writers)
        case "trace":
            from dlc.cli.trace_report import trace_and_report

            return trace_and_report(job, verdicts)
        case _:
            return _run_and_trace(job, writers, verdicts)


def _run_and_trace(job: Job, writers: Sequence[Observer], verdicts: Verdicts | None) -> int:
    """Runs the program; the page has what its kernels took, unless the run failed."""
    from dlc.cli.run_report import run_and_report

    times: list[Measurement] = []
    try:
        return run_and_report(job, times.append)
    finally:
        if job.options.trace is not None:
            from dlc.cli.trace_report import write_trace

            write_trace(job, job.options.trace, writers, verdicts, next(iter(times), None))


def _device_of_tensors(options: argparse.Namespace) -> AbstractContextManager[object]:
    """The device on which a program makes its tensors: the GPU if it is to be measured there."""
    if options.command != "run" or not options.bench:
        return nullcontext()
    from dlc.cli.bench_report import bench_device

    return bench_device(options)
