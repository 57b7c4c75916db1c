"""How many points of what a product gives are folded by its epilogue, where some can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LONGEST = 16
"""Points of a run at most: a thread has the sums of all of them, each of which is written out."""
TRIED = 3
"""Lengths of runs that are tried for a dimension, the longest first."""


def likely_runs(dimensions: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """
    The runs that are worth trying of dimensions, of which the extents are given: each a dimension
    and points, which divide its extent. A run of all that is folded is what fusion has tried.
    """
    for dimension, extent in dimensions:
        longest = LONGEST if len(dimensions) > 1 else min(LONGEST, extent - 1)
        divisors = [n for n in range(longest, 1, -1) if extent % n == 0]
        yield from ((dimension, n) for n in divisors[:TRIED])
