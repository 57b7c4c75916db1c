"""Loops within loops: an axis in chunks, the points of a chunk in an operation of their own."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import BlockArgument

from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL, new_body
from dlc.ir.expr import Expr
from dlc.ir.sizes import ceildiv
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes

Loop = tile.ForOp | tile.ReduceOp


def chunk(op: Loop, axis: BlockArgument, size: int, names: tuple[str, str]) -> Loop:
    """
    Cuts a serial axis of `op` into chunks of `size` points: `op { … }` becomes
    `op { op { … } }`. The axes before it and the chunks are those of the outer loop, which is
    returned; the points of a chunk and the axes after are those of the inner one, which is `op`
    itself. `names` are those of the chunk's axis and of the axis within a chunk. Points of a
    ragged last chunk beyond the axis fold the identity and store nothing.
    """
    before, after = op.axes[: axis.index], op.axes[axis.index + 1 :]
    kept = {a: keep(a, op) for a in (*before, *after)}
    chunks = Axis(names[0], ceildiv(op.extent(axis), size), SERIAL)
    points = Axis(names[1], size, SERIAL)
    outside = [*(kept[a] for a in before), chunks]
    new = [*outside, points, *(kept[a] for a in after)]

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        return {**{a: e[k] for a, k in kept.items()}, axis: e[chunks] * size + e[points]}

    replace_axes(op, new, meaning)
    return _nest(op, sum(a.extent != 1 for a in outside))


def apart(op: tile.ReduceOp, axis: BlockArgument, count: int, names: tuple[str, str]) -> None:
    """
    Gives every `count`-th point of a serial axis of `op` a fold of its own: `op { … }` becomes
    `op register(%s in count) { op { … } }`, and the register axis is the axis' low part. `names`
    are those of the axis' high part and of the register axis.
    """
    kept = {a: keep(a, op) for a in op.axes if a is not axis}
    runs = Axis(names[0], ceildiv(op.extent(axis), count), SERIAL)
    point = Axis(names[1], count, REGISTER)
    inside = [runs if a is axis else kept[a] for a in op.axes]

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        return {**{a: e[k] for a, k in kept.items()}, axis: e[runs] * count + e[point]}

    replace_axes(op, [point, *inside], meaning)
    _nest(op, 1)


def _nest(op: Loop, outside: int) -> Loop:
    """Puts the first `outside` axes of `op` on a new loop around it, which is returned."""
    moved = op.axes[:outside]
    extents, kinds = [op.extent(a) for a in op.axes], [op.kind(a) for a in op.axes]
    block, after = op.parent, op.next_op
    assert block is not None
    assert after is not None  # a body ends with its terminator
    body = new_body(outside, [a.name_hint for a in moved])
    for axis, argument in zip(moved, body.block.args, strict=True):
        axis.replace_all_uses_with(argument)
        op.body.block.erase_arg(axis)
    op.set_axes(extents[outside:], kinds[outside:])
    op.detach()
    body.block.add_op(op)
    if isinstance(op, tile.ForOp):
        whole: Loop = tile.ForOp(extents[:outside], body, kinds[:outside])
    else:
        types = [r.type for r in op.results]
        whole = tile.ReduceOp(op.monoid_name.data, extents[:outside], types, body, kinds[:outside])
        for part, result in zip(op.results, whole.results, strict=True):
            result.name_hint = part.name_hint
            part.replace_all_uses_with(result)
            part.name_hint = _part_of(part.name_hint)
        last = tile.YieldOp(op.results, _take_conditions(op))
        last.location = op.yielded.location
        body.block.add_op(last)
    whole.location = op.location
    block.insert_op_before(whole, after)
    return whole


def _take_conditions(op: tile.ReduceOp) -> list[Expr]:
    """Takes from the fold of a reduce the conditions that do not depend on its axes."""
    last, own = op.yielded, {*op.axes}
    outside = [c for c in last.where if own.isdisjoint(c.values())]
    if outside:
        last.set_index(last.subscripts, [c for c in last.where if c not in outside])
    return outside


def _part_of(name: str | None) -> str:
    """The name of a part of a value: what a thread holds is in parts already."""
    if name is None:
        return "part"
    return f"{name.removesuffix('_part')}_{'chunk' if name.endswith('_part') else 'part'}"
