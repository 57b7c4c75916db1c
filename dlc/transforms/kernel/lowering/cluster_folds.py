"""
What blocks of a cluster hold, or threads over which points are dealt, goes through shared memory:
each folds a share, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.fold_shares import HeldValue, Share, share_of
from dlc.dialects import kernel, tile
from dlc.dialects.axes import THREAD
from dlc.dialects.indexed_op import IndexedOp
from dlc.ir.expr import Expr
from dlc.ir.variance import Variance, variance
from dlc.target import BLOCK_THREADS, MAX_THREADS
from dlc.transforms.kernel.lowering.block_folds import (
    BlockFold,
    fold_parts,
    lower_last_fold,
    repeat_after,
    running_number,
)


def lower_block_fold(source: tile.KernelOp, along: Variance) -> BlockFold | None:
    """Replaces a fold of what blocks hold; None for a kernel that has none."""
    launch, fold = source.launch, source.launch.block_fold
    if fold is None:
        return _lower_whole_folds(launch)
    if fold.cluster is None:
        return lower_last_fold(source, fold, along)
    return _lower_cluster_fold(launch, fold, along)


def lower_thread_fold(source: tile.KernelOp, along: Variance) -> bool:
    """
    Replaces a fold of what threads of a block hold over which its points are dealt: each puts it
    into shared memory, and folds its share, at which it does what follows. False for a kernel that
    has none.
    """
    launch, fold = source.launch, source.launch.thread_fold
    if fold is None:
        return False
    others = [a for a in launch.axes_of(THREAD) if a not in fold.axes]
    threads = prod(map(launch.extent, others))
    _fold_shares(launch, fold, along, threads, running_number(launch, others))
    return True


def _lower_cluster_fold(launch: tile.LaunchOp, fold: tile.CombineOp, along: Variance) -> BlockFold:
    """
    Replaces a fold of what the blocks of a cluster hold: each puts it into its shared memory, all
    meet, and each folds its share of the points, at which it does what follows.
    """
    place = _fold_shares(launch, fold, along, _threads(launch), _thread(launch))
    count = prod(map(launch.extent, fold.axes))  # pyright: ignore[reportArgumentType]
    return BlockFold(frozenset(fold.axes), place, cluster=count)


def _lower_whole_folds(launch: tile.LaunchOp) -> BlockFold | None:
    """
    Replaces the folds of what the blocks of a cluster hold with which each of them goes on: each
    puts it into its shared memory, all meet, and in each the first thread that has it folds what
    all have put there, in order, and tells the others of its block.
    """
    found = None
    for fold in launch.whole_folds:
        barrier = _fold_whole(launch, fold, variance(launch))
        count = prod(map(launch.extent, fold.axes))  # pyright: ignore[reportArgumentType]
        found = BlockFold(frozenset(fold.axes), barrier, cluster=count)
    return found


def _fold_whole(launch: tile.LaunchOp, fold: tile.CombineOp, along: Variance) -> Operation:
    """Replaces a fold; gives the barrier where its blocks meet."""
    count = prod(launch.extent(a) for a in launch.axes if a in fold.axes)
    held = [HeldValue(launch, fold, value, along[value]) for value in fold.values]
    values = [_Kept(launch, v) for v in held]
    parts = [v.allocate(f"{v.name}_parts") for v in values]
    maps = [kernel.MapClusterOp(part.result, count) for part in parts]
    for part, blocks in zip(parts, maps, strict=True):
        blocks.result.name_hint = f"all_{part.result.name_hint}"
    types = [v.type for v in fold.values]
    identity = fold.monoid.identity(types)
    unread = [arith.ConstantOp(a) for a in identity]  # pyright: ignore[reportArgumentType]
    sides = list(zip(values, maps, unread, strict=True))

    def loads(_: Sequence[SSAValue], number: Expr) -> list[tile.LoadOp]:
        return [
            tile.LoadOp(blocks.result, [number, *v.at], v.first, other.result if v.first else None)
            for v, blocks, other in sides
        ]

    total = fold_parts(launch, fold, sum(v.words for v in held), loads)
    stores = [v.store(x, part) for v, x, part in zip(values, fold.values, parts, strict=True)]
    barrier = kernel.ClusterBarrierOp()
    wholes = [v.allocate(f"{v.name}_whole") for v in values]
    told = [v.store(x, ref) for v, x, ref in zip(values, total.results, wholes, strict=True)]
    heard = [tile.LoadOp(ref.result, v.at) for v, ref in zip(values, wholes, strict=True)]
    new = [*parts, *maps, *unread, *stores, barrier, total, *wholes, *told, *heard]
    for op in new:
        op.location = fold.location
    Rewriter.insert_op(new, InsertPoint.before(fold))
    for load, result in zip(heard, fold.results, strict=True):
        load.result.name_hint = result.name_hint
    Rewriter.replace_op(fold, [], [load.result for load in heard])
    return barrier


class _Kept:
    """A value that threads have in shared memory, once for all of them that have the same."""

    def __init__(self, launch: tile.LaunchOp, held: HeldValue) -> None:
        threads = launch.axes_of(THREAD)
        own = [axis for axis in threads if axis in held.along]
        self.name = held.name.removesuffix("_part")
        self.first = [Expr() - Expr.of(axis) for axis in threads if axis not in own]
        """What holds for the first thread that has it."""
        self.at = [
            *map(Expr.of, held.held),
            running_number(launch, own),
            *map(Expr.of, held.run),
        ]
        self._type = held.value.type
        self._shape = _shape(launch, held, prod(map(launch.extent, own)))

    def allocate(self, name: str) -> kernel.AllocSharedOp:
        buffer = kernel.AllocSharedOp(self._type, self._shape)
        buffer.result.name_hint = name
        return buffer

    def store(self, value: SSAValue, buffer: kernel.AllocSharedOp) -> tile.StoreOp:
        """One thread stores what all have."""
        return tile.StoreOp(value, buffer.result, self.at, self.first)


def _fold_shares(
    launch: tile.LaunchOp, fold: tile.CombineOp, along: Variance, threads: int, thread: Expr
) -> Operation:
    """
    Puts what is folded into shared memory, where each of so many threads has a place, and folds
    what lies there: shares of it where points can be dealt. Gives the last operation before that.
    Blocks of a cluster have parts of their own, which others read; threads have one of all.
    """
    across = [a for a in launch.axes if a in fold.axes]
    held = [HeldValue(launch, fold, value, along[value]) for value in fold.values]
    places = [[*map(Expr.of, v.held), thread, *map(Expr.of, v.run)] for v in held]
    count, rank = prod(map(launch.extent, across)), running_number(launch, across)
    own, parts = ([], []) if fold.cluster is not None else ([rank], [count])
    buffers = [
        kernel.AllocSharedOp(v.value.type, [*parts, *_shape(launch, v, threads)]) for v in held
    ]
    for v, buffer in zip(held, buffers, strict=True):
        buffer.result.name_hint = f"{v.name.removesuffix('_part')}_parts"
    stores = [
        tile.StoreOp(v.value, buffer.result, [*own, *place])
        for v, buffer, place in zip(held, buffers, places, strict=True)
    ]
    new: list[Operation] = [*buffers, *stores]
    refs = [buffer.result for buffer in buffers]
    if fold.cluster is not None:
        maps = [kernel.MapClusterOp(buffer.result, count) for buffer in buffers]
        for buffer, map_op in zip(buffers, maps, strict=True):
            map_op.result.name_hint = f"all_{buffer.result.name_hint}"
        new = [*buffers, *maps, *stores, kernel.ClusterBarrierOp()]
        refs = [map_op.result for map_op in maps]
    share = share_of(launch, fold, along)

    def loads(_: Sequence[SSAValue], number: Expr) -> list[tile.LoadOp]:
        pairs = zip(refs, places, strict=True)
        return [tile.LoadOp(ref, [number, *place]) for ref, place in pairs]

    words = sum(v.words for v in held)
    if share is not None:
        words = -(-words * share.points // launch.extent(share.axis))
    total, place = fold_parts(launch, fold, words, loads), new[-1]
    for op in (*new, total):
        op.location = fold.location
    Rewriter.insert_op([*new, total], InsertPoint.before(fold))
    Rewriter.replace_op(fold, [], total.results)
    if share is not None:
        _deal(launch, share, place, rank, along)
    return place


def _shape(launch: tile.LaunchOp, value: HeldValue, threads: int) -> list[int]:
    held, run = ([launch.extent(a) for a in axes] for axes in (value.held, value.run))
    return [*held, threads, *run]


def _threads(launch: tile.LaunchOp) -> int:
    """The threads of a block; more than fit in one are dealt over blocks."""
    points = prod(map(launch.extent, launch.axes_of(THREAD)))
    return points if points <= MAX_THREADS else BLOCK_THREADS


def _thread(launch: tile.LaunchOp) -> Expr:
    """The number of the thread in its block."""
    number = running_number(launch, launch.axes_of(THREAD))
    points = prod(map(launch.extent, launch.axes_of(THREAD)))
    return number if points <= MAX_THREADS else number % BLOCK_THREADS


def _deal(
    launch: tile.LaunchOp, share: Share, barrier: Operation, rank: Expr, along: Variance
) -> None:
    """Restricts what comes after a barrier to the points of the block, or thread, number `rank`."""
    axis = share.axis
    before = [op for op in launch.body.block.ops if op.is_before_in_block(barrier)]
    repeat_after(
        barrier, [op for op in before if any(axis in along.get(r, ()) for r in op.results)]
    )
    point = rank * share.points
    if share.points > 1:
        point = point + Expr.of(_own_points(launch, share))
    at: dict[SSAValue, Expr] = {axis: point}
    beyond = [] if share.is_even else [Expr((), launch.extent(axis) - 1) - point]
    op = barrier.next_op
    while op is not None:
        for inner in op.walk():
            if isinstance(inner, IndexedOp):
                effect = isinstance(inner, tile.StoreOp | tile.AtomicAddOp)
                inner.substitute(at.get, beyond if effect else ())
        op = op.next_op


def _own_points(launch: tile.LaunchOp, share: Share) -> BlockArgument:
    """A new axis of the launch, of the points of a share."""
    extents, kinds = [*map(launch.extent, launch.axes)], [*map(launch.kind, launch.axes)]
    axis = launch.body.block.insert_arg(IndexType(), len(launch.axes))
    axis.name_hint = f"own_{share.axis.name_hint or 'point'}"
    launch.set_axes([*extents, share.points], [*kinds, launch.kind(share.axis)])
    return axis
