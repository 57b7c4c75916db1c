"""How the threads that share a row, and the blocks of a cluster, are dealt over its axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from dlc.dialects.size import Size
from dlc.ir.sizes import ceildiv


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


def rounds_along(extents: Sequence[int], lanes: Sequence[int], vector: int) -> list[int]:
    """How often the threads of a row come along each of its axes."""
    runs = [1] * (len(extents) - 1) + [vector]
    sides = zip(extents, lanes, runs, strict=True)
    return [ceildiv(extent, own * run) for extent, own, run in sides]


def most_rounds(rounds: Sequence[int]) -> int:
    """The most rounds along an axis that is as long as a number; 0 if none is."""
    return max((n for n in rounds if not isinstance(n, Size)), default=0)


def dealt_axis(rounds: Sequence[int], blocks: int) -> int:
    """The position of the axis whose rounds are dealt most evenly over so many blocks: one that is
    as long as a number."""
    fixed = [n for n, count in enumerate(rounds) if not isinstance(count, Size)]
    return min(fixed, key=lambda n: ceildiv(rounds[n], blocks) * blocks / rounds[n])


def rounds_of_share(rounds: Sequence[int], blocks: int) -> list[int]:
    """The rounds along each axis of a block that holds a row with others."""
    if blocks == 1:
        return [*rounds]
    dealt = dealt_axis(rounds, blocks)
    return [ceildiv(n, blocks) if at == dealt else n for at, n in enumerate(rounds)]
