"""How long runs of rows are folded, which end where data say."""

from __future__ import annotations

from functools import lru_cache

from dlc.schedule.estimate import AT_ONCE
from dlc.target import SECTOR_BYTES, Target

FANS = (8, 16, 32, 64)
"""The numbers of rows that are tried as one of the next level."""
LOADS = 2
"""The loads of a step that wait for each other: where a row is, and the row."""


def fan_of(about: int, rows: int, row_bytes: int, target: Target) -> int | None:
    """
    How many of so many rows, of so many bytes each, are folded first to one of the next level,
    where runs have about so many: what is whole of these in a run is folded in its turn, and rows
    are walked at its ends. None where it is faster to walk runs as they are.
    """
    return _fastest(about, rows * max(row_bytes, SECTOR_BYTES), target)[1]


@lru_cache(maxsize=4096)
def _fastest(about: int, size: float, target: Target) -> tuple[float, int | None]:
    """The seconds for rows of so many bytes in all, and the rows of one of the next level."""
    step = LOADS * target.latency_seconds / AT_ONCE
    found: list[tuple[float, int | None]] = [(about * step, None)]
    for fan in FANS:
        if fan < about:
            moved = size * (1 + 1 / fan) / target.memory_rate
            seconds = target.launch_seconds + target.start_seconds + moved + fan * step
            found.append((seconds + _fastest(about // fan, size / fan, target)[0], fan))
    return min(found, key=lambda pair: pair[0])
