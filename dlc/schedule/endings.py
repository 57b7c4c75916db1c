"""
How a reduce that blocks share ends, and what that takes: a second kernel combines their parts, the
last of the blocks that share a point folds them, or each of these blocks does at some points, all
in the same order.

For the first two the parts are written to where they fit, L2 or memory, and read from there. A
second kernel costs a launch and has the whole chip; the last block costs no launch, and what it
reads passes one SM. In a cluster the parts stay in shared memory, which takes room from the blocks,
and what a block reads of others passes between SMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Literal

from dlc.schedule.long_sums import LONG
from dlc.target import BANK_BYTES, BANKS, MAX_CLUSTER, MAX_REGISTERS, WARP, Target

Ending = Literal["workspace", "last", "cluster"]
"""As `split-matmul-k` calls them."""
WORDS: dict[Ending, tuple[str, str]] = {
    "workspace": ("combine", ""),
    "last": ("last block", ", folded by the last block"),
    "cluster": ("cluster", ", folded by the blocks of a cluster"),
}
"""How what follows the parts is called, and said of the parts."""
IN_FLIGHT = 32
"""Partial sums of a point that a thread of the kernel which combines them loads at once."""
HELD_WORDS = (MAX_REGISTERS + 1) // 2
"""Registers of a thread of the last block for what it folds and the parts that it loads at once:
no more than a tile has that fills them."""
ARRIVALS = 3
"""Round trips to L2 until all threads of a block know that it is the last: its parts are there, it
is counted. Measured on an H100, with what it reads first: 1.7 us of 8 blocks, 2.2 of 32."""


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
    each: int = 1
    """Words of a point."""

    @property
    def readers(self) -> int:
        """Threads of the kernel that combines them which share a point: a warp if it is the only
        one."""
        return WARP if self.points == self.each else 1

    @property
    def bytes(self) -> int:
        """Of all parts."""
        return 4 * self.points * self.count


WHOLE = Parts(1, 0, 0, 0, 0)
"""Of a reduce that blocks do not share."""


@lru_cache(maxsize=4096)
def parts_at_once(count: int, held: int) -> int:
    """
    How many of so many parts a thread of the last block loads at once, where it has `held` words
    of each: as many as divide them and fit in registers beside what is folded.
    """
    fitting = max(HELD_WORDS // max(held, 1) - 1, 1)
    return max(n for n in range(1, min(count, fitting) + 1) if count % n == 0)


def combining_seconds(parts: Parts, target: Target) -> float:
    """
    Writing and reading the parts, and the kernel that combines them: its launch, its start, and a
    wait for each more of as many at once as the threads of a point have in flight.
    """
    waits = (ceil(parts.count / (IN_FLIGHT * parts.readers)) - 1) * target.latency_seconds
    beside = target.launch_seconds + target.start_seconds + waits
    return beside + 2 * parts.bytes / _rate(parts.bytes, target)


def last_block_seconds(parts: Parts, target: Target) -> float:
    """
    Writing the parts, counting the blocks, and reading the parts again: at the rate of the SM that
    has most groups to fold, which waits for as many parts at once as registers hold.
    """
    size = 4 * parts.group_words * parts.count * parts.groups
    rate = _rate(size, target)
    of_busiest = ceil(parts.groups / target.sms) * size / parts.groups
    turns = parts.count / parts_at_once(parts.count, parts.held)
    reading = max(size / rate, of_busiest / target.sm_bandwidth, turns * target.latency_seconds)
    return size / rate + ARRIVALS * target.latency_seconds + reading


def meeting_clocks(folds: int, target: Target) -> int:
    """
    Clocks that blocks of a cluster wait: for each fold until all hold their parts, and for what
    comes of them; and until all have read, where a barrier waits for no writes, and is a way there
    and back.
    """
    return folds * (target.cluster_barrier + target.cluster_clocks) + target.cluster_clocks


def cluster_seconds(parts: Parts, target: Target, resident: int = 1) -> float:
    """
    Writing the parts to shared memory, and reading a share of all of them, of the blocks of the SM
    that has most, which read about as much as they hold. The blocks that an SM runs at once meet at
    the same time.
    """
    blocks = target.busiest_share(parts.groups * parts.count, parts.count, resident)
    held = 4 * parts.group_words
    writing = held / (BANKS * BANK_BYTES)
    reading = held * (parts.count - 1) / parts.count / target.cluster_bytes
    waiting = meeting_clocks(1, target)
    return (blocks * (writing + reading) + ceil(blocks / resident) * waiting) / target.clock


def folding_registers(parts: Parts, ending: Ending = "last") -> int:
    """Registers of a thread that folds: what is folded, the parts that it loads at once."""
    if ending == "workspace":
        return 0
    held = ceil(parts.held / parts.count) if ending == "cluster" else parts.held
    count = held * (1 + parts_at_once(parts.count, held)) + 32
    return count + -count % 8


def kept_bytes(parts: Parts, threads: int, ending: Ending) -> int:
    """Bytes of shared memory of a block of so many threads for what it holds, if others read it."""
    return 4 * parts.held * threads if ending == "cluster" else 0


def endings(count: int, target: Target) -> tuple[Ending, ...]:
    """
    The ways in which so many parts may end: in one launch as many as a thread adds without rounding
    more than it has to, and no other way where a target asks for that.
    """
    if not 1 < count <= LONG:
        return ("workspace",)
    clusters = count <= MAX_CLUSTER and target.has("cluster")
    second: tuple[Ending, ...] = () if target.one_launch else ("workspace",)
    return (*second, "last", "cluster") if clusters else (*second, "last")


def ending_seconds(parts: Parts, target: Target, ending: Ending, resident: int = 1) -> float:
    """What follows the parts takes, where an SM runs so many blocks at once; nothing of a whole."""
    if parts.count == 1:
        return 0
    if ending == "cluster":
        return cluster_seconds(parts, target, resident)
    if ending == "last":
        return last_block_seconds(parts, target)
    return combining_seconds(parts, target)


def fastest_ending(parts: Parts, target: Target) -> Ending:
    """The ending that is fastest."""
    ways = endings(parts.count, target)
    return min(ways, key=lambda way: ending_seconds(parts, target, way))


def _rate(size: int, target: Target) -> float:
    return target.l2_bandwidth if 2 * size < target.l2_bytes else target.memory_rate
