"""
What several blocks hold goes through memory to the last of them, which folds it in order; of the
blocks of a cluster see `cluster_folds`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import MemRefType, UnitAttr, i32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.fold_shares import HeldValue, comes_after, needed_after
from dlc.dialects import kernel, tile
from dlc.dialects.axes import BLOCK, SERIAL, THREAD, new_body
from dlc.dialects.kernel_memory import memref_type
from dlc.ir.expr import Expr
from dlc.ir.sizes import several
from dlc.ir.variance import Variance
from dlc.schedule.endings import parts_at_once
from dlc.target import MAX_THREADS


@dataclass(frozen=True)
class BlockFold:
    """A place in a launch where the blocks that share a fold meet, or after which one goes on."""

    axes: frozenset[SSAValue]
    """The block axes along which these differ."""
    place: Operation
    counter: BlockArgument | None = None
    """Where they are counted, of which the last one goes on."""
    cluster: int = 1
    """How many meet, that run at the same time."""

    def after(self) -> Iterator[Operation]:
        """All that comes after the place."""
        op = self.place.next_op
        while op is not None:
            yield from op.walk()
            op = op.next_op

    def set_groups(self, launch: tile.LaunchOp, dealt: int) -> None:
        """Gives each group of blocks an element to count in, where `dealt` more share an axis."""
        *sizes, rest = _group_axes(launch, self.axes)
        groups = prod(map(launch.extent, rest)) * dealt
        shape = [*(launch.extent(axis) for axes in sizes for axis in axes)]
        shape.append(groups if several(groups) else 1)
        assert self.counter is not None
        Rewriter.replace_value_with_new_type(self.counter, memref_type(i32, tuple(shape)))


def _group_axes(launch: tile.LaunchOp, folded: Collection[SSAValue]) -> list[list[BlockArgument]]:
    """
    The block axes that tell groups of blocks apart that share a fold, for each dimension of their
    counter those that it numbers: at most one that is as long as a size, so that none is a factor
    of another.
    """
    others = sizes_first(launch, [a for a in launch.axes_of(BLOCK) if a not in folded])
    apart = max(sum(map(launch.is_size, others)) - 1, 0)
    return [*([axis] for axis in others[:apart]), others[apart:]]


def lower_last_fold(source: tile.KernelOp, fold: tile.CombineOp, along: Variance) -> BlockFold:
    """
    Replaces a fold of what blocks hold: each stores it to a memref of its own, the last of them
    goes on and folds what all have stored. The kernel gets these memrefs as outputs, and one in
    which blocks are counted.
    """
    launch = source.launch
    points = [_Part(launch, fold, value, along[value]) for value in fold.values]
    parts = [_new_output(source, p.type, f"{p.name.removesuffix('_part')}_parts") for p in points]
    counter = _new_output(source, MemRefType(i32, [1]), "arrived")
    stores = [
        tile.StoreOp(p.value, ref, list(map(Expr.of, p.axes)))
        for p, ref in zip(points, parts, strict=True)
    ]
    group = [running_number(launch, axes) for axes in _group_axes(launch, fold.axes)]
    count = prod(launch.extent(axis) for axis in points[0].across)
    last = kernel.LastBlockOp(counter, group, count)

    def loads(across: Sequence[BlockArgument], number: Expr) -> list[tile.LoadOp]:
        at = dict(zip(points[0].across, [*map(Expr.of, across), number], strict=True))
        return [
            tile.LoadOp(ref, [at[a] if a in at else Expr.of(a) for a in point.axes])
            for point, ref in zip(points, parts, strict=True)
        ]

    total = fold_parts(launch, fold, sum(point.words for point in points), loads)
    for op in (*stores, last, total):
        op.location = fold.location
    Rewriter.insert_op([*stores, last, total], InsertPoint.before(fold))
    across = frozenset[SSAValue](fold.axes)
    Rewriter.replace_op(fold, [], total.results)
    return BlockFold(across, last, counter)


class _Part(HeldValue):
    """A value that blocks store to memory, and at which points."""

    @property
    def axes(self) -> list[BlockArgument]:
        """
        The axes of the points, as they lie in memory: neighbouring threads have neighbours, or runs
        of them. Each block has a part of its own, and where threads are dealt over blocks each
        thread: who holds the same may count elsewhere, and come later.
        """
        launch = self.launch
        own = self.along
        if prod(map(launch.extent, launch.axes_of(THREAD))) > MAX_THREADS:
            own |= {*launch.axes_of(THREAD)}
        blocks = [a for a in launch.axes_of(BLOCK) if a not in self.fold.axes]
        threads = [a for a in launch.axes_of(THREAD) if a in own]
        blocks = sizes_first(launch, [*self.across, *blocks])
        return [*blocks, *self.held, *threads, *self.run]

    @property
    def type(self) -> MemRefType[Attribute]:
        return memref_type(self.value.type, tuple(map(self.launch.extent, self.axes)))


def _new_output(source: tile.KernelOp, type: MemRefType[Attribute], name: str) -> BlockArgument:
    block = source.body.block
    ref = block.insert_arg(type, len(block.args))
    ref.name_hint = name
    return ref


def running_number(launch: tile.LaunchOp, axes: Sequence[BlockArgument]) -> Expr:
    """The number of a point of axes, the last one running fastest."""
    number = Expr()
    for axis in axes:
        scaled = number * launch.extent(axis) if number.terms else number
        number = scaled + Expr.of(axis)
    return number


def sizes_first(launch: tile.LaunchOp, axes: Sequence[BlockArgument]) -> list[BlockArgument]:
    """Axes with those in front whose number of points is a size, so that no other is a stride."""
    return sorted(axes, key=lambda axis: not launch.is_size(axis))


def fold_parts(
    launch: tile.LaunchOp,
    fold: tile.CombineOp,
    words: int,
    loads_at: Callable[[Sequence[BlockArgument], Expr], Sequence[tile.LoadOp]],
) -> tile.ReduceOp:
    """
    A reduce over the parts that blocks have stored, in their order: in runs that divide them, of
    as many as a thread has registers for, beside their fold. A thread takes so many `words` of
    each, which it loads at points of the axes that are folded, given those of all but the last one.
    """
    across = [a for a in launch.axes if a in fold.axes]
    *outer, last = across
    count = launch.extent(last)
    run = parts_at_once(count, words)
    turns = [*map(launch.extent, outer), *([count // run] if run < count else [])]
    body = new_body(len(turns), [a.name_hint for a in across])
    own = new_body(1, [last.name_hint])
    number = Expr.of(own.block.args[0])
    if run < count:
        number = Expr.of(body.block.args[-1]) * run + number
    loads = loads_at(body.block.args[: len(outer)], number)
    for load, value in zip(loads, fold.values, strict=True):
        load.result.name_hint, load.location = value.name_hint or "part", fold.location
    own.block.add_ops([*loads, tile.YieldOp([load.result for load in loads])])
    types, monoid = [v.type for v in fold.values], fold.monoid_name.data
    total = inner = tile.ReduceOp(monoid, [run], types, own, [SERIAL])
    if run > 1:
        inner.attributes["unroll"] = UnitAttr()
    if turns:
        body.block.add_ops([inner, tile.YieldOp(inner.results)])
        total = tile.ReduceOp(monoid, turns, types, body, [SERIAL] * len(turns))
    for reduce in (inner, total):
        reduce.location = fold.location
        for result, named in zip(reduce.results, fold.results, strict=True):
            result.name_hint = named.name_hint
    return total


def repeat_after(last: Operation, ops: Sequence[Operation]) -> None:
    """Repeats those of some operations, in order, that what comes after a place needs."""
    needed = needed_after(last, ops)
    copies: dict[SSAValue, SSAValue] = {}
    place = InsertPoint.after(last)
    new = [op.clone(copies) for op in reversed(needed)]
    for old, copy in zip(reversed(needed), new, strict=True):
        copy.location = old.location
    Rewriter.insert_op(new, place)
    for op in needed:
        for result in op.results:
            result.replace_uses_with_if(
                copies[result], lambda use: comes_after(use.operation, last)
            )
