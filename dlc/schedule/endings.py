"""
How a reduce that blocks share ends, and what that takes: a second kernel combines their parts, or
the last of the blocks that share a point folds them, in the same order.

Either way the parts are written to where they fit, L2 or memory, and read from there. A second
kernel costs a launch and has the whole chip; the last block costs no launch, and what it reads
passes one SM.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from dlc.schedule.long_sums import LONG
from dlc.target import MAX_REGISTERS, Target

LATENCY = 900
"""Clocks from the request of a chunk to its arrival, from memory under load."""
IN_FLIGHT = 32
"""Partial sums of a point that the kernel which combines them loads at once."""
HELD_WORDS = (MAX_REGISTERS + 1) // 2
"""Registers of a thread of the last block for what it folds and the parts that it loads at once:
no more than a tile has that fills them."""
ARRIVALS = 2
"""Round trips to L2 until a block knows that it is the last: its parts are there, it is counted."""


@dataclass(frozen=True)
class Parts:
    """What the blocks of a kernel leave of a reduce that they share."""

    count: int
    """Of each point."""
    points: int
    """Words of the whole reduce."""
    held: int
    """Words of a thread."""
    groups: int
    """Those of blocks that share points."""
    group_words: int
    """Words of a block, those beyond the edge included."""

    @property
    def bytes(self) -> int:
        """Of all parts."""
        return 4 * self.points * self.count


WHOLE = Parts(1, 0, 0, 0, 0)
"""Of a reduce that blocks do not share."""


def parts_at_once(count: int, held: int) -> int:
    """
    How many of so many parts a thread of the last block loads at once, where it has `held` words
    of each: as many as divide them and fit in registers beside what is folded.
    """
    fitting = max(HELD_WORDS // max(held, 1) - 1, 1)
    return max(n for n in range(1, min(count, fitting) + 1) if count % n == 0)


def combining_seconds(parts: Parts, target: Target) -> float:
    """
    Writing and reading the parts, and the launch of the kernel that combines them, which waits for
    as many at once as it has in flight.
    """
    waits = (ceil(parts.count / IN_FLIGHT) - 1) * LATENCY / target.clock
    return target.launch_seconds + 2 * parts.bytes / _rate(parts.bytes, target) + waits


def last_block_seconds(parts: Parts, target: Target) -> float:
    """
    Writing the parts, counting the blocks, and reading the parts again: at the rate of the SM that
    has most groups to fold, which waits for as many parts at once as registers hold.
    """
    size = 4 * parts.group_words * parts.count * parts.groups
    rate = _rate(size, target)
    of_busiest = ceil(parts.groups / target.sms) * size / parts.groups
    turns = parts.count / parts_at_once(parts.count, parts.held)
    reading = max(size / rate, of_busiest / target.sm_bandwidth, turns * LATENCY / target.clock)
    return size / rate + ARRIVALS * LATENCY / target.clock + reading


def folding_registers(parts: Parts) -> int:
    """Registers of a thread of the last block: what is folded, the parts that it loads at once."""
    count = parts.held * (1 + parts_at_once(parts.count, parts.held)) + 32
    return count + -count % 8


def endings(count: int) -> tuple[bool, ...]:
    """
    For each way in which so many parts may end, if the last block folds them: as many as a thread
    adds without rounding more than it has to.
    """
    return (False, True) if 1 < count <= LONG else (False,)


def ending_seconds(parts: Parts, target: Target, *, last: bool) -> float:
    """What follows the parts takes; nothing if there is one."""
    if parts.count == 1:
        return 0
    return last_block_seconds(parts, target) if last else combining_seconds(parts, target)


def least_ending_seconds(parts: Parts, target: Target) -> float:
    """As `ending_seconds`, of the faster ending."""
    return min(ending_seconds(parts, target, last=last) for last in endings(parts.count))


def last_is_faster(parts: Parts, target: Target) -> bool:
    """True if the last block may fold the parts, and is faster."""
    return min(endings(parts.count), key=lambda last: ending_seconds(parts, target, last=last))


def _rate(size: int, target: Target) -> float:
    return target.l2_bandwidth if 2 * size < target.l2_bytes else target.memory_bandwidth
