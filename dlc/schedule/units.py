"""
How long the units of an SM take for what its warps do: issue slots, tensor cores, shared memory.

None takes less than the busiest unit does. What the others do is hidden in part: warps that meet at
barriers do much the same at the same time, and a scheduler that has one warp does one thing after
the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlc.target import Target


def issuing(warps: float, target: Target) -> float:
    """The share of an SM's schedulers that so many warps occupy."""
    return min(1.0, warps / target.schedulers)


def apart(warps: float, share: float, target: Target) -> float:
    """
    The share of the clocks of other units that the busiest does not hide: all of them where a
    scheduler has one warp, and `share` where it has two or more.
    """
    each = min(max(warps / target.schedulers, 1.0), 2.0)
    return 1 - (1 - share) * (each - 1)


def path_clocks(multiplied: float, others: float, target: Target) -> float:
    """
    Clocks of a warp that a scheduler has to itself: multiply-adds of several sums follow each
    other, and of its other instructions each waits for the last one. Measured on an H100 of one row
    of attention, 17025 instructions of which 4120 are multiply-adds: 66000.
    """
    return multiplied + target.dependent_clocks * others


def clocks_of(units: Sequence[float], share: float) -> float:
    """The clocks of several units together: of all but the longest, a share is not hidden."""
    longest = max(units)
    return longest + share * (sum(units) - longest)


def clocks_together(
    own: Sequence[float], shared: Sequence[float], warps: float, share: float, target: Target
) -> float:
    """
    Clocks of an SM in which so many warps run, given those that its units would take if all
    schedulers had warps: `own` are units that each scheduler has, `shared` those of the SM. So many
    warps do not hide a `share` of the clocks of all but the busiest unit.
    """
    units = [*(clocks / issuing(warps, target) for clocks in own), *shared]
    return clocks_of(units, apart(warps, share, target))
