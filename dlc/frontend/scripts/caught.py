"""
Whether a script catches what it shows, so that it may compute with it: in a stream that it reads,
in a list of warnings, or by a handler of its own loggers.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import IOBase
from typing import Any

from dlc.frontend.state.dotted import is_users

READ = "(read)"
"""Said of a text that reads what is in its streams and files."""
WARNED = "(warned)"
"""Said of one that keeps what it is warned of, or is stopped by it."""
BUFFERING = frozenset(("BufferingHandler", "QueueHandler"))
"""Handlers of Python's own that keep what they are given."""
HANDLING = frozenset(("emit", "handle", "filter", "format"))
FORMATTING = frozenset(("format", "formatMessage", "formatTime", "formatException"))
"""Methods of handlers and formatters."""
_own: list[tuple[Any, ...]] = [()]


@contextmanager
def own_streams() -> Iterator[None]:
    """The streams that there are now are nobody's to read; they are put back afterwards."""
    out, err = sys.stdout, sys.stderr
    _own.append((out, err))
    try:
        yield
    finally:
        _own.pop()
        sys.stdout, sys.stderr = out, err


def set_streams() -> list[Any]:
    """The streams of the process that are not its own."""
    return [stream for stream in (sys.stdout, sys.stderr) if not _is_own(stream)]


def is_logged(called: Any) -> bool:
    """True for a function of `logging` and for a method of a logger."""
    owner = getattr(called, "__self__", None)
    of_module = getattr(called, "__module__", None) == "logging"
    return of_module or isinstance(owner, logging.Logger | logging.LoggerAdapter)


def is_caught(called: Any, kept_by: Collection[str]) -> bool:
    """
    True if what a function shows now is caught: `kept_by` says which functions and methods of the
    script keep something, whether it reads streams, and whether it keeps warnings.
    """
    if called is warnings.warn and WARNED in kept_by:
        return True
    streams_caught = any(_stream_keeps(stream, kept_by) for stream in (sys.stdout, sys.stderr))
    return streams_caught or (is_logged(called) and _is_handled(called, kept_by))


def catches(context: Any, kept_by: Collection[str]) -> bool:
    """True for a context in which what is shown is caught."""
    match context:
        case redirect_stdout() | redirect_stderr():
            return _stream_keeps(vars(context)["_new_target"], kept_by)
        case warnings.catch_warnings():
            return WARNED in kept_by and vars(context)["_record"]
    return False


def _stream_keeps(stream: Any, kept_by: Collection[str]) -> bool:
    if _is_own(stream):
        return False
    if isinstance(stream, IOBase) and READ in kept_by:
        return True
    return _is_kept_by(stream, ("write", "writelines"), kept_by)


def _is_own(stream: Any) -> bool:
    return any(stream is own for own in (*_own[-1], sys.__stdout__, sys.__stderr__))


def _is_kept_by(value: Any, methods: Collection[str], kept_by: Collection[str]) -> bool:
    """True for an object of a user's whose methods keep something, as far as that is known."""
    if not is_users(type(value)):
        return False
    of_text = any(kind.__module__ == "__main__" for kind in type(value).__mro__)
    return not of_text or not set(methods).isdisjoint(kept_by)


def _is_handled(called: Any, kept_by: Collection[str]) -> bool:
    """True if a logger has a handler or a filter that keeps what is logged now."""
    logger: Any = getattr(called, "__self__", logging.root)
    while isinstance(logger, logging.LoggerAdapter):
        logger = logger.logger
    level = logging.getLevelName(getattr(called, "__name__", "").upper())
    level = level if isinstance(level, int) else sys.maxsize
    if level < logger.getEffectiveLevel():  # an export disables more
        return False
    if logging.getLogRecordFactory() is not logging.LogRecord:
        return True
    while logger is not None:
        handlers = [handler for handler in logger.handlers if handler.level <= level]
        filters = (one for of in (logger, *handlers) for one in of.filters)
        if any(_filter_keeps(one, kept_by) for one in filters):
            return True
        if any(_handler_keeps(handler, kept_by) for handler in handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _filter_keeps(one: Any, kept_by: Collection[str]) -> bool:
    if not hasattr(one, "filter"):  # a function
        return getattr(one, "__name__", "filter") in kept_by
    return _is_kept_by(one, ("filter",), kept_by)


def _handler_keeps(handler: logging.Handler, kept_by: Collection[str]) -> bool:
    kinds = {kind.__name__ for kind in type(handler).__mro__ if kind.__module__.startswith("logg")}
    if not BUFFERING.isdisjoint(kinds) or not HANDLING.isdisjoint(vars(handler)):
        return True
    if _is_kept_by(handler.formatter, FORMATTING, kept_by):
        return True
    if type(handler).__module__ == "logging" and isinstance(handler, logging.StreamHandler):
        if isinstance(handler, logging.FileHandler):
            return READ in kept_by
        return _stream_keeps(handler.stream, kept_by)
    return _is_kept_by(handler, HANDLING, kept_by)
