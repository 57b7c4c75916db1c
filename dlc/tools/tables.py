"""Plain text for people: tables, diffs, colours, a line of progress."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from shutil import get_terminal_size
from typing import IO, Any

GREEN, RED, YELLOW, CYAN, BOLD, DIM = "32", "31", "33", "36", "1", "2"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell: text to the left, numbers to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell in ("", "-", "nan", "inf")


def wants_colour(choice: str, stream: IO[str]) -> bool:
    """Whether to colour what goes to `stream`: `always`, `never`, or `auto`, on a terminal."""
    if choice == "auto":
        return stream.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"


def paint(text: str, colour: str, on: bool) -> str:
    return f"\033[{colour}m{text}\033[0m" if on else text


def diff(before: str, after: str, colour: bool = False) -> str:
    """A unified diff without its two lines of file names; `(no change)` where there is none."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=3, lineterm="")
    colours = {"+": GREEN, "-": RED, "@": CYAN}
    shown = [
        paint(line, colours[line[0]], colour) if line[:1] in colours else line
        for line in list(lines)[2:]
    ]
    return "\n".join(shown) or "(no change)"


def seconds(value: float) -> str:
    """A time in a unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


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
    """Of what is to be done, how much is done."""
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
