"""`dlc run`: compiles, runs, and says how fast and how right."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from dlc.backend.executor import Backend, Executor, default_backend, get_backend
from dlc.backend.host.host_backend import HostBackend
from dlc.backend.kernel_image import KernelImage
from dlc.cli.job import Job
from dlc.cli.known_run import keep, key_of, known_run
from dlc.cli.observers import Timing
from dlc.cli.result_rows import Row, tensors_of
from dlc.cli.run_subject import Subject
from dlc.cli.status_line import progress
from dlc.judge.aten_calls import widened
from dlc.judge.known_results import Known
from dlc.text import GREEN, RED, counted, paint, seconds, table, wants_colour

if TYPE_CHECKING:
    from dlc.cli.profile_report import Profile
    from dlc.trace.model import Measurement

Times = dict[KernelImage, list[float]]
"""Of each kernel the seconds of its launches."""

NOT_COMPARED = (
    "the results were compared with nothing, as IR says no other way to compute them: with -c TEXT "
    "they are compared with PyTorch's, and `dlc check {0}` looks for races"
)


def run_and_report(job: Job, on_measured: Callable[[Measurement], None]) -> int:
    """Runs what was loaded; 1 where a result is wrong, else 0. The times are told once known."""
    options, timing = job.options, job.timing
    with timing.phase("dlc", "the program, looked up by its export"):
        key = key_of(job)
        known = None if key is None else known_run(key)
    if known is None:
        job.loaded.module
    backend = make_backend(options)
    profile = _profile(options)
    source = job.loaded if known is not None else job.source()
    subject = None if known is None else known.subject(job)
    if subject is None:
        from dlc.cli.compiled_run import compiled  # with xDSL

        subject = compiled(job, source, [profile] if profile else ())
        if key is not None:
            keep(key, job.loaded, subject)
    executor = Executor(subject.lowered.program, backend)
    reference = subject.reference
    if reference is not None and len(executor.results) != len(reference[0]):
        wanted = counted(len(reference[0]), "result")
        found = f"@main of {options.file} has {len(executor.results)}"
        raise ValueError(f"expected {wanted} as -c has, {found}")
    _compile_kernels(executor, timing)
    code = _run_and_judge(executor, subject, options, on_measured)
    if options.bench:
        from dlc.cli.bench_report import report_bench

        print()
        code |= report_bench(
            executor,
            subject.arguments,
            source.program,
            None if reference is None else source.module,
            subject.longest_reduction,
            options,
        )
    if profile is not None:
        print()
        profile.report(subject.lowered.module, executor)
    return code


def _run_and_judge(
    executor: Executor,
    subject: Subject,
    options: argparse.Namespace,
    on_measured: Callable[[Measurement], None],
) -> int:
    """Runs a program once and prints its kernels, its memory and its results: the exit code."""
    backend, arguments, shown = executor.backend, subject.arguments, subject.shown
    results, times = timed_run(executor, arguments)
    _tell_times(backend.name, times, options, on_measured)
    print(kernel_table(executor.funcs, times, backend.name))
    print(f"\n{shown.memory}\n" if shown.memory else "")
    tensors = tensors_of(shown.written, shown.rows, results, arguments)
    if subject.reference is None:
        print(statistics_table(shown.rows, tensors))
        if options.file is not None:
            sys.stdout.flush()
            print(NOT_COMPARED.format(options.file), file=sys.stderr)
        return 0
    exact, eager = subject.reference
    told = Known(
        tensors_of(shown.written, shown.rows, exact, [widened(t) for t in arguments]),
        tensors_of(shown.written, shown.rows, eager, arguments),
        subject.longest_reduction,
        precision=subject.precision,
    )
    return report_accuracy(shown.rows, tensors, told, options, backend)


def _tell_times(
    backend: str,
    times: Times,
    options: argparse.Namespace,
    on_measured: Callable[[Measurement], None],
) -> None:
    """Hands the times of kernels to a page, or writes them, where either is asked for."""
    if options.times_to is None and options.trace is None:
        return
    from dlc.cli.kernel_times import measurement, write_times  # with xDSL

    found = measurement(backend, times)
    if options.times_to is not None:
        write_times(options.times_to, found)
    on_measured(found)


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


def timed_run(
    executor: Executor, arguments: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], Times]:
    """The results, and the seconds of each kernel's launches; on a GPU of a second run."""
    times: Times = {}

    def launched(func: KernelImage, duration: float) -> None:
        times.setdefault(func, []).append(duration)

    if executor.backend.name == "cuda":
        executor(arguments)
    return executor(arguments, launched), times


def kernel_table(funcs: Sequence[KernelImage], times: Times, backend: str) -> str:
    if not funcs:
        return (
            "no kernels: the program returns nothing that it computes; what it prints is left out"
        )
    header = ["kernel", "grid", "block", "shared bytes", f"time ({backend})"]
    rows = [
        [
            func.name_,
            str(func.grid_size),
            str(func.block_size),
            str(func.shared_bytes),
            seconds(sum(times[func])) if func in times else "-",
        ]
        for func in funcs
    ]
    if len(rows) > 1:
        rows.append(["total", "", "", "", seconds(sum(map(sum, times.values())))])
    return table(header, rows)


def report_accuracy(
    rows: Sequence[Row],
    results: Sequence[torch.Tensor],
    reference: Known,
    options: argparse.Namespace,
    backend: Backend,
) -> int:
    """Prints the rows with the errors of those that are tensors; 1 where one is wrong, else 0."""
    judged = reference.judge(results)
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
