"""The progress of a command on the last line of the terminal; nothing if there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from shutil import get_terminal_size
from typing import Any


class _StatusLine:
    """The last line of the terminal, which is overwritten; nothing where there is no terminal."""

    def __init__(self) -> None:
        self._stream: Any = sys.stderr
        self._width = 0

    def show(self, text: str) -> None:
        stream = sys.stderr
        while isinstance(stream, _Clearing):
            stream = stream.stream
        if stream.isatty():
            self._stream = stream
            text = text[: get_terminal_size().columns - 1]
            print(f"\r{text:<{self._width}}", end="", flush=True, file=stream)
            self._width = len(text)

    def clear(self) -> None:
        if self._width:
            print(f"\r{' ' * self._width}\r", end="", flush=True, file=self._stream)
            self._width = 0


STATUS = _StatusLine()


class _Clearing:
    """A stream that clears the status line before anything else is written."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        STATUS.clear()
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def bar(share: float, width: int = 30) -> str:
    """A progress bar; `share` is the part that is done, from 0 to 1."""
    return f"[{'#' * int(share * width):<{width}}]"


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """
    Shows `text` on the terminal while something takes long, and what is handed over then; unless
    it prints something itself, which stays. Nothing where there is no terminal.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    STATUS.show(text)
    out: Any = _Clearing(sys.stdout)
    errors: Any = _Clearing(sys.stderr)
    try:
        with redirect_stdout(out), redirect_stderr(errors):
            yield STATUS.show
    finally:
        STATUS.clear()
