"""`dlc compile`, `dlc run`, `dlc check` and `dlc bisect` behind the command line's options."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext

from xdsl.context import Context
from xdsl.utils.exceptions import ArgSpecParseError

from dlc.backend import BackendError
from dlc.diagnostics import UsageError, did_you_mean, failed_pass, format_error, with_hint
from dlc.frontend.quick_imports import uncollected
from dlc.pipeline import Observer, run_pipeline, text_of
from dlc.registry import register
from dlc.schedule.target import TARGETS
from dlc.tools.explain import Explanation
from dlc.tools.observers import Diffs, Remarks, Timing
from dlc.tools.program_input import (
    Loaded,
    kind_of,
    load_model_program,
    load_module,
    load_program,
)
from dlc.tools.reproducer import advance, write_reproducer
from dlc.tools.tables import progress, wants_colour


def run_command(options: argparse.Namespace, begin: float) -> int:
    """The exit code; errors are printed. `begin` is when the import of this module began."""
    sources: dict[str, str] = {}
    timing = Timing(time.perf_counter() - begin)
    try:
        return _dispatch(options, sources, timing)
    except BrokenPipeError:
        raise
    except (Exception, ArgSpecParseError) as error:
        if options.debug:
            traceback.print_exception(error)
        sys.stdout.flush()
        print(describe(error, sources), file=sys.stderr)
        if (failed := failed_pass(error)) is not None:
            print(_reproduction(options, sources, failed, error), file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


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
    with _place_of_tensors(options):
        return _compile_or_run(options, sources, timing)


def _compile_or_run(options: argparse.Namespace, sources: dict[str, str], timing: Timing) -> int:
    ctx = register(Context())
    check_target(options.target)
    loaded = _load(ctx, options, sources, timing)
    if options.command == "bisect":
        from dlc.tools.bisection import bisect_and_report

        return bisect_and_report(ctx, loaded, options)
    observers: list[Observer] = [timing]
    if options.validate:
        from dlc.validation import Question, Validation

        question = Question.of(ctx, loaded.module, loaded.arguments(options.seed))
        observers.append(Validation(ctx, question))
    if options.verbose:
        observers.insert(0, Remarks())
    if options.verbose > 1:
        observers.insert(0, Diffs(wants_colour(options.color, sys.stdout)))
    if options.command == "compile":
        with uncollected():  # a whole model leaves 15 MiB of garbage
            code = _compile(ctx, loaded, options, observers, timing)
    elif options.command == "check":
        from dlc.tools.check import check_and_report

        code = check_and_report(ctx, loaded, options, observers, sources)
    else:
        from dlc.tools.run_report import run_and_report

        code = run_and_report(ctx, loaded, options, observers, timing)
    if options.timing:
        sys.stdout.flush()
        print(timing, file=sys.stderr)
    return code


def names_directory(path: str | None) -> bool:
    """Whether `-o` asks for a directory: one that exists, or a name that ends in `/`."""
    return path is not None and (path.endswith(os.sep) or os.path.isdir(path))


def _place_of_tensors(options: argparse.Namespace) -> AbstractContextManager[object]:
    """Where a program makes its tensors: on the GPU if it is to be measured there."""
    if options.command != "run" or not options.bench:
        return nullcontext()
    from dlc.tools.bench_report import bench_device

    return bench_device(options)


def check_target(name: str | None) -> None:
    """UsageError for a target that the table does not have."""
    if name is not None and name not in TARGETS:
        hint = did_you_mean(name, TARGETS) or f"the targets are {', '.join(TARGETS)}"
        raise with_hint(UsageError(f"unknown target '{name}'"), hint)


def _compile(
    ctx: Context,
    loaded: Loaded,
    options: argparse.Namespace,
    observers: list[Observer],
    timing: Timing,
) -> int:
    module = loaded.module
    if options.reproduce is not None:
        from dlc.tools.kernel_script import reproduce

        return reproduce(ctx, loaded, options, observers)
    if names_directory(options.o):
        from dlc.tools.export import export_and_report

        return export_and_report(ctx, loaded, options, observers)
    if options.explain:
        from dlc.tools.memory_report import MemoryReport

        explanation, memory = Explanation(wants_colour(options.color, sys.stdout)), MemoryReport()
        run_pipeline(ctx, module, "kernel", [*observers, explanation, memory])
        text = f"{explanation}\n\n{memory}\n"
    elif options.cubin:
        run_pipeline(ctx, module, "kernel", observers)
        with timing.phase("nvcc", "compilation of kernels"), progress("compiling …") as show:
            from dlc.tools.cubins import cubin_table

            text = cubin_table(module, lambda done, of: show(f"compiled {done} of {of} …")) + "\n"
    elif options.ir == "cuda":
        run_pipeline(ctx, module, "kernel", observers)
        with timing.phase("dlc", "printing"):
            from dlc.backend.cuda.printer import print_module

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
