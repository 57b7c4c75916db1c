"""Calls in processes of their own, which may crash, hang, or ask for too much memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import resource
import signal
import time
import traceback
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from dlc.backend import BackendError
from dlc.tuning.interrupts import check

_FORK, _SERVER = multiprocessing.get_context("fork"), multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["dlc.tuning.objectives"])
Key = TypeVar("Key")
LOOK_SECONDS = 0.2
"""How often it is looked whether a call takes too long, or all shall end."""


@dataclass(frozen=True)
class Limits:
    """What a call may take."""

    seconds: float = 120
    bytes: int | None = 16 << 30
    """Of address space; None for a process that reserves more than it uses, as CUDA's do."""
    start: Literal["fork", "forkserver"] = "fork"
    """How processes start: none that runs CUDA, or OpenMP, can be a fork of one that has."""


class Died(BackendError):
    """A call came to no answer: its process ended, or it raised; the message says how."""


class Pool(Protocol[Key]):
    """Where calls run at the same time; those that still do are ended at the end of a `with`."""

    @property
    def running(self) -> Sized: ...

    def start(self, key: Key, call: Callable[[], Any]) -> None: ...

    def next_answer(self) -> tuple[Key, Any]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


@dataclass
class Workers(Generic[Key]):
    """Calls that run at the same time, by keys; all are killed at the end of a `with`."""

    limits: Limits
    running: dict[Any, tuple[Key, BaseProcess, float]] = field(default_factory=dict)
    """By the connections on which they answer."""

    def start(self, key: Key, call: Callable[[], Any]) -> None:
        context = _FORK if self.limits.start == "fork" else _SERVER
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(call, theirs, self.limits), daemon=False)
        process.start()
        theirs.close()
        self.running[mine] = key, process, time.monotonic()

    def next_answer(self) -> tuple[Key, Any]:
        """
        The key and the answer of the call that is done next; `Died` in the place of one.
        KeyboardInterrupt where Ctrl-C was pressed.
        """
        while True:
            check()
            ready = wait(list(self.running), timeout=LOOK_SECONDS)
            for connection, (key, process, begin) in list(self.running.items()):
                late = time.monotonic() - begin > self.limits.seconds
                if connection in ready or late:
                    answer = self._answer(connection, process, connection in ready)
                    self._end(connection)
                    return key, answer

    def _answer(self, connection: Connection, process: BaseProcess, ready: bool) -> Any:
        if not ready:
            return Died(f"killed after {self.limits.seconds:g} s")
        try:
            return pickle.loads(connection.recv_bytes())
        except EOFError:
            process.join()
            return Died(_how(process.exitcode))

    def _end(self, connection: Connection) -> None:
        """Kills the process of a call and all that it started."""
        _, process, _ = self.running.pop(connection)
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for connection in list(self.running):
            self._end(connection)


def isolated_call(call: Callable[[], Any], limits: Limits) -> Any:
    """What a call returns in a process of its own, or `Died` in its place."""
    return only_answer(Workers[None](limits), call)


def only_answer(pool: Pool[None], call: Callable[[], Any]) -> Any:
    """What a call returns that is made alone, or `Died` in its place."""
    with pool as workers:
        workers.start(None, call)
        return workers.next_answer()[1]


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"crashed with {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _child(call: Callable[[], Any], connection: Connection, limits: Limits) -> None:
    os.setsid()  # what is started here is killed together
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    if limits.bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limits.bytes, limits.bytes))
    try:
        answer = call()
    except MemoryError:
        answer = Died(f"wants more than {(limits.bytes or 0) >> 30} GiB of memory")
    except BaseException as error:
        answer = Died("".join(traceback.format_exception_only(error)).strip())
    connection.send_bytes(pickle.dumps(answer))
    connection.close()
