"""
Jobs in processes of their own, which prepare themselves side by side and measure one at a time.

Most of what a job needs before it measures is work of a CPU; what measures wants the GPU alone. So
a job begins with `prepare`, calls `turn.wait()`, and goes on by itself until it ends. What it finds
it sends as it comes, so that a job that is ended, or ends its process, loses the rest only.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

Row = dict[str, Any]
END_SECONDS = 5.0


class Turn:
    """A job's side: it waits for its turn, and sends rows; a later row of a job replaces it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def wait(self) -> Row:
        """Returns when no other job measures, with what jobs before have `shared`."""
        self._pipe.send(("ready", {}))
        return self._pipe.recv()

    def send(self, row: Row) -> None:
        self._pipe.send(("row", row))

    def share(self, known: Row) -> None:
        """Tells the jobs that come later."""
        self._pipe.send(("share", known))


@dataclass(frozen=True)
class Job:
    """`do(turn, *given)` in a process; its arguments can be pickled."""

    name: str
    do: Callable[..., None]
    given: tuple[Any, ...] = ()


@dataclass
class _Running:
    job: Job
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    over: bool = field(default=False)


def run(jobs: Sequence[Job], deadline: float, on_row: Callable[[str, Row], None]) -> None:
    """
    Does jobs, those that come first in the list first of those that are ready, until they are done
    or `deadline`, of time.monotonic, has passed. Why a job did not end by itself is a row with an
    `error`.
    """
    context = multiprocessing.get_context("spawn")
    running: list[_Running] = []
    shared: Row = {}
    measuring: _Running | None = None
    for job in jobs:
        mine, theirs = context.Pipe()
        process = context.Process(target=_do, args=(job, theirs), daemon=True)
        process.start()
        theirs.close()
        running.append(_Running(job, process, mine))
    try:
        while (left := [r for r in running if not r.over]) and time.monotonic() < deadline:
            if measuring is None:
                measuring = next((r for r in left if r.ready), None)
                if measuring:
                    measuring.pipe.send(shared)
            pipes = {r.pipe: r for r in left}
            for pipe in wait(list(pipes), max(0.0, deadline - time.monotonic())):
                one = pipes[pipe]  # pyright: ignore[reportArgumentType]
                try:
                    kind, row = one.pipe.recv()
                except EOFError:
                    one.process.join(END_SECONDS)
                    kind, row = "over", _death(one)
                if kind == "ready":
                    one.ready = True
                elif kind == "share":
                    shared |= row
                elif kind == "row":
                    on_row(one.job.name, row)
                else:
                    one.over = True
                    measuring = None if measuring is one else measuring
                    if row:
                        on_row(one.job.name, row)
        for one in running:
            if not one.over:
                on_row(one.job.name, {"error": "the budget is spent"})
    finally:
        for one in running:
            if one.over:  # it may still tidy up
                one.process.join(END_SECONDS)
            one.process.kill()
            one.process.join(END_SECONDS)


def _death(one: _Running) -> Row:
    code = one.process.exitcode
    return {"error": f"its process ended with code {code}"} if code else {}


def _do(job: Job, pipe: Connection) -> None:
    try:
        job.do(Turn(pipe), *job.given)
    except Exception as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        pipe.send(("over", {"error": f"{type(error).__name__}: {first}"}))
    else:
        pipe.send(("over", {}))
