"""
A program that `dlc run` has run before, found by what was exported: no IR is made, nor read.

An entry of the cache names that of the Kernel IR (`dlc/kernel_cache.py`), and holds what else a
run needs of Torch IR: the reference as calls of ATen, and what is said of the results. Runs that
show or watch the IR do not look here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from dlc.backend.cache import content_key, lookup, lookup_or_build
from dlc.cli.job import Job, new_context
from dlc.cli.program_input import Loaded
from dlc.cli.result_rows import Row
from dlc.cli.run_subject import Shown, Subject, check_memory
from dlc.frontend.aten.draws import random_state
from dlc.frontend.export.export_text import text_of_export
from dlc.ir.leaves import Output, View
from dlc.judge.plain_calls import PlainCalls
from dlc.kernel_cache import Lowered, find
from dlc.version import source_key

LABEL, FILE = "run", "run.json"


def key_of(job: Job) -> str | None:
    """What the run is found by; None if it needs the IR, or what was exported has no text."""
    options, call = job.options, job.loaded.call
    watched = options.bench or options.profile or job.observers != [job.timing]
    if call is None or watched or (text := text_of_export(call)) is None:
        return None
    target, precision = job.loaded.target or "", job.loaded.precision
    how = target, precision, str(options.freeze)
    return content_key(text, *how, torch.__version__, source_key())


@dataclass(frozen=True)
class KnownRun:
    """A run whose entry was found."""

    lowered: Lowered
    shown: Shown
    calls: PlainCalls
    draws: bool
    """True if the last argument is seed and offset of random numbers."""

    def subject(self, job: Job) -> Subject | None:
        """The run with the arguments of this call; None if PyTorch refuses the reference."""
        arguments = self._arguments(job.loaded, job.options.seed)
        check_memory(self.shown.eager_peak or 0, arguments)
        try:
            with job.timing.phase("torch", "reference in fp64 and eager"):
                eager = self.calls.evaluate(arguments)
                exact = self.calls.evaluate(arguments, double=True)
        except (IndexError, RuntimeError, ValueError):  # of Torch IR, that has a place
            return None
        longest = self.lowered.longest_reduction
        assert longest is not None
        return Subject(
            self.lowered, arguments, (exact, eager), longest, self.shown, job.loaded.precision
        )

    def _arguments(self, loaded: Loaded, seed: int) -> list[torch.Tensor]:
        assert loaded.call is not None
        written = [n for n in self.shown.written if n is not None]
        bound = [t.detach() for t in loaded.call.bind(loaded.args, written)]
        return [*bound, random_state(seed)] if self.draws else bound


def known_run(key: str) -> KnownRun | None:
    """The run that was kept so, if its Kernel IR is there, too."""
    if (entry := lookup(LABEL, key, FILE)) is None:
        return None
    stored = json.loads(entry.path.read_text())
    if (lowered := find(stored["kernel_ir"], new_context)) is None:
        return None
    rows = [Row(label, what, _leaf(of)) for label, what, of in stored["rows"]]
    shown = Shown(rows, stored["written"], stored["eager_peak"], stored["memory"])
    return KnownRun(lowered, shown, PlainCalls.of_json(stored["calls"]), stored["draws"])


def keep(key: str, loaded: Loaded, subject: Subject) -> None:
    """Puts a run of a program there, if it has been compared and its calls are plain."""
    from dlc.judge.plain_program import plain_calls  # with xDSL

    lowered, shown, program = subject.lowered, subject.shown, loaded.program
    calls = plain_calls(loaded.module)
    if calls is None or lowered.key is None or subject.reference is None or program is None:
        return
    rows = [[r.label, r.what, None if r.of is None else asdict(r.of)] for r in shown.rows]
    stored = {
        "kernel_ir": lowered.key,
        "eager_peak": shown.eager_peak,
        "memory": shown.memory,
        "rows": rows,
        "written": shown.written,
        "calls": calls.to_json(),
        "draws": any(argument.kind == "random" for argument in program.arguments),
    }

    def build(directory: Path) -> dict[str, int]:
        (directory / FILE).write_text(json.dumps(stored))
        return {}

    lookup_or_build(LABEL, key, FILE, build)


def _leaf(stored: dict[str, Any] | None) -> Output | None:
    if stored is None:
        return None
    view = stored["view"]
    if view is not None:
        view = View(tuple(view["shape"]), tuple(view["strides"]), view["offset"])
    return Output(**{**stored, "view": view})
