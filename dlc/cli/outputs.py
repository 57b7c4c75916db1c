"""All that `dlc compile` can make of a program: a table, by the option that asks for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlc.cli.job import Job
from dlc.cli.status_line import progress
from dlc.passes import Stage
from dlc.pipeline import Observer, text_of


@dataclass(frozen=True)
class Output:
    """Something to make: the IR that it is made of, who watches on the way, its text at the end."""

    stage: Stage
    text: Callable[[], str]
    observers: Sequence[Observer] = ()


def _ir(job: Job) -> Output:
    def text() -> str:
        with job.timing.phase("dlc", "printing"):
            return text_of(job.loaded.module)

    return Output(job.options.ir, text)


def _cuda(job: Job) -> Output:
    def text() -> str:
        with job.timing.phase("dlc", "printing"):
            from dlc.backend.cuda.print.printer import print_module

            return print_module(job.loaded.module)

    return Output("kernel", text)


def _cubins(job: Job) -> Output:
    def text() -> str:
        compiling = job.timing.phase("nvcc", "compilation of kernels")
        with compiling, progress("compiling …") as show:
            from dlc.cli.cubins import cubin_table

            table = cubin_table(
                job.loaded.module, lambda done, of: show(f"compiled {done} of {of} …")
            )
            return f"{table}\n"

    return Output("kernel", text)


def _explanation(job: Job) -> Output:
    from dlc.cli.memory_report import MemoryReport
    from dlc.explain import Explanation
    from dlc.transforms.step_choices import options_after

    explanation = Explanation(job.colour, options_after)
    memory = MemoryReport()
    return Output("kernel", lambda: f"{explanation}\n\n{memory}\n", [explanation, memory])


def _script(job: Job) -> Output:
    from dlc.cli.reproduce_kernel import kernel_script, program_to_compare_with

    module = job.loaded.module
    program = program_to_compare_with(module)
    return Output("kernel", lambda: kernel_script(program, module, job.options.reproduce))


def _directory(job: Job) -> Output:
    from dlc.cli.export_report import export
    from dlc.trace.source_lines import SourceLines

    ir = job.options.lines
    lines = None if ir is None else SourceLines(ir)
    watching = [] if lines is None else [lines]
    return Output("kernel", lambda: export(job.loaded, job.options, lines), watching)


OUTPUTS: dict[str, Callable[[Job], Output]] = {
    "ir": _ir,
    "cuda": _cuda,
    "cubin": _cubins,
    "explain": _explanation,
    "reproduce": _script,
    "directory": _directory,
}
"""By the names that `option_rules.outputs` gives them."""


def compile_and_write(job: Job) -> None:
    """Makes what the options ask for, and prints it or writes it to `-o`."""
    output = OUTPUTS[job.options.output](job)
    job.run_passes(output.stage, output.observers)
    text = output.text()
    if job.options.o is None or job.options.output == "directory":
        sys.stdout.write(text)
    else:
        Path(job.options.o).write_text(text, encoding="utf-8")
