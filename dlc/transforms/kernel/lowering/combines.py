"""How combines become shuffles within a warp, and shared scratch beyond."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.tile.thread_groups import Lanes, count_of, lanes_of, number_of
from dlc.dialects import kernel, tile
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.target import WARP
from dlc.transforms.kernel.lowering.reduce_lowering import (
    ReduceLowering,
    Totals,
    registers_around,
)


def lower_combine(to: ReduceLowering, op: tile.CombineOp) -> None:
    """Folds values across threads; the result is in memory of each thread."""
    to.before(op)
    lanes = lanes_of(op.threads, op.axes)
    along = to.along(op.results)
    axes = [axis for axis in registers_around(op) if axis in along]
    if (parts := count_of(op.axes) // lanes.count) > 1:
        totals = _fold_parts(to, op, axes, parts, lanes)
    else:
        totals = to.totals(op.results, axes, "r")
        with to.each(axes):
            _fold_lanes(to, op, totals, lanes)
    to.replace(op, None, totals)


def _fold_lanes(to: ReduceLowering, op: tile.CombineOp, totals: Totals, lanes: Lanes) -> None:
    """Folds the values over the lanes of a group; each then holds the result."""
    to.write(totals, op.values)
    mask, threads = lanes.count // 2, to.source.block_size
    while mask:
        given, width = to.read(totals), lanes.count * lanes.apart
        shuffles = [kernel.ShuffleOp(v, mask * lanes.apart, width, threads) for v in given]
        other = [to.insert(shuffle) for shuffle in shuffles]
        to.write(totals, op.monoid.combine(to.builder, to.read(totals), other))
        mask //= 2


def _fold_parts(
    to: ReduceLowering,
    op: tile.CombineOp,
    axes: Sequence[BlockArgument],
    parts: int,
    lanes: Lanes,
) -> Totals:
    """
    Folds the values over groups of lanes, if they are more than one, and these parts through
    shared memory, where what neighbouring lanes hold are neighbours.
    """
    others = [a for a in op.threads if a not in op.axes]
    part, other = number_of(op.axes), number_of(others)
    shape = [count_of(others), parts]
    order = [0, 1] if lanes.apart == 1 else [1, 0]
    kept = [n for n in order if shape[n] != 1]
    sizes = [*(extent_of_register(a) for a in axes), *(shape[n] for n in kept)]
    names = [r.name_hint or "r" for r in op.results]
    scratch = [
        to.insert(kernel.AllocSharedOp(r.type, sizes), f"{name}_parts")
        for r, name in zip(op.results, names, strict=True)
    ]

    def place(index: Expr) -> list[Expr]:
        at = [other, index]
        return [*map(Expr.of, axes), *(at[n] for n in kept)]

    warp = to.totals(op.results, [], "r", "_warp") if lanes.count > 1 else None
    with to.each(axes):
        values: Sequence[SSAValue] = op.values
        if warp is not None:
            _fold_lanes(to, op, warp, lanes)
            values = to.read(warp)
        first = [] if lanes.count == 1 else [Expr() - part % lanes.count]
        for ref, value in zip(scratch, values, strict=True):
            to.builder.insert(kernel.StoreOp(value, ref, place(part // lanes.count), first))
    totals = to.totals(op.results, axes, "r")
    with to.each(axes):
        to.write(totals, [to.constant(a) for a in op.monoid.identity([r.type for r in op.results])])
        with to.loop(parts, "part", unroll=parts <= WARP) as index:
            loads = [kernel.LoadOp(ref, place(Expr.of(index))) for ref in scratch]
            values = [to.insert(load, name) for load, name in zip(loads, names, strict=True)]
            to.write(totals, op.monoid.combine(to.builder, to.read(totals), values))
    return totals
