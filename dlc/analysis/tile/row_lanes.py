"""How the threads that share a row are dealt over the axes along which it is folded."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from dlc.dialects.size import Size


def row_lanes(extents: Sequence[int], threads: int, vector: int) -> list[int]:
    """
    The threads along each axis of a row, which make `threads` together: all along the last one, in
    runs of `vector` points, or, if that is too short, as many as a power of two covers it with, and
    the others along those before. An axis whose extent is a size takes all that are left.
    """
    lanes, left = [1] * len(extents), threads
    for number in reversed(range(len(extents))):
        extent, run = extents[number], vector if number == len(extents) - 1 else 1
        own = left
        if number and not isinstance(extent, Size):
            covering = 1 << max(0, ceil(extent / run) - 1).bit_length()
            own = covering if covering < left and left % covering == 0 else left
        lanes[number], left = own, left // own
    return lanes
