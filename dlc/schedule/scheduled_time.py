"""
The estimate of a scheduled kernel's time, from its Kernel IR: what a schedule search goes by.

`dlc.schedule.estimate` predicts what a kernel takes with the schedule that it will get; this counts
what one schedule made of it. A kernel takes the launch overhead and then the longest of: its bytes
at the memory's rate, its sectors at the L2 cache's, and what the busiest SM takes for its blocks,
as many at once as registers, threads and shared memory allow. These share its issue slots, banks
and tensor cores; and none is faster than what it computes and waits for, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, prod

from xdsl.ir import SSAValue

from dlc.analysis.kernel.counts import Counts
from dlc.analysis.kernel.instruction_counts import counts_by_block
from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.kernel.roles import computing_threads, registers_set
from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.dialects import kernel
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.layouts import shape_of
from dlc.schedule.block_order import MANY_BLOCKS, dealt_in_order, slowest
from dlc.schedule.candidate import START
from dlc.schedule.units import clocks_together, path_clocks
from dlc.target import REGISTER_STEP, SECTOR_BYTES, Target

OTHER_REGISTERS = 24
"""Registers of a thread beside what it holds in arrays: addresses, counters."""
SPILL_SLOTS = 4
"""Issue slots of a register that lies in memory, each time that a thread waits."""
BARRIER = 30
"""Clocks that the warps of a block lose at a barrier."""


@dataclass(frozen=True)
class Compiled:
    """What is known of a kernel's machine code."""

    registers: int
    """Of a thread."""
    spilled: float = 0
    """Words of a thread that do not fit in registers."""
    fma_share: float = 0
    """The share of multiply-adds in the loop where the time goes; 0 without such a loop."""


def guessed(counts: Counts, func: kernel.FuncOp, target: Target) -> Compiled:
    """What machine code may be like, of which nothing is known."""
    words = counts.registers + OTHER_REGISTERS
    entry = target.entry_registers(func.block_size)
    most = registers_set(func)
    registers = entry if most else min(words + -words % REGISTER_STEP, entry)
    return Compiled(registers, max(0, words - (most or entry)))


def scheduled_seconds(
    func: kernel.FuncOp, target: Target, compiled: Compiled | None = None
) -> float:
    """The predicted time of a launch; infinite for one that does not fit on an SM."""
    blocks, threads = func.grid_size, func.block_size
    if blocks == 0:
        return target.launch_seconds
    each = counts_by_block(func)
    compiled = compiled or guessed(each[0], func, target)
    warps = ceil(computing_threads(func) / target.warp)
    shared = shared_slots(func)[1]
    held = occupancy(target, threads, compiled.registers, shared).blocks
    if held < 1 or shared > target.shared_per_block:
        return inf
    cluster = func.cluster_size
    work = [_Block.of(counts, warps, compiled, target, cluster) for counts in each]
    if len(work) == 1:
        clocks = _clocks(work[0], target.busiest_share(blocks, cluster, held), held)
    else:
        clocks = _uneven_clocks(work, held, target)
    l2 = sum(_l2_seconds(counts, target) for counts in each) / len(each) * warps * blocks
    fetching = target.start_seconds + max(l2, _memory_seconds(func, target))
    return target.launch_seconds + max(clocks / target.clock, fetching)


def joined_seconds(
    funcs: Sequence[kernel.FuncOp],
    counted: Sequence[Counts],
    target: Target,
    again: Sequence[SSAValue] = (),
) -> float:
    """
    The predicted time of one launch in which the blocks of some kernels run, those of the first
    before the others', or of one kernel: all of a kernel's blocks are taken to do the same. Each
    takes the registers and the shared memory of the largest. Buffers `again` are others, too.
    """
    warps = [ceil(func.block_size / target.warp) for func in funcs]
    compiled = [guessed(c, func, target) for func, c in zip(funcs, counted, strict=True)]
    registers = max(one.registers for one in compiled)
    shared = max(shared_slots(func)[1] for func in funcs)
    held = occupancy(target, max(warps) * target.warp, registers, shared).blocks
    if held < 1:
        return inf
    each = [
        (_Block.of(counts, own, one, target, func.cluster_size), func.grid_size)
        for func, counts, own, one in zip(funcs, counted, warps, compiled, strict=True)
    ]
    if sum(count for _, count in each) > MANY_BLOCKS:
        clocks = sum(_clocks(b, ceil(n / target.sms), held) for b, n in each)
    else:
        blocks = [block for block, count in each for _ in range(count)]
        clocks = _uneven_clocks(blocks, held, target)
    l2 = sum(
        _l2_seconds(counts, target) * own * func.grid_size
        for func, counts, own in zip(funcs, counted, warps, strict=True)
    )
    memory = sum(_memory_seconds(func, target) for func in funcs)
    memory -= sum(map(_bytes, again)) / target.memory_rate
    fetching = target.start_seconds + max(l2, memory)
    return target.launch_seconds + max(clocks / target.clock, fetching)


@dataclass(frozen=True)
class _Block:
    """What a block takes of an SM, in clocks."""

    warps: int
    own: tuple[float, ...]
    """Of the units that each scheduler has."""
    shared: tuple[float, ...]
    """Of those of the SM."""
    path: float
    """What a warp does one after the other."""
    waits: float
    """That it waits for, one after the other."""
    least: float
    """From its begin to its end, at least."""
    unhidden: float
    """The share of clocks of units that others do not hide."""
    target: Target

    @staticmethod
    def of(
        counts: Counts, warps: int, compiled: Compiled, target: Target, cluster: int = 1
    ) -> _Block:
        slots = counts.slots
        if compiled.fma_share:
            slots = max(counts.fmas / compiled.fma_share, counts.fmas)
        slots += compiled.spilled * SPILL_SLOTS * max(counts.waits, counts.barriers, 1)
        own = (
            warps * slots * target.warp / target.issue_lanes,
            warps * _tensor_clocks(counts, target),
        )
        between = warps * counts.cluster_bytes * (1 - 1 / cluster) / target.cluster_bytes
        waits = counts.waits * target.latency_clocks + counts.barriers * BARRIER + START / 2
        waits += counts.cluster_barriers * target.cluster_barrier + between
        waits += counts.relaxed_barriers * target.cluster_clocks
        last = warps * counts.last_sectors * SECTOR_BYTES
        waits += last * target.clock / target.sm_bandwidth
        least = counts.overlapped * target.latency_clocks
        path = path_clocks(counts.fmas, slots - counts.fmas, target)
        unhidden = target.apart_mma if counts.products.keys() - {"tf32"} else target.apart
        shared = (warps * counts.wavefronts,)
        return _Block(warps, own, shared, path, waits, least, unhidden, target)

    def busy(self, running: float) -> float:
        """What so many of them keep an SM busy."""
        warps = running * self.warps
        return running * clocks_together(self.own, self.shared, warps, self.unhidden, self.target)

    @property
    def alone(self) -> float:
        """From its begin to its end, where it runs alone."""
        return max(max(self.busy(1), self.path) + self.waits, self.least)


def _clocks(block: _Block, share: int, held: int) -> float:
    """Of the SM that has the largest share of blocks that all do the same."""
    clocks = 0.0
    while share > 0:
        running = min(held, share)
        rounds = share // running if running == held else 1
        clocks += rounds * (max(block.busy(running), block.alone) + START / 2)
        share -= rounds * running
    return clocks


def _uneven_clocks(blocks: Sequence[_Block], held: int, target: Target) -> float:
    """Of the slowest SM, where blocks in this order have more to do than others."""
    most = max(blocks, key=lambda block: block.busy(1))
    unit = most.busy(held) / held

    def of_each(running: int) -> float:
        return max(most.busy(running), most.alone) / max(unit, 1)

    loads = dealt_in_order([b.busy(held) / held for b in blocks], target.sms, held)
    rounds = ceil(max(map(len, loads)) / held)
    return slowest(loads, held, of_each) + rounds * START / 2


def _tensor_clocks(counts: Counts, target: Target) -> float:
    """Clocks of the tensor cores of an SM for what a warp multiplies."""
    by_warps = (n / target.mma_rate(kind) for kind, n in counts.products.items())
    by_groups = (n / target.group_rate(kind) for kind, n in counts.group_products.items())
    return sum(by_warps) + sum(by_groups) / target.filled_share


def _l2_seconds(counts: Counts, target: Target) -> float:
    """Of what a warp touches, if all SMs draw at once."""
    others = SECTOR_BYTES * (counts.sectors - counts.box_sectors) / target.l2_bandwidth
    return others + SECTOR_BYTES * counts.box_sectors / target.box_bandwidth


def _memory_seconds(func: kernel.FuncOp, target: Target) -> float:
    """Every buffer once."""
    return sum(map(_bytes, func.refs)) / target.memory_rate


def _bytes(ref: SSAValue) -> int:
    return prod(shape_of(ref)) * element_bytes(memref_of(ref).element_type)
