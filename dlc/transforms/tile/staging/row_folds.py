"""What threads or lanes hold of a slab in registers, and how those that share a row fold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile
from dlc.ir.expr import Expr
from dlc.ir.monoid import POWERS
from dlc.transforms.axes.axis_edit import Axis, replace_axes


def hold_before(
    slab: tile.ComputeOp,
    extents: Sequence[int],
    element: Attribute,
    body: Region,
    across: Sequence[SSAValue],
) -> tile.HoldOp:
    """Inserts in front of a slab what is held of it."""
    hold = tile.HoldOp(extents, element, body, across)
    hold.result.name_hint = (slab.result.name_hint or "v").removesuffix("_smem")
    hold.location = slab.location
    Rewriter.insert_op(hold, InsertPoint.before(slab))
    return hold


def fold_together(
    reduce: tile.ReduceOp,
    own: tuple[Axis, Axis],
    key: Callable[[Expr, Expr], Expr],
    member: SSAValue,
) -> None:
    """
    Each of those that share a row, which `member` counts, folds what it holds, the points of its
    `own` axes; all of them fold that. `key` is the number of such a point in the row.
    """
    old, sizes = reduce.axes, reduce.all_extents

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        number, rest = key(e[own[0]], e[own[1]]), prod(sizes)
        places: dict[BlockArgument, Expr] = {}
        for axis, size in zip(old, sizes, strict=True):
            rest //= size
            places[axis] = number // rest % size
        return places

    replace_axes(reduce, own, meaning)
    uses = [list(result.uses) for result in reduce.results]
    whole = tile.CombineOp(reduce.monoid_name.data, reduce.results, [member])
    whole.location = reduce.location
    Rewriter.insert_op(whole, InsertPoint.after(reduce))
    for used, result, new in zip(uses, reduce.results, whole.results, strict=True):
        new.name_hint = result.name_hint
        for use in used:
            use.operation.operands[use.index] = new


def rise(hold: tile.HoldOp, at: Sequence[Expr]) -> None:
    """
    Finds the largest score of a chunk together with that of all chunks before it, at some place of
    what is held: what is summed so far is then multiplied with one factor, before the chunk is
    added to it. Nothing is done where something else is held.
    """
    chunk, (largest,) = hold.parent_op(), hold.yielded.values
    combined = largest.owner
    if not isinstance(chunk, tile.ReduceOp) or not isinstance(combined, tile.CombineOp):
        return
    if combined.monoid_name.data != "max" or chunk.monoid_name.data not in POWERS:
        return
    chunk.rising = UnitAttr()
    before = tile.SoFarOp(at, largest.type)
    before.result.name_hint = "before"
    risen = arith.MaximumfOp(before.result, largest)
    risen.result.name_hint = largest.name_hint
    Rewriter.insert_op([before, risen], InsertPoint.before(hold.yielded))
    hold.yielded.operands[0] = risen.result
