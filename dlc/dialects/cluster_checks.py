"""What the blocks of a cluster, and the rings that several of them hold alike, must be."""

from __future__ import annotations

from math import prod

from xdsl.ir import BlockArgument
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.axes import BLOCK, AxesOp
from dlc.dialects.ring_ops import RingOp
from dlc.ir.variance import Variance
from dlc.target import MAX_CLUSTER


def cluster_axes(launch: AxesOp, blocks: int) -> list[BlockArgument] | None:
    """The last block axes, along which so many blocks of a cluster differ; None if none do."""
    axes, found = launch.axes_of(BLOCK), list[BlockArgument]()
    while prod(map(launch.extent, found)) < blocks and axes:
        found.insert(0, axes.pop())
    return found if prod(map(launch.extent, found)) == blocks else None


def blocks_along(launch: AxesOp, axes: list[BlockArgument]) -> dict[BlockArgument, tuple[int, int]]:
    """Of each axis of a cluster how many blocks there are along it, and how far they are apart."""
    found: dict[BlockArgument, tuple[int, int]] = {}
    apart = 1
    for axis in reversed(axes):
        found[axis] = launch.extent(axis), apart
        apart *= launch.extent(axis)
    return found


def verify_clusters(launch: AxesOp, blocks: int, along: Variance) -> None:
    """Checks the blocks of a cluster, and that rings are the same in those that they name."""
    rings = [op for op in launch.walk() if isinstance(op, RingOp) and op.multicast != (1, 1)]
    if blocks == 1 and not rings:
        return
    axes = cluster_axes(launch, blocks)
    if axes is None or not 1 <= blocks <= MAX_CLUSTER:
        raise VerifyException(
            f"expected a cluster of 2 to {MAX_CLUSTER} blocks, all that differ along the last "
            f"block axes, found {blocks}"
        )
    numbers = blocks_along(launch, axes)
    for ring in rings:
        count, apart = ring.multicast
        same = [a for a, (n, step) in numbers.items() if apart <= step < apart * count]
        varying = {axis for value in ring.slab.indices for axis in along.get(value, ())}
        if prod(numbers[a][0] for a in same) != count or not varying.isdisjoint(same):
            raise VerifyException(
                f"expected a ring that is the same in {count} blocks of its cluster, {apart} apart"
            )
