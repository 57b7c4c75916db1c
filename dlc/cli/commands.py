"""`dlc compile`, `dlc run`, `dlc check` and `dlc bisect` behind the command line's options."""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext

from xdsl.context import Context
from xdsl.utils.exceptions import ArgSpecParseError

from dlc.backend import BackendError
from dlc.cli.explain import Explanation
from dlc.cli.observers import Diffs, Remarks, Timing
from dlc.cli.option_rules import names_directory, settle
from dlc.cli.pass_reproducer import advance, write_reproducer
from dlc.cli.program_input import Loaded, kind_of, load_model_program, load_module, load_program
from dlc.cli.status_line import STATUS, progress
from dlc.diagnostics import UsageError, failed_pass, format_error
from dlc.frontend.quick_imports import uncollected
from dlc.pipeline import Observer, run_pipeline, text_of
from dlc.registry import register
from dlc.text import wants_colour


def run_command(options: argparse.Namespace, begin: float) -> int:
    """The exit code; errors are printed. `begin` is when the import of this module began."""
    sources: dict[str, str] = {}
    timing = Timing(time.perf_counter() - begin)
    try:
        return _dispatch(options, sources, timing)
    except BrokenPipeError:
        raise
    except (Exception, ArgSpecParseError) as error:
        STATUS.clear()
        if options.debug:
            traceback.print_exception(error)
        sys.stdout.flush()
        print(describe(error, sources), file=sys.stderr)
        if (failed := failed_pass(error)) is not None:
            print(_reproduction(options, sources, failed, error), file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    finally:
        STATUS.clear()


def _reproduction(
    options: argparse.Namespace, sources: dict[str, str], failed: str, error: BaseException
) -> str:
    """
    Writes the program as it was before a pass that failed; a line with the command that runs the
    pass, or why there is none.
    """
    ctx = register(Context())
    validate = "--validate" if type(error).__name__ == "WrongResult" else ""
    try:
        module = _load(ctx, options, sources, Timing()).module
        advance(ctx, module, failed)
        return f"reproduce with: {write_reproducer(text_of(module), failed, validate)}"
    except (Exception, ArgSpecParseError) as obstacle:
        return f"no reproducer is written: {describe(obstacle, sources)}"


def describe(error: BaseException, sources: dict[str, str]) -> str:
    """An error as the user reads it. The frontend's have their place in their text."""
    if isinstance(error, BackendError):
        return f"error: {error}"
    if type(error).__module__ == "dlc.frontend.source":
        first = str(error).split("\n")[0]
        return str(error) if re.search(r"(^|: )error: ", first) else f"error: {error}"
    return format_error(error, sources)


def _load(
    ctx: Context, options: argparse.Namespace, sources: dict[str, str], timing: Timing
) -> Loaded:
    file: str | None = options.file
    kind = "text" if file is None else kind_of(file)
    if file is not None and kind == "module":
        with timing.phase("dlc", "parsing"):
            return Loaded(load_module(ctx, file, options.target, sources))
    if file is not None and kind == "model":
        return load_model_program(file, options, timing)
    return load_program(options.text, file, options.target, timing, options.seed)


def _dispatch(options: argparse.Namespace, sources: dict[str, str], timing: Timing) -> int:
    settle(options)
    with _place_of_tensors(options):
        return _compile_or_run(options, sources, timing)


def _compile_or_run(options: argparse.Namespace, sources: dict[str, str], timing: Timing) -> int:
    ctx = register(Context())
    loaded = _load(ctx, options, sources, timing)
    observers: list[Observer] = [timing]
    validation = None
    if options.validate:
        from dlc.judge.validation import Question, Validation

        with timing.phase("dlc", "the results to validate by"):
            question = Question.of(ctx, loaded.module, loaded.arguments(options.seed))
        validation = Validation(ctx, question)
        observers.append(validation)
    if options.verbose:
        observers.insert(0, Remarks())
    if options.verbose > 1:
        observers.insert(0, Diffs(wants_colour(options.color, sys.stdout)))
    if options.command == "compile":
        with uncollected():  # a whole model leaves 15 MiB of garbage
            code = _compile(ctx, loaded, options, observers, timing)
    elif options.command == "check":
        from dlc.cli.check import check_and_report

        code = check_and_report(ctx, loaded, options, observers, sources)
    elif options.command == "bisect":
        from dlc.cli.bisection import bisect_and_report

        code = bisect_and_report(ctx, loaded, options, observers, timing)
    else:
        from dlc.cli.run_report import run_and_report

        code = run_and_report(ctx, loaded, options, observers, timing)
    sys.stdout.flush()
    if validation is not None:
        print(validation, file=sys.stderr)
        timing.phases.append(("dlc", "runs of states", validation.seconds))
    if options.timing:
        print(timing, file=sys.stderr)
    return code


def _place_of_tensors(options: argparse.Namespace) -> AbstractContextManager[object]:
    """Where a program makes its tensors: on the GPU if it is to be measured there."""
    if options.command != "run" or not options.bench:
        return nullcontext()
    from dlc.cli.bench_report import bench_device

    return bench_device(options)


def _compile(
    ctx: Context,
    loaded: Loaded,
    options: argparse.Namespace,
    observers: list[Observer],
    timing: Timing,
) -> int:
    module = loaded.module
    if options.reproduce is not None:
        from dlc.cli.reproduce_kernel import reproduce

        return reproduce(ctx, loaded, options, observers)
    if names_directory(options.o):
        from dlc.cli.export_command import export_and_report

        return export_and_report(ctx, loaded, options, observers)
    if options.explain:
        from dlc.cli.memory_report import MemoryReport

        explanation, memory = Explanation(wants_colour(options.color, sys.stdout)), MemoryReport()
        run_pipeline(ctx, module, "kernel", [*observers, explanation, memory])
        text = f"{explanation}\n\n{memory}\n"
    elif options.cubin:
        run_pipeline(ctx, module, "kernel", observers)
        with timing.phase("nvcc", "compilation of kernels"), progress("compiling …") as show:
            from dlc.cli.cubins import cubin_table

            text = cubin_table(module, lambda done, of: show(f"compiled {done} of {of} …")) + "\n"
    elif options.ir == "cuda":
        run_pipeline(ctx, module, "kernel", observers)
        with timing.phase("dlc", "printing"):
            from dlc.backend.cuda.print.printer import print_module

            text = print_module(module)
    else:
        run_pipeline(ctx, module, options.ir, observers)
        with timing.phase("dlc", "printing"):
            text = text_of(module)
    if options.o is None:
        sys.stdout.write(text)
    else:
        with open(options.o, "w", encoding="utf-8") as stream:
            stream.write(text)
    return 0
