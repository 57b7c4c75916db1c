"""
Which sizes share kernels: those of a range share what is decided for the first of them, and ranges
have schedules of their own where the estimate says that this is faster. Parts of a range may have
those of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import inf
from typing import TypeAlias

WORTH = 1.1
"""
Kernels are used for a range as long as they take at most so many times what those take whose
schedule is made for it, at the sizes of its first call and at its largest. Beyond that, it pays to
compile these.
"""
MOST = 8
"""How many kernels of different schedules a program for all sizes has, multiples included."""
PARTS = 4
"""Into how many parts of a size a range is cut, each with the fastest of the kernels there are."""

Box: TypeAlias = "tuple[tuple[str, int, int], ...]"
"""For each name of a size its least and its largest value."""


def box_of(sizes: Mapping[str, int]) -> Box:
    """The sizes between two powers of two that these are of: 65 to 128, 129 to 256."""
    return tuple((name, *_between_powers(n)) for name, n in sizes.items())


def largest(sizes: Mapping[str, int]) -> dict[str, int]:
    """The largest sizes of the range of these."""
    return {name: high for name, _, high in box_of(sizes)}


def _between_powers(n: int) -> tuple[int, int]:
    if n < 2:
        return n, n
    high = 1 << (n - 1).bit_length()
    return high // 2 + 1, high


def parts_of(box: Box) -> list[Box]:
    """The parts of a range of sizes."""
    return [tuple(part) for part in product(*(_cut(*one) for one in box))]


def part_of(sizes: Mapping[str, int]) -> Box:
    """The part of their range that these sizes are of."""
    (part,) = (part for part in parts_of(box_of(sizes)) if _holds(part, sizes))
    return part


def _cut(name: str, low: int, high: int) -> list[tuple[str, int, int]]:
    step = max((high - low + 1) // PARTS, 1)
    return [(name, first, first + step - 1) for first in range(low, high + 1, step)]


def _holds(box: Box, sizes: Mapping[str, int]) -> bool:
    return all(low <= sizes[name] <= high for name, low, high in box)


def fastest(own: float, known: Sequence[float]) -> int | None:
    """
    Which of kernels that take so many seconds serves sizes whose own take `own`: its index. None
    where none takes these sizes, or it is worth to have the own ones.
    """
    best = min(range(len(known)), key=known.__getitem__, default=None)
    return None if best is None or known[best] == inf or known[best] > WORTH * own else best


def joined(boxes: Iterable[Box]) -> list[Box]:
    """The same sizes in fewer boxes: those that are next to each other along one size are one."""
    found = sorted(boxes)
    for axis in reversed(range(len(found[0]) if found else 0)):
        merged: list[Box] = []
        for box in sorted(found, key=lambda box: (box[:axis], box[axis + 1 :], box[axis])):
            if merged and _continues(merged[-1], box, axis):
                name, low, _ = merged[-1][axis]
                box = (*box[:axis], (name, low, box[axis][2]), *box[axis + 1 :])
                merged.pop()
            merged.append(box)
        found = merged
    return found


def _continues(box: Box, other: Box, axis: int) -> bool:
    """True where the other box begins where one ends along a size, and is the same along others."""
    same = box[:axis] == other[:axis] and box[axis + 1 :] == other[axis + 1 :]
    return same and box[axis][2] + 1 == other[axis][1]


def told(boxes: Iterable[Box]) -> str:
    """`s from 33 to 128 or s from 513 to 1024`; of several sizes `b = 2, s from 5 to 8`."""
    return " or ".join(
        ", ".join(map(_told_of_one, *zip(*box, strict=True))) for box in joined(boxes)
    )


def _told_of_one(name: str, low: int, high: int) -> str:
    return f"{name} = {low}" if low == high else f"{name} from {low} to {high}"
