"""What threads hold of values that are folded, and the points of them that each has after that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL, THREAD
from dlc.dialects.kernel_memory import element_bytes, register_words
from dlc.dialects.scan_ops import AlongOpBase
from dlc.ir.sizes import ceildiv
from dlc.ir.variance import Variance
from dlc.target import WIDEST_ACCESS


@dataclass(frozen=True)
class HeldValue:
    """A value that blocks fold, and what a thread holds of it."""

    launch: tile.LaunchOp
    fold: tile.CombineOp
    value: SSAValue
    along: frozenset[SSAValue]

    @property
    def name(self) -> str:
        return self.value.name_hint or "part"

    @property
    def across(self) -> list[BlockArgument]:
        """The axes that are folded, in the order of the launch."""
        return [a for a in self.launch.axes if a in self.fold.axes]

    @property
    def _held(self) -> list[BlockArgument]:
        """The axes along which a thread holds several points."""
        kind = self.launch.kind
        return [a for a in self.launch.axes if a in self.along and kind(a) not in (BLOCK, THREAD)]

    @property
    def run(self) -> list[BlockArgument]:
        """The last of them, if one access takes what a thread holds along it; else none."""
        held = self._held
        return held[-1:] if held and self._is_run(held[-1]) else []

    @property
    def held(self) -> list[BlockArgument]:
        """All others."""
        return [a for a in self._held if a not in self.run]

    def _is_run(self, axis: BlockArgument) -> bool:
        extent = self.launch.extent(axis)
        wide = extent * element_bytes(self.value.type) <= WIDEST_ACCESS
        return self.launch.kind(axis) != SERIAL and extent in (2, 4, 8) and wide

    @property
    def words(self) -> int:
        """The registers for what a thread holds of one block."""
        return prod(map(self.launch.extent, self._held)) * register_words(self.value.type)


@dataclass(frozen=True)
class Share:
    """What each block, or thread, does of an axis: a run of its points, as many as any other."""

    launch: tile.LaunchOp
    axis: BlockArgument
    count: int
    """Of shares."""

    @property
    def points(self) -> int:
        return ceildiv(self.launch.extent(self.axis), self.count)

    @property
    def is_even(self) -> bool:
        """True if no share ends beyond the axis."""
        return self.launch.extent(self.axis) % self.count == 0


def share_of(launch: tile.LaunchOp, fold: tile.CombineOp, along: Variance) -> Share | None:
    """
    The axis whose points are dealt most evenly over those that fold; None if there is none: then
    each folds all, and one alone stores. A run that one access takes is left whole if there is
    another axis.
    """
    held = [HeldValue(launch, fold, value, along[value]) for value in fold.values]
    axes = {axis for v in held for axis in (*v.held, *v.run)}
    whole = {axis for v in held for axis in v.run}
    count = prod(map(launch.extent, held[0].across))
    fitting = [
        Share(launch, a, count)
        for a in launch.axes
        if a in axes and _is_repeated(launch, fold, a, along)
    ]

    def wasted(share: Share) -> tuple[bool, int, int]:
        waste = -(-(count * share.points * 1000) // launch.extent(share.axis))
        return share.axis in whole, waste, share.axis.index

    return min(fitting, key=wasted, default=None)


def _is_repeated(
    launch: tile.LaunchOp, fold: tile.CombineOp, axis: BlockArgument, along: Variance
) -> bool:
    """True if what is known before a fold at the points of an axis can be computed again after."""
    before = [op for op in launch.body.block.ops if op.is_before_in_block(fold)]
    return not any(
        (op.regions or isinstance(op, tile.CombineOp | AlongOpBase))
        and any(axis in along[r] for r in op.results)
        for op in needed_after(fold, before)
    )


def needed_after(place: Operation, ops: Sequence[Operation]) -> list[Operation]:
    """Those of some operations, in order, that what comes after a place needs; the last first."""
    needed: list[Operation] = []
    for op in reversed(ops):
        users = (use.operation for result in op.results for use in result.uses)
        if any(comes_after(user, place) or _stands_in(user, needed) for user in users):
            needed.append(op)
    return needed


def comes_after(op: Operation, place: Operation) -> bool:
    """True if an operation, or what it stands in, comes after another in the same body."""
    current: Operation | None = op
    while current is not None and current.parent is not place.parent:
        current = current.parent_op()
    return current is not None and place.is_before_in_block(current)


def _stands_in(op: Operation, others: Sequence[Operation]) -> bool:
    return any(other.is_ancestor(op) for other in others)
