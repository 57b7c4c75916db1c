"""
Jobs in a process of their own, which may hang or crash.

    worker = Worker("jobs:handle", log)
    row = worker.run({"kind": "measure", ...}, deadline)

The process says before each step by whom and what it is and how long it may take. When it dies or
says nothing for longer, it is killed with all that it started, `Failure` says which step it was,
and the next job gets a new process.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

Job = dict[str, Any]
Handler = Callable[[Job, Callable[[str, str, float], None]], Any]
START_SECONDS = 120.0
"""What the first step of a process may take to come: imports."""
PR_SET_PDEATHSIG = 1
"""Of prctl: what a process gets when the thread that started it ends, hanging or not."""
LOG_LINES = 3
"""Of what a process that died had printed."""


@dataclass
class Failure(Exception):
    """A job was ended: during which step, of whom, and how."""

    contender: str
    step: str
    reason: str

    def __str__(self) -> str:
        return f"{self.reason} during {self.step}"


class Overdue(Failure):
    """A job was ended because the time for all of them was over."""


class Worker:
    """One process at a time; `handler` is `module:function`, imported in it."""

    def __init__(
        self,
        handler: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
        patience: float = 1.0,
    ) -> None:
        """`patience` times as long as a step may take is waited for it."""
        self.handler, self.log, self.environment = handler, log, dict(environment or {})
        self.patience = patience
        self._process: Any = None
        self._connection: Connection | None = None

    def run(self, job: Job, deadline: float = float("inf")) -> Any:
        """What the handler returns; `deadline` is of time.monotonic()."""
        self._start()
        assert self._connection is not None
        printed = self.log.stat().st_size if self.log.exists() else 0
        contender, step, limit = "harness", "the start of the process", START_SECONDS
        try:
            self._connection.send(job)
            while True:
                if not self._connection.poll(max(0.0, min(limit, deadline - time.monotonic()))):
                    if time.monotonic() >= deadline:
                        self.stop()
                        raise Overdue(contender, step, "the budget was spent")
                    raise self._end(contender, step, f"killed after {limit:g} s")
                kind, *rest = self._connection.recv()
                if kind == "done":
                    return rest[0]
                if kind == "error":
                    raise self._end(contender, step, rest[0])
                contender, step, limit = *rest[:2], rest[2] * self.patience
        except (EOFError, OSError):
            raise self._end(contender, step, self._how_it_died(printed)) from None

    def _end(self, contender: str, step: str, reason: str) -> Failure:
        self.stop()
        return Failure(contender, step, reason)

    def _how_it_died(self, printed: int) -> str:
        self._process.join(5)
        code = self._process.exitcode
        how = f"ended with code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"crashed with {signal.Signals(-code).name}"
        said = ""
        if self.log.exists():
            with self.log.open("rb") as stream:
                stream.seek(printed)
                said = stream.read().decode(errors="replace")
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return ": ".join([how, *([" / ".join(lines[-LOG_LINES:])] if lines else [])])

    def _start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        self.stop()
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, self.handler, str(self.log), self.environment)
        self._process = context.Process(target=serve, args=arguments, daemon=False)
        self._process.start()
        theirs.close()

    def stop(self) -> None:
        """Kills the process and all that it started."""
        if self._process is not None:
            for kill in (
                lambda pid: os.killpg(pid, signal.SIGKILL),
                lambda _: self._process.kill(),
            ):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self._process.pid)
            self._process.join()
            self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def serve(connection: Connection, handler: str, log: str, environment: Mapping[str, str]) -> None:
    """The process: jobs from the connection until it is closed; prints go to the log."""
    os.setsid()  # what is started here can be killed together
    with contextlib.suppress(OSError, AttributeError):  # where there is no prctl
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(environment)
    with open(log, "ab", buffering=0) as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    module, _, name = handler.partition(":")
    handle: Handler = getattr(importlib.import_module(module), name)

    def announce(contender: str, step: str, seconds: float) -> None:
        connection.send(("step", contender, step, seconds))

    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        try:
            result = handle(job, announce)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            connection.send(("error", f"{type(error).__name__}: {error}"))
            return
        connection.send(("done", result))
