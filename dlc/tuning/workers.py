"""Calls in processes of their own, which may crash, hang, or ask for too much memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Limits:
    """What a call may take."""

    seconds: float = 120
    bytes: int | None = 16 << 30
    """Of address space; None for a process that reserves more than it uses, as CUDA's do."""


class Died(Exception):
    """The process of a call ended without an answer; the message says how."""


def isolated_call(call: Callable[[], Any], limits: Limits) -> Any:
    """What a call returns, which another process makes. Raises what it raises, or `Died`."""
    mine, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_child, args=(call, theirs, limits), daemon=False)
    process.start()
    theirs.close()
    try:
        if not mine.poll(limits.seconds):
            raise Died(f"killed after {limits.seconds:g} s")
        kind, value = mine.recv()
    except EOFError:
        process.join()
        raise Died(_how(process.exitcode)) from None
    finally:
        _kill(process.pid)
        process.join()
        mine.close()
    if kind == "error":
        raise value
    return value


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"crashed with {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _kill(pid: int | None) -> None:
    """Kills a process and all that it started."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _child(call: Callable[[], Any], connection: Connection, limits: Limits) -> None:
    os.setsid()  # what is started here is killed together
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    if limits.bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limits.bytes, limits.bytes))
    try:
        answer = ("value", call())
    except MemoryError:
        answer = ("error", Died(f"wants more than {(limits.bytes or 0) >> 30} GiB of memory"))
    except BaseException as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        answer = ("error", Died(text))
    connection.send(answer)
    connection.close()
