"""
How additions at places that are data are dealt, and what they take, if places are even.

Threads add to memory, at the L2 cache; or a block adds up in a table of its own in shared memory,
which costs zeros before and an addition of the whole table after: the more points a block has, the
less that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log, prod, sqrt

from xdsl.dialects.builtin import i32

from dlc.analysis.loop.loops import trip_count
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.size_index import size_hint
from dlc.dialects.tile_stores import number_of
from dlc.ir.sizes import Size
from dlc.schedule.rows import RUN, power_of_two, run_of
from dlc.target import BANK_BYTES, BLOCK_THREADS, MAX_THREADS, SECTOR_BYTES, WARP, Target

MOST_TRIED = 64
"""Runs of a thread up to which are tried."""
END_CLOCKS = 4
"""Of a warp, for 32 elements of a table: zeros are stored, sums read and added to the output."""


@dataclass(frozen=True)
class AddingPlan:
    """A way to deal the points."""

    block: tuple[int, ...]
    """Points of a block along each axis."""
    thread: tuple[int, ...]
    run: int
    """Neighbouring points of a thread along the last axis."""
    tables: bool
    """Whether a block adds up in shared memory."""
    seconds: float
    """What the additions take."""

    @property
    def schedule(self) -> str:
        block, thread = (",".join(map(str, n)) for n in (self.block, self.thread))
        tables = " tables=true" if self.tables else ""
        steps = ["tileify", f"blockify-launch{{block={block} thread={thread}{tables}}}"]
        return ",".join([*steps, f"register-tile{{extents={self.run}}}"] if self.run > 1 else steps)

    @property
    def reason(self) -> str:
        where = "blocks add up in shared memory" if self.tables else "threads add to memory"
        return f"additions at places that are data: {where}, {self.seconds * 1e6:.1f} us"


def adding_plans(kernel: loop.KernelOp, target: Target) -> list[AddingPlan]:
    """The ways to deal a loop of points that add at places that are data, the fastest first; none
    for any other kernel."""
    loops = [op for op in kernel.walk() if isinstance(op, AxesOp)]
    adds = _adds(kernel)
    if len(loops) != 1 or not isinstance(outer := loops[0], loop.ForOp) or len(adds) != 1:
        return []
    if adds[0].parent is not outer.body.block or loop.scans_in(outer):
        return []
    if 0 in map(outer.hint, outer.axes):
        return []
    found = sorted(_plans(outer, adds[0], target), key=lambda plan: plan.seconds)
    return found


def adding_seconds(kernel: loop.KernelOp, target: Target) -> float:
    """What the additions of a kernel at places that are data take, and zeros before them."""
    adds = _adds(kernel)
    if not adds:
        return 0
    plans = adding_plans(kernel, target)
    return plans[0].seconds if plans else sum(_by_threads(op, target) for op in adds)


def _adds(kernel: loop.KernelOp) -> list[loop.AtomicAddOp]:
    return [op for op in kernel.walk() if isinstance(op, loop.AtomicAddOp)]


def least_seconds(points: int, places: int, size: int, fits: bool, target: Target) -> float:
    """
    What it takes to add numbers of so many bytes at `points` points, if tables of 32 bits hold what
    a block adds up where it `fits`.
    """
    best = _in_memory(points, places, size, 1, target)
    if fits and 0 < places * BANK_BYTES <= target.shared_per_block:
        for threads, runs in _tried():
            block = threads * RUN * runs
            blocks = ceil(points / block)
            best = min(best, _in_tables(blocks, block, threads, RUN, places, size, target))
    return best


def _tried() -> Iterator[tuple[int, int]]:
    """Threads of a block, and runs of each."""
    runs = 1
    while runs <= MOST_TRIED:
        for threads in (BLOCK_THREADS, 2 * BLOCK_THREADS, MAX_THREADS):
            yield threads, runs
        runs *= 2


def _plans(outer: loop.ForOp, op: loop.AtomicAddOp, target: Target) -> Iterator[AddingPlan]:
    extents = [outer.hint(axis) for axis in outer.axes]
    run = run_of(outer, outer.axes[-1:])
    run = run if extents[-1] >= run else 1
    block, thread = _dealt(extents, BLOCK_THREADS, run, 1)
    yield AddingPlan(block, thread, run, False, _by_threads(op, target))
    table, size = _elements(op), element_bytes(op.value.type)
    if not all(isinstance(n, int) for n in shape_of(op.ref.type)):
        return
    if table * BANK_BYTES > target.shared_per_block:
        return
    for threads, runs in _tried():
        block, thread = _dealt(extents, threads, run, runs)
        if op.value.type == i32 or abs(number_of(op.value)) * prod(block) < 2**31:
            blocks = prod(ceil(n / own) for n, own in zip(extents, block, strict=True))
            points = min(prod(block), prod(extents))
            seconds = _in_tables(blocks, points, prod(thread), run, table, size, target)
            yield AddingPlan(block, thread, run, True, seconds)


def _dealt(
    extents: Sequence[int], threads: int, run: int, runs: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The points and the threads of a block along each axis, the last axes first: so many threads
    at most, of so many runs each."""
    block, thread = [1] * len(extents), [1] * len(extents)
    left, held = threads, runs
    for axis in reversed(range(len(extents))):
        own = run if axis == len(extents) - 1 else 1
        whole = power_of_two(ceil(extents[axis] / own))
        thread[axis] = min(whole, left)
        left //= thread[axis]
        turns = min(whole // thread[axis], held)
        held //= turns
        block[axis] = thread[axis] * turns * own
    return tuple(block), tuple(thread)


def _by_threads(op: loop.AtomicAddOp, target: Target) -> float:
    around = loops_around(op)
    points = prod(trip_count(each) for each in around)
    axis = around[-1].axes[-1] if around and around[-1].axes else None
    follows = axis is not None and op.subscripts and op.subscripts[-1].coefficient(axis) == 1
    size = element_bytes(op.value.type)
    together = SECTOR_BYTES // size if follows else 1
    return _in_memory(points, _elements(op), size, together, target)


def _in_memory(points: int, places: int, size: int, together: int, target: Target) -> float:
    """By threads, of which so many add to one sector: it takes as long as one of which a part is
    stored, and an element as many clocks as there are additions to it."""
    sectors = points / together * SECTOR_BYTES * target.stored_rate / target.l2_bandwidth
    return max(sectors, points / max(places, 1) / target.l2_additions / target.clock)


def _in_tables(
    blocks: int, points: int, threads: int, run: int, places: int, size: int, target: Target
) -> float:
    """
    By blocks of so many points in shared memory, and of each block once to memory. A thread asks
    for its next run when it has added the last one; others of its SM ask meanwhile.
    """
    turns = ceil(blocks / target.sms)
    adding = turns * points / WARP * _together(places)
    ends = turns * ceil(places / threads) * threads / WARP * END_CLOCKS
    held = places * BANK_BYTES + target.reserved_shared
    resident = min(target.threads_per_sm // threads, target.shared_per_sm // held)
    trips = ceil(turns / max(resident, 1)) * ceil(points / (threads * run))
    waiting = (trips - 1) * target.latency_clocks  # the first is the start of the kernel
    clocks = max(adding * target.adding_clocks, waiting) + ends + 2 * target.meeting_clocks
    flushed = blocks * places * size * target.stored_rate / target.l2_bandwidth
    met = blocks / target.l2_additions / target.clock
    return clocks / target.clock + max(flushed, met)


def _together(table: int) -> float:
    """Of the lanes of a warp, how many meet in the bank that most of them add to, on average: the
    most of as many balls in bins (Raab and Steger, "Balls into Bins", RANDOM 1998)."""
    banks = min(max(table, 1), WARP)
    mean = WARP / banks
    return min(WARP, mean + sqrt(2 * mean * log(banks)))


def _elements(op: loop.AtomicAddOp) -> int:
    return prod(size_hint(Size.of(n), op) for n in shape_of(op.ref.type))
