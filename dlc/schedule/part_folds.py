"""The schedule of a kernel that combines what others have computed in parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from dlc.schedule.endings import HELD_WORDS, IN_FLIGHT
from dlc.schedule.long_sums import accumulators
from dlc.schedule.points import RUN, pointwise
from dlc.target import BLOCK_THREADS, SECTOR_BYTES, WARP, Target

SHARING = 8
"""Threads that share the parts of a point at most."""


def sharing(splits: int, points: int, last: int, target: Target, results: int = 1) -> int:
    """
    Threads that share a point's parts, where these are of so many results: where a thread has no
    registers for those of a run of points, and points are fewer than threads of a block on each SM.
    There are `last` points along the last axis.
    """
    if points == 1:
        return WARP
    if splits * results * RUN <= HELD_WORDS or points >= target.sms * BLOCK_THREADS:
        return 1
    return min(SHARING, _power_to(splits)) if last >= SECTOR_BYTES // 4 else 1


def folded_in_turn(
    splits: int, points: int, last: int, target: Target, results: int = 1
) -> tuple[int, int]:
    """As `sharing`: points of a thread, and the parts of each that it folds, others' sums too."""
    threads = sharing(splits, points, last, target, results)
    return (RUN, splits) if threads == 1 else (1, ceil(splits / threads) + threads)


def combining(splits: int, extents: Sequence[int], target: Target, results: int = 1) -> str:
    """
    The steps of a kernel that folds so many parts of so many results at each point, of a sole one
    in a warp (`Parts.readers`). A point's parts are in flight at once.
    """
    points = prod(extents)
    threads = sharing(splits, points, extents[-1] if extents else 1, target, results)
    if points == 1:
        then, parts = f"tileify,cooperative-reduce{{threads={WARP} rows=1 vector=1}}", IN_FLIGHT
    elif threads > 1:
        rows, parts = min(_power_to(extents[-1]), WARP), ceil(splits / threads)
        steps = [
            "tileify",
            f"cooperative-reduce{{threads={threads} rows={rows} vector=1 order=rows}}",
            *accumulators([[parts]]),
        ]
        then = ",".join(steps)
    else:
        then, parts = pointwise([*extents], False, apart=accumulators([[splits]])), IN_FLIGHT
    return f"{then},mark-unroll{{limit={min(parts, IN_FLIGHT)}}}"


def _power_to(number: int) -> int:
    """The greatest power of two that is not more."""
    return 1 << number.bit_length() - 1
