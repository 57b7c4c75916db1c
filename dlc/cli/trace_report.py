"""`dlc trace`, and `--trace` of other commands: a page that shows a program in all its IRs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from dlc.cli.job import Job
from dlc.cli.kernel_times import read_times
from dlc.cli.status_line import STATUS, bar
from dlc.dialects.kernel import FuncOp
from dlc.pipeline import Observer
from dlc.trace.build import trace_of
from dlc.trace.model import Candidates, Measurement
from dlc.trace.page import page

if TYPE_CHECKING:
    from dlc.trace.verdicts import Verdicts

DEFAULT = "trace.html"


def trace_and_report(job: Job, verdicts: Verdicts | None) -> int:
    """Writes the page and says where; the exit code."""
    path = job.options.times
    measured = None if path is None else read_times(path)
    write_trace(job, job.options.o or DEFAULT, job.observers, verdicts, measured)
    return 0


def write_trace(
    job: Job,
    path: str,
    observers: Sequence[Observer] = (),
    verdicts: Verdicts | None = None,
    measured: Measurement | None = None,
    *,
    tuned: Mapping[str, Candidates] | None = None,
    module: ModuleOp | None = None,
) -> None:
    """
    Writes the page of a job's program, which is left as it is; of `module` where the job has
    changed its own. WrongResult after that, if the verdicts have one.
    """
    options = job.options
    title = options.file or options.text.strip()
    sources = dict(job.sources)
    if options.text is not None:
        sources["<command>"] = options.text
    module = (module or job.loaded.module).clone()
    check = _show if getattr(options, "check", False) else None
    with job.timing.phase("dlc", "the trace"):
        sass, shown = getattr(options, "sass", False), getattr(options, "kernel", None)
        made = trace_of(
            job.ctx,
            module,
            title,
            sources,
            observers,
            check,
            shown=shown,
            sass=sass,
            verdicts=verdicts,
            measured=measured,
            tuned=tuned,
        )
        text = page(made)
        Path(path).write_text(text, encoding="utf-8")
    STATUS.clear()
    size = len(text.encode()) / 1e6
    print(f"wrote {path}: {size:.2f} MB", file=sys.stderr)
    if verdicts is not None and verdicts.wrong is not None:
        raise verdicts.wrong


def _show(func: FuncOp, share: float) -> None:
    STATUS.show(f"{bar(share)} {share:.0%} checking @{func.name_} …")
