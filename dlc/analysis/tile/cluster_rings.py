"""The rings that blocks can hold alike and request for each other, as the blocks of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.tile.rings import loop_of
from dlc.analysis.tile.tma_rings import part_obstacle
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, THREAD
from dlc.dialects.ring_ops import TMA
from dlc.ir.sizes import Size, several
from dlc.ir.variance import Variance, variance
from dlc.target import MAX_CLUSTER, WARP


def launch_obstacle(launch: tile.LaunchOp) -> str | None:
    """The reason why no blocks of a launch can request for each other; None if some can."""
    folds = launch.block_fold is not None or launch.whole_folds
    if launch.order is not None or folds or launch.cluster is not None:
        return "its blocks have an order, or fold what they hold"
    if any(isinstance(launch.extent(axis), Size) for axis in launch.axes):
        return "how many blocks there are is known when it runs"
    return None


def shared_axis(
    launch: tile.LaunchOp, ring: tile.RingOp, count: int, taken: Mapping[BlockArgument, int]
) -> BlockArgument | str:
    """
    The block axis of which so many neighbours can request a ring's slabs for each other, the
    innermost one that is not taken for another number of blocks; or the reason why there is none.
    """
    if ring.fill_kind != TMA:
        return "is not filled by it"
    along = variance(launch)
    varying = {axis for value in ring.slab.indices for axis in along.get(value, ())}
    axes = [a for a in launch.axes_of(BLOCK) if a not in varying and several(launch.extent(a))]
    free = [a for a in axes if taken.get(a, count) == count]
    if not free:
        return "is the same in no other block" if not axes else "is shared along another axis"
    if obstacle := part_obstacle(ring, count):
        return f"has no part for each block: {obstacle}"
    axis = next((a for a in free if a in taken), free[-1])
    cluster = prod({**taken, axis: count}.values())
    if cluster > MAX_CLUSTER:
        return f"would be shared in a cluster of {cluster} blocks, of at most {MAX_CLUSTER}"
    threads = prod(map(launch.extent, launch.axes_of(THREAD)))
    if 0 < threads % WARP < cluster:
        return f"is released by a warp of {threads % WARP} threads, less than {cluster} blocks"
    rings = (op for op in launch.walk() if isinstance(op, tile.RingOp))
    if any(axis in _skips(other, along) for other in rings):
        return "would wait for blocks that work through other chunks"
    return axis


def _skips(ring: tile.RingOp, along: Variance) -> set[SSAValue]:
    """The axes on which it depends which chunks of a ring are worked through."""
    loop = loop_of(ring)
    conditions = [] if loop is None else loop.yielded.where
    return {axis for c in conditions for v in c.values() for axis in along.get(v, ())}
