"""How the points of a block lie along an axis and along one beside it."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

SPREADS = (1, 2, 4, 8, 16, 32)
"""Columns of a block along an axis beside theirs; the first of those that are as good is taken."""


@lru_cache(maxsize=4096)
def spread_over(
    points: int, extent: int, beside: int, least: int, multiple: int = 1, unit: int = 1
) -> tuple[int, int]:
    """A block's points along an axis, so many at least and whole units, and along one beside it, a
    multiple, so that the fewest lie beyond."""
    if beside == 1:
        return points, 1
    counts = [n for n in SPREADS if points % n == 0 and n % multiple == 0]
    ways = [(m, n) for n in counts if (m := points // n) >= least and m % unit == 0]
    return min(
        ways or [(points, 1)],
        key=lambda way: ceil(extent / way[0]) * ceil(beside / way[1]),
    )
