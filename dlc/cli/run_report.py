"""`dlc run`: compiles, runs, and says how fast and how right."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.executor import Backend, Executor, default_backend, get_backend
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.kernel_image import KernelImage
from dlc.backend.memory_use import eager_peak
from dlc.cli.job import Job
from dlc.cli.memory_report import MemoryReport
from dlc.cli.observers import Timing
from dlc.cli.status_line import progress
from dlc.cli.user_results import Row, rows_of, tensors_of
from dlc.diagnostics import UsageError, with_hint
from dlc.dialects.main_function import main_of
from dlc.judge.known_results import Known
from dlc.judge.reference import evaluate, widened
from dlc.models.weights import available_bytes
from dlc.pipeline import run_pipeline, stage_of
from dlc.text import GREEN, RED, counted, paint, seconds, table, wants_colour

if TYPE_CHECKING:
    from dlc.cli.profile_report import Profile


def run_and_report(job: Job) -> int:
    """Runs what was loaded; 1 where a result is wrong, else 0."""
    loaded, options, timing = job.loaded, job.options, job.timing
    backend = make_backend(options)
    source = job.source()
    arguments = source.arguments(options.seed)
    reference = make_reference(source.module, arguments, timing)
    memory, profile = MemoryReport(), _profile(options)
    memory.start(loaded.module, ())
    lowered = job.lower([profile] if profile else ())
    memory.take(lowered.program)
    longest = lowered.longest_reduction
    if reference is None:
        longest = 1
    elif longest is None or source is not loaded:
        longest = _longest_reduction(job.ctx, source.module.clone())
    executor = Executor(lowered.program, backend)
    if reference is not None and len(executor.results) != len(reference[0]):
        raise ValueError(
            f"expected {len(reference[0])} results as -c has, @main of {options.file} has "
            f"{len(executor.results)}"
        )
    _compile_kernels(executor, timing)
    results, times = timed_run(executor, arguments)
    print(kernel_table(executor.funcs, times, backend.name))
    print(f"\n{memory.line}\n" if memory.line else "")
    main = main_of(source.module)
    rows = rows_of(main)
    shown = tensors_of(main, rows, results, arguments)
    if reference is None:
        print(statistics_table(rows, shown))
        code = 0
    else:
        exact, eager = reference
        told = Known(
            tensors_of(main, rows, exact, [widened(t) for t in arguments]),
            tensors_of(main, rows, eager, arguments),
            longest,
        )
        code = report_accuracy(rows, shown, told, options, backend)
    if options.bench:
        from dlc.cli.bench_report import report_bench

        print()
        code |= report_bench(
            executor,
            arguments,
            source.program,
            None if reference is None else source.module,
            longest,
            options,
        )
    if profile is not None:
        print()
        profile.report(lowered.module, executor)
    return code


def _profile(options: argparse.Namespace) -> Profile | None:
    """The observer of the pipeline that `--profile` asks for."""
    if not options.profile:
        return None
    from dlc.cli.profile_report import Profile

    return Profile()


def _compile_kernels(executor: Executor, timing: Timing) -> None:
    """Compiles the kernels to machine code and shows the progress."""
    backend, count = executor.backend, len(executor.funcs)
    compiler = "nvcc" if backend.name == "cuda" else "the C++ compiler"
    with (
        timing.phase(compiler, "compilation of kernels"),
        progress(f"compiling {counted(count, 'kernel')} with {compiler} …") as show,
    ):
        backend.on_compiled = lambda done, of: show(f"compiled {done} of {of} with {compiler} …")
        executor.prepare()


def make_backend(options: argparse.Namespace) -> Backend:
    if (options.backend or default_backend()) == "host":
        return HostBackend(options.order, options.async_mode, options.seed)
    return get_backend("cuda", sync=options.sync)


def make_reference(
    module: ModuleOp, arguments: Sequence[torch.Tensor], timing: Timing
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """PyTorch's results in fp64 and in eager's dtypes, for a module in Torch IR."""
    if stage_of(module) != "torch":
        return None
    check_memory(module, arguments)
    with timing.phase("torch", "reference in fp64 and eager"):
        eager = evaluate(module, arguments)  # first, as what it refuses is of the program's types
        return evaluate(module, arguments, double=True), eager


def _longest_reduction(ctx: Context, module: ModuleOp) -> int:
    """The points of the longest reduce of Torch IR, which is taken to Loop IR."""
    from dlc.analysis.loop.loops import longest_reduction

    run_pipeline(ctx, module, "loop")
    return longest_reduction(module)


def check_memory(module: ModuleOp, arguments: Sequence[torch.Tensor]) -> None:
    """UsageError where a program in Torch IR does not fit into memory in fp64, with its results."""
    wanted, free = 2 * eager_peak(module), available_bytes()
    if free is not None and wanted > free and all(t.device.type == "cpu" for t in arguments):
        raise with_hint(
            UsageError(
                f"the program's tensors take {wanted / 2**30:.1f} GiB in fp64, which it is "
                f"compared with, and {free / 2**30:.1f} GiB of memory are free"
            ),
            "make it smaller, or compile it only: dlc compile",
        )


def timed_run(
    executor: Executor, arguments: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], dict[KernelImage, float]]:
    """The results, and the seconds of each kernel; on a GPU of a second run."""
    times: dict[KernelImage, float] = {}

    def launched(func: KernelImage, duration: float) -> None:
        times[func] = times.get(func, 0.0) + duration

    if executor.backend.name == "cuda":
        executor(arguments)
    return executor(arguments, launched), times


def kernel_table(
    funcs: Sequence[KernelImage], times: dict[KernelImage, float], backend: str
) -> str:
    if not funcs:
        return "no kernels: the program computes nothing"
    header = ["kernel", "grid", "block", "shared bytes", f"time ({backend})"]
    rows = [
        [
            func.name_,
            str(func.grid_size),
            str(func.block_size),
            str(func.shared_bytes),
            seconds(times[func]) if func in times else "-",
        ]
        for func in funcs
    ]
    if len(rows) > 1:
        rows.append(["total", "", "", "", seconds(sum(times.values()))])
    return table(header, rows)


def report_accuracy(
    rows: Sequence[Row],
    results: Sequence[torch.Tensor],
    reference: Known,
    options: argparse.Namespace,
    backend: Backend,
) -> int:
    """Prints the rows with the errors of those that are tensors; 1 where one is wrong, else 0."""
    judged = reference.judge(results, backend.name)
    figures = [
        [str(list(r.shape)), f"{a.error:.2e}", f"{a.eager_error:.2e}", f"{a.bound:.2e}"]
        for r, a in zip(results, judged, strict=True)
    ]
    header = ["result", "shape", "error vs fp64", "eager's", "bound"]
    colour = wants_colour(options.color, sys.stdout)
    verdicts = [
        paint(accuracy.verdict, GREEN if accuracy.ok else RED, colour) for accuracy in judged
    ]
    lines = _with_rows(rows, header, figures, verdicts)
    print("\n".join(lines))
    return 0 if all(a.ok for a in judged) else 1


def statistics_table(rows: Sequence[Row], results: Sequence[torch.Tensor]) -> str:
    """Shape, mean, extremes and sum of results that there is no reference for."""
    header = ["result", "shape", "mean", "min", "max", "sum"]
    figures: list[list[str]] = []
    for result in results:
        wide = result.double()
        own = ["-"] * 4
        if wide.numel():
            own = [f"{f(wide).item():.6g}" for f in (torch.mean, torch.min, torch.max, torch.sum)]
        figures.append([str(list(result.shape)), *own])
    return "\n".join(_with_rows(rows, header, figures, [""] * len(figures)))


def _with_rows(
    rows: Sequence[Row],
    header: Sequence[str],
    figures: Sequence[Sequence[str]],
    verdicts: Sequence[str],
) -> list[str]:
    """The lines of a table with the figures and verdicts of the rows that are tensors."""
    of_tensors = zip(figures, verdicts, strict=True)
    nothing = ["-"] * (len(header) - 1), ""
    told = [next(of_tensors) if row.of is not None else nothing for row in rows]
    head, rule, *lines = table(
        header, [[row.label, *own] for row, (own, _) in zip(rows, told, strict=True)]
    ).split("\n")
    ends = [
        "".join(f"  {part}" for part in (verdict, row.what and f"({row.what})") if part)
        for row, (_, verdict) in zip(rows, told, strict=True)
    ]
    return [head, rule, *(f"{line}{end}" for line, end in zip(lines, ends, strict=True))]
