"""
The estimate of a scheduled kernel's time, from its Kernel IR: what a schedule search goes by.

`dlc.schedule.estimate` predicts what a kernel takes with the schedule that it will get; this counts
what one schedule made of it. A kernel takes the launch overhead and then the longest of: its bytes
at the memory's rate, its sectors at the L2 cache's, and what the busiest SM takes for its blocks,
as many at once as registers, threads and shared memory allow. These share its issue slots, banks
and tensor cores; and none is faster than what it computes and waits for, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, prod

from dlc.analysis.kernel.instruction_counts import Counts, counts_of
from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.dialects import kernel
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.layouts import shape_of
from dlc.schedule.candidate import LATENCY, SCHEDULERS, START, filled
from dlc.schedule.occupancy import occupancy
from dlc.target import MAX_REGISTERS, SECTOR_BYTES, Target

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


def guessed(counts: Counts) -> Compiled:
    """What machine code may be like, of which nothing is known."""
    words = counts.registers + OTHER_REGISTERS
    registers = min(words + -words % 8, MAX_REGISTERS)
    return Compiled(registers, max(0, words - MAX_REGISTERS))


def scheduled_seconds(
    func: kernel.FuncOp, target: Target, compiled: Compiled | None = None
) -> float:
    """The predicted time of a launch; infinite for one that does not fit on an SM."""
    counts, blocks, threads = counts_of(func), func.grid_size, func.block_size
    if blocks == 0:
        return target.launch_seconds
    compiled = compiled or guessed(counts)
    warps = ceil(threads / target.warp)
    shared = shared_slots(func)[1]
    held = occupancy(target, threads, compiled.registers, shared)
    if held.blocks < 1 or shared > target.shared_per_block:
        return inf
    slots = counts.slots
    if compiled.fma_share:
        slots = max(counts.fmas / compiled.fma_share, counts.fmas)
    slots += compiled.spilled * SPILL_SLOTS * max(counts.waits, counts.barriers, 1)
    busy = warps * max(
        slots * target.warp / target.issue_lanes,
        counts.wavefronts,
        _tensor_clocks(counts, target),
    )
    waits = counts.waits * LATENCY + counts.barriers * BARRIER + START / 2
    alone = max(busy + waits, counts.overlapped * LATENCY)
    share, clocks = ceil(blocks / target.sms), 0.0
    while share > 0:
        running = min(held.blocks, share)
        rounds = share // running if running == held.blocks else 1
        together = running * busy / filled(running * warps / SCHEDULERS)
        clocks += rounds * (max(together, alone) + START / 2)
        share -= rounds * running
    l2 = counts.sectors * SECTOR_BYTES * warps * blocks / target.l2_bandwidth
    return target.launch_seconds + max(clocks / target.clock, l2, _memory_seconds(func, target))


def _tensor_clocks(counts: Counts, target: Target) -> float:
    """Clocks of the tensor cores of an SM for what a warp multiplies."""
    clocks = counts.tensor_flops / 2 / target.mma_lanes
    clocks += counts.group_flops / 2 / target.tensor_lanes
    return clocks + (counts.tf32_flops / 2 / target.mma_tf32_lanes if counts.tf32_flops else 0)


def _memory_seconds(func: kernel.FuncOp, target: Target) -> float:
    """Every buffer once."""
    total = sum(
        prod(shape_of(ref)) * element_bytes(memref_of(ref).element_type) for ref in func.refs
    )
    return total / target.memory_bandwidth
