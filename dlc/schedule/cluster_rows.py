"""
Rows that the blocks of a cluster hold between them: each reads its share from memory once, keeps it
in shared memory from one sweep to the next, and goes on with what all of them reduce.

Two things speak for it: rows that no block can hold are read once, and few rows are read by more
SMs than there are rows. What it costs is a meeting of the cluster for each reduce, and one at the
end, which waits for no writes; where an SM has one block at a time, nothing else of it runs while
that waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, prod

from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.loop.cost import Work
from dlc.analysis.tile.row_lanes import most_rounds, rounds_along, rounds_of_share, row_lanes
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes, register_words
from dlc.schedule.contraction_tiles import outer_loop
from dlc.schedule.endings import meeting_clocks
from dlc.schedule.long_sums import accumulator_count, long_sums
from dlc.schedule.rows import RESERVED, RowPlan, exchanged, reduced_rows
from dlc.target import MAX_CLUSTER, SECTOR_BYTES, Target

LEAST_OF_BLOCK = 256
"""Threads of a block that holds a share, at least."""
LEAST_OF_SM = 512
"""Threads of an SM, at least: four warps of each scheduler, which hide what each waits for."""
REGISTERS = 40
"""Registers of a thread that goes over a row in loops, as nvcc has it for norms and softmax."""


@dataclass(frozen=True)
class ClusterRows:
    """A plan of rows that the blocks of clusters hold, and what it comes to."""

    plan: RowPlan
    row_count: int
    folds: int
    """Of what the blocks of a cluster reduce."""
    words: int
    """Words of a row that its reduces give."""
    exchanged: int
    """Instructions of a thread to fold what others of its row hold, in a block and among these."""
    target: Target

    @property
    def block_threads(self) -> int:
        return self.plan.threads * self.plan.rows

    @property
    def blocks(self) -> int:
        """Of the grid."""
        return ceil(self.row_count / self.plan.rows) * self.plan.blocks

    @cached_property
    def resident(self) -> int:
        """The blocks that an SM runs at once."""
        shared = self.plan.kept_bytes + RESERVED
        return occupancy(self.target, self.block_threads, REGISTERS, shared).blocks

    @property
    def used(self) -> int:
        """The SMs that have a block at the same time."""
        at_once = self.target.surely_at_once(self.plan.blocks, self.resident) * self.plan.blocks
        return min(self.blocks, self.target.sms, max(at_once, 1))

    def seconds(self, work: Work, flops: float) -> tuple[float, float]:
        """
        What follows a launch: the longest of so many operations, of memory, and of what the
        busiest SM does for its blocks, those that it runs at once waiting together; and the last.
        """
        target, blocks = self.target, self.blocks
        used = self.used
        busiest = target.busiest_share(blocks, self.plan.blocks, self.resident)
        waits = meeting_clocks(self.folds, target)
        read = self.words * self.plan.blocks * self.plan.rows
        waits += read * SECTOR_BYTES / target.cluster_bytes
        waiting = target.start_seconds + waits / target.clock
        memory = work.memory_bytes / min(target.memory_rate, used * target.sm_bandwidth)
        drawn = max(memory, work.l2_bytes / (target.l2_bandwidth * used / target.sms))
        own = busiest * work.memory_bytes / blocks / target.sm_bandwidth
        own += ceil(busiest / self.resident) * waiting
        issued = blocks * self.block_threads * self.exchanged
        computing = (flops + issued) / (target.flops * used / target.sms)
        return max(drawn + waiting, own, computing + waiting), own


def cluster_rows(kernel: loop.KernelOp, target: Target) -> Iterator[ClusterRows]:
    """
    The plans by which blocks of clusters could hold the rows of a kernel: those that it reads in
    more than one sweep, where a block has no room for them or where there are fewer than SMs.
    """
    plan = reduced_rows(kernel, target) if target.has("cluster") else None
    if plan is None or plan.parts > 1 or kernel.zeroed_refs or _reads_stored(kernel):
        return
    outer = outer_loop(kernel)
    sweeps = [op for op in (outer or kernel).body.block.ops if isinstance(op, AxesOp)]
    lengths = [[op.hint(a) for a in op.axes] for op in sweeps]
    sizes = _read_again(sweeps)
    again = sum(sizes.values())
    row_count = prod(map(outer.hint, outer.axes)) if outer else 1
    held = max(map(prod, lengths)) * plan.rows * again
    if not again or (row_count >= target.sms and held <= target.shared_per_block // 2):
        return
    reduces = [op for op in sweeps if isinstance(op, loop.ReduceOp)]
    sums = long_sums(kernel)
    for threads, rows in _blocks(plan, max(sizes.values()), target):
        lanes = [row_lanes(one, threads, plan.vector) for one in lengths]
        rounds = [rounds_along(*one, plan.vector) for one in zip(lengths, lanes, strict=True)]
        for blocks in range(2, MAX_CLUSTER + 1):
            if max(map(most_rounds, rounds)) < blocks:
                break
            shares = [rounds_of_share(one, blocks) for one in rounds]
            if not _is_even([n for n, op in zip(shares, sweeps, strict=True) if op in sums], plan):
                continue
            kept = max(map(prod, shares)) * threads * rows * plan.vector * again
            if kept > target.shared_per_block - RESERVED:
                continue
            own = replace(
                plan, threads=threads, rows=rows, blocks=blocks, kept_bytes=kept, ahead=False
            )
            each = sum(exchanged(op, threads, target) for op in reduces)
            words = sum(register_words(r.type) for op in reduces for r in op.results)
            found = ClusterRows(own, row_count, len(reduces), words, each, target)
            if found.resident * found.block_threads >= LEAST_OF_SM:
                yield found


def _is_even(sums: Sequence[Sequence[int]], plan: RowPlan) -> bool:
    """True if the accumulators of sums divide what they add: else a share that is added is another
    one than what follows reads."""
    count = accumulator_count(sums, plan.vector)
    return count is None or all(n % count == 0 for n in max(sums, key=prod) if n >= count)


def _blocks(plan: RowPlan, size: int, target: Target) -> Iterator[tuple[int, int]]:
    """Threads of a row and rows of a block: neighbouring rows down to those of a sector."""
    if not plan.across:
        threads = plan.threads
        while threads >= LEAST_OF_BLOCK or threads == plan.threads:
            yield threads, plan.rows
            if threads % (2 * target.warp):
                break
            threads //= 2
        return
    rows = plan.rows
    while rows * size >= SECTOR_BYTES or rows == plan.rows:
        yield plan.threads * plan.rows // rows, rows
        if rows % 2:
            break
        rows //= 2


def _read_again(sweeps: Sequence[AxesOp]) -> dict[object, int]:
    """The bytes of an element of each input that several sweeps over a row load."""
    found = dict[object, int]()
    known = set[object]()
    for sweep in sweeps:
        loads = [op for op in sweep.walk() if isinstance(op, loop.LoadOp)]
        for op in loads:
            if op.ref in known:
                found[op.ref] = element_bytes(op.result.type)
        known |= {op.ref for op in loads}
    return found


def _reads_stored(kernel: loop.KernelOp) -> bool:
    """True if a kernel updates an input in place, or reads what it stores."""
    stored = {*kernel.output_refs}
    loads = (op for op in kernel.walk() if isinstance(op, loop.LoadOp))
    return bool(kernel.updated_refs) or any(op.ref in stored for op in loads)


def along_sizes(kernel: loop.KernelOp) -> bool:
    """True if a sweep over a row is as long as a size, of which no block has a fixed share."""
    block = (outer_loop(kernel) or kernel).body.block
    sweeps = [op for op in block.ops if isinstance(op, AxesOp)]
    return any(op.is_size(axis) for op in sweeps for axis in op.axes)
