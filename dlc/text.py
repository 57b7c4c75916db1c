"""Plain text for people: tables, diffs, colours, names."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from typing import IO

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


def not_text(name: str, error: UnicodeDecodeError) -> str:
    """What is wrong with a file that is no text."""
    byte = error.object[error.start]
    return f"{name} is not text: byte 0x{byte:02x} at offset {error.start} is not UTF-8"


def wants_colour(choice: str, stream: IO[str]) -> bool:
    """True if text for `stream` is coloured: `always`, `never`, or `auto`, on a terminal."""
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


def counted(number: int, noun: str) -> str:
    """`1 ring`, `2 rings`, `2 passes`, `2 launches`."""
    plural = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"


def unique_name(base: str, used: set[str]) -> str:
    """`base`, numbered if it is in `used`, to which the name is added."""
    name, count = base, 1
    while name in used:
        count += 1
        name = f"{base}_{count}"
    used.add(name)
    return name


def seconds(value: float) -> str:
    """A time in a unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def microseconds(seconds: float) -> str:
    """Microseconds, of three digits at least."""
    us = seconds * 1e6
    return f"{us:.3g}" if us < 1000 else f"{us:.0f}"
