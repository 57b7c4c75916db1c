"""`#line` directives: what debuggers and profilers show beside the machine code is another text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from xdsl.ir import Operation

from dlc.escapes import c_string

Place: TypeAlias = tuple[str, int]
"""A file, and a line of it from 1 on."""
PlaceOf: TypeAlias = Callable[[Operation], Place | None]
"""Where an operation of Kernel IR comes from; None where that is not known."""


def with_directives(text: str, written: Mapping[Operation, range], place_of: PlaceOf) -> str:
    """
    A printed text that says for each of its lines which line of another file it comes from: by the
    innermost operation that wrote it, or the next one around it whose place is known.
    """
    lines = text.splitlines()
    places: list[Place | None] = [None] * len(lines)
    for op, span in reversed(list(written.items())):  # an operation is written after what it holds
        if (place := place_of(op)) is not None:
            places[span.start : span.stop] = [place] * len(span)
    found: list[str] = []
    here: Place | None = None  # the line that the compiler counts
    for line, place in zip(lines, places, strict=True):
        code = line.strip()
        if place not in (None, here) and code not in ("", "}") and not code.startswith("#"):
            found.append(f"#line {place[1]} {c_string(place[0])}")
            here = place
        found.append(line)
        here = None if here is None else (here[0], here[1] + 1)
    return "\n".join(found) + "\n"
