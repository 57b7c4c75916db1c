"""How the threads of a block sort rows, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from dlc.analysis.kernel.occupancy import occupancy
from dlc.dialects import loop
from dlc.dialects.kernel_memory import register_words
from dlc.ir.sorting_network import windows
from dlc.schedule.contraction_tiles import outer_loop
from dlc.schedule.rows import RowPlan, power_of_two, row_sweeps
from dlc.target import BANK_BYTES, BANKS, BLOCK_THREADS, MAX_THREADS, Target

MOST_SORTED = 16
"""Values of a row that is sorted which are worth a thread, as its registers hold them."""
SORTED = MOST_SORTED // 2
"""As many as a thread has where it may have fewer: three steps between two exchanges."""
OTHER_REGISTERS = 40
"""Registers of a thread beside the values that it holds, as nvcc has it."""


def sort_plan(
    outer: loop.ForOp | None, sweeps: Sequence[loop.ReduceOp | loop.ForOp], target: Target
) -> RowPlan | None:
    """
    The shape of a block that sorts rows: it takes each as a whole, and so many that it has 256
    threads, unless SMs would then stay empty. None where nothing is sorted, more than a block
    holds, or less than two threads do.
    """
    points = max((_points(op) for op in _sorts(sweeps)), default=0)
    extents = [outer.hint(axis) for axis in outer.axes] if outer else []
    return block_plan(points, prod(extents), extents[-1] if extents else 1, target)


def block_plan(points: int, row_count: int, neighbours: int, target: Target) -> RowPlan | None:
    """The same of so many rows of so many points, of which so many can share a block."""
    vector = max(min(SORTED, points // 2), points // MAX_THREADS)
    if not 2 <= vector <= MOST_SORTED:
        return None
    threads = points // vector
    share = max(1, BLOCK_THREADS // threads)
    rows = min(share, neighbours, ceil(row_count / target.sms))
    return RowPlan(threads, power_of_two(max(1, rows)), vector, 1, points)


def padded_row(points: int, size: int) -> list[int]:
    """The shape of the shared memory in which a row of elements of so many bytes is sorted:
    neighbouring runs of all banks begin in banks beside."""
    run = BANKS * BANK_BYTES // size
    return [points // run, run + 1] if points > run else [points]


def sorted_bytes(points: int, words: int) -> int:
    """The bytes of a row of numbers of so many registers, of which more than two are several of 64
    bits."""
    return prod(padded_row(points, min(words, 2) * BANK_BYTES)) * words * BANK_BYTES


@dataclass(frozen=True)
class Network:
    """A sort of a row, or of its first values: numbers of so many registers, any or what is
    bitonic."""

    words: int
    bitonic: bool = False
    first: int | None = None


def sort_seconds(kernel: loop.KernelOp, target: Target) -> float:
    """
    The time of the blocks of a kernel that sorts rows, one after the other on an SM; 0 if it sorts
    none. What is sorted, and what threads fold before, as a search does that tells what to sort, is
    loaded.
    """
    outer = outer_loop(kernel)
    sweeps = row_sweeps(list((outer or kernel).body.block.ops))
    plan = sort_plan(outer, sweeps, target)
    if plan is None:
        return 0
    row_count = prod(outer.hint(axis) for axis in outer.axes) if outer else 1
    networks = [
        Network(sum(register_words(r.type) for r in op.results), op.bitonic is not None, op.first)
        for op in _sorts(sweeps)
    ]
    folds = [
        (prod(op.hint(axis) for axis in op.axes), len(op.body.block.ops))
        for op in sweeps
        if isinstance(op, loop.ReduceOp)
    ]
    return block_seconds(plan, row_count, networks, folds, target)


def block_seconds(
    plan: RowPlan,
    row_count: int,
    networks: Sequence[Network],
    folds: Sequence[tuple[int, int]],
    target: Target,
) -> float:
    """
    The same of so many rows, the sorts of each, and the points and operations of its folds.
    Comparisons and exchanges are partly at the same time; a block alone waits for each.
    """
    blocks = max(1, ceil(row_count / plan.rows))
    threads = plan.threads * plan.rows
    issue = waited = shared_bytes = words = 0.0
    for network in networks:
        first = None if network.first is None else _bits(network.first)
        shape = _bits(plan.length), _bits(plan.vector)
        every = list(windows(*shape, bitonic=network.bitonic, first=first))
        words, size = network.words, network.words * BANK_BYTES
        busy = [min(plan.threads, max(1 << window.threads, target.warp)) for window in every]
        pairs = sum(len(w.pairs) * n for w, n in zip(every, busy, strict=True)) / plan.threads
        comparing = threads * pairs * (2 if words == 1 else 3 * words) / target.integer_lanes
        read = sum(n << w.held for w, n in [*zip(every, busy, strict=True)][1:])
        written = sum(n << w.kept for w, n in [*zip(every, busy, strict=True)][:-1])
        if first is not None:
            read, written = read + plan.length, written + (busy[-1] << every[-1].kept)
        moved = plan.rows * (read + written)
        exchanging = max(moved * size / (BANKS * BANK_BYTES), moved / target.issue_lanes)
        longer, shorter = max(comparing, exchanging), min(comparing, exchanging)
        issue += longer + target.apart * shorter
        waited += len(every) * (target.meeting_clocks + 2 * target.read_clocks)
        waited += 2 * pairs / plan.vector * 3 * words * target.dependent_clocks
        shared_bytes += sorted_bytes(plan.length, words) * plan.rows
    for points, work in folds:
        rounds = ceil(points / plan.threads)
        issue += rounds * threads * work / target.issue_lanes
        waited += target.latency_clocks + target.meeting_clocks
    waited += target.latency_clocks
    registers = ceil(words * plan.vector + OTHER_REGISTERS)
    held = max(1, occupancy(target, threads, registers, int(shared_bytes)).blocks)
    resident = min(held, ceil(blocks / target.sms))
    turns = blocks / (target.sms * resident) if blocks > target.sms * resident else 1
    return turns * max(waited, resident * issue) / target.clock


def _sorts(sweeps: Sequence[loop.ReduceOp | loop.ForOp]) -> list[loop.SortOp]:
    return [op for sweep in sweeps if isinstance(sweep, loop.ForOp) for op in loop.sorts_in(sweep)]


def _points(op: loop.SortOp) -> int:
    around = op.parent_op()
    assert isinstance(around, loop.ForOp)
    return around.extent(around.axes[0])


def _bits(power: int) -> int:
    return power.bit_length() - 1
