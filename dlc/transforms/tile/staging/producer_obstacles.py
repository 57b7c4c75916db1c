"""What stands in the way of a producer, of its registers, of blocks that stay, and of turns."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeGuard

from xdsl.ir import Operation

from dlc.analysis.kernel.tensor_maps import tma_obstacle
from dlc.analysis.tile.rings import loop_of
from dlc.analysis.tile.skips import can_skip
from dlc.analysis.tile.thread_groups import count_of, lanes_of
from dlc.analysis.tile.tma_rings import ring_box
from dlc.dialects import tile
from dlc.dialects.axes import THREAD
from dlc.dialects.register_counts import product_obstacle
from dlc.dialects.ring_ops import TMA
from dlc.dialects.scan_ops import AlongOpBase
from dlc.ir.variance import variance
from dlc.target import MAX_THREADS, WARPGROUP, Target


def no_boxes(kernel: tile.KernelOp, rings: Sequence[tile.RingOp]) -> str:
    """
    The reason why TMA can copy no boxes of what a ring holds, if it fills none of some rings:
    threads fill them all then, and there is nothing for a producer to request.
    """
    if any(ring.fill_kind == TMA for ring in rings):
        return ""
    for ring in rings:
        slab, source = ring.slab, ring.slab.source
        if obstacle := tma_obstacle(
            slab.source_type, ring_box(ring), kernel.alignment(source), slab.subscripts
        ):
            return f"TMA copies no boxes of {source.name_hint or 'its source'}, {obstacle}"
    return ""


def no_producer(launch: tile.LaunchOp, target: Target) -> str:
    """The reason why a producer cannot request all chunks and the others do all else, if any."""
    ops = list(launch.walk())
    rings = [op for op in ops if isinstance(op, tile.RingOp)]
    if any(ring.fill_kind != TMA or loop_of(ring) is None for ring in rings):
        return "a producer requests chunks of rings that TMA fills, and that a loop works through"
    if any(isinstance(op, _TOGETHER) and not _is_apart(op, launch) for op in ops):
        return "all threads of the block meet, or copy what no ring holds"
    threads = computing_threads(launch)
    if threads % WARPGROUP or threads + WARPGROUP > MAX_THREADS:
        return f"its {threads} threads are no whole warpgroups, or leave no room for one more"
    products = [op.mma for op in ops if is_by_warpgroup(op) and op.mma is not None]
    obstacles = (product_obstacle(mma, threads + WARPGROUP, target) for mma in products)
    return next(filter(None, obstacles), "")


def no_registers(launch: tile.LaunchOp, kept: int, target: Target) -> str:
    """The reason why others get no more registers if a producer keeps so many, if any."""
    threads = computing_threads(launch) + WARPGROUP
    entry, beside = target.entry_registers(threads), target.registers_beside(threads, kept)
    if kept < entry < beside:
        return ""
    return f"each of {threads} threads has {entry} registers, and others would have {beside}"


def not_resident(launch: tile.LaunchOp, loops: Sequence[tile.ReduceOp]) -> str:
    """The reason why a block cannot do the work of several, one after the other, if any."""
    along = variance(launch)
    if any(loop.skips is not None or can_skip(loop, along) for loop in loops):
        return "its loop skips chunks, as many as depend on the block"
    if any(isinstance(op, tile.StageOp) for op in launch.walk()):
        return "all threads copy a slab before its loop, the producer's, too"
    if launch.block_fold is not None:
        return "a block that folds what others hold ends when they have read what it holds"
    return ""


def no_alternation(launch: tile.LaunchOp, loops: Sequence[tile.ReduceOp]) -> str:
    """The reason why warpgroups of a block cannot take turns at products, if any."""
    if computing_threads(launch) < 2 * WARPGROUP:
        return "a block has one warpgroup that computes"
    products = [sum(map(is_by_warpgroup, loop.walk())) for loop in loops]
    if len(loops) != 1 or products[0] < 2:
        return "no iteration multiplies, computes of the sums and multiplies again"
    return ""


def is_computed_with(product: tile.ReduceOp) -> bool:
    """True if an iteration computes of what it multiplies."""
    uses = [use.operation for result in product.results for use in result.uses]
    return any(not isinstance(op, tile.YieldOp) for op in uses)


def is_loop(op: Operation) -> TypeGuard[tile.ReduceOp]:
    return isinstance(op, tile.ReduceOp)


def computing_threads(launch: tile.LaunchOp) -> int:
    """Those that compute points."""
    return prod(launch.extent(a) for a in launch.axes_of(THREAD))


def _is_apart(op: Operation, launch: tile.LaunchOp) -> bool:
    """
    True for a stage that all threads copy before there are rings, for what the lanes of a warp
    combine by shuffles, and for what the blocks of a cluster fold, whose producers have ended.
    """
    if isinstance(op, tile.StageOp):
        rings = [ring for ring in launch.body.block.ops if isinstance(ring, tile.RingOp)]
        return op.parent_op() is launch and all(map(op.is_before_in_block, rings))
    if not isinstance(op, tile.CombineOp):
        return False
    if op.is_of_blocks:
        rings = [ring for ring in launch.walk() if isinstance(ring, tile.RingOp)]
        return op.cluster is not None and all(ring.multicast == (1, 1) for ring in rings)
    threads, across = list(launch.axes_of(THREAD)), list(op.axes)
    return lanes_of(threads, across).count == count_of(across)


A_PRODUCER = "take producer=1"


_TOGETHER = tile.StageOp | tile.ComputeOp | tile.ShareOp | tile.CombineOp | AlongOpBase


def is_by_warpgroup(op: Operation) -> TypeGuard[tile.ReduceOp]:
    """True for a reduce that warpgroups fold."""
    return isinstance(op, tile.ReduceOp) and op.mma is not None and op.mma.is_of_warpgroup
