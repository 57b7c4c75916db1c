"""What keys are left out of a chunk is asked once for each score, not where scores are folded."""

from __future__ import annotations

from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile
from dlc.ir.expr import Expr


def mask_scores(largest: tile.ReduceOp) -> None:
    """
    Makes computed scores -inf where the reduce that finds the largest of them leaves them out. It
    then folds all of them, and their powers are 0 (`zero_unless`). A condition must be told by a
    place in the slab and by what stands around it.
    """
    last = largest.yielded
    load = last.values[0].owner
    if largest.monoid_name.data != "max" or not isinstance(load, tile.LoadOp) or load.where:
        return
    slab = load.ref.owner
    if not isinstance(slab, tile.ComputeOp) or slab.yielded.where:
        return
    found = {c: at for c in last.where if (at := _in_slab(c, load, slab, largest)) is not None}
    if not found:
        return
    yielded = slab.yielded
    (score,) = yielded.values
    assert isinstance(score.type, AnyFloat)
    least = arith.ConstantOp(FloatAttr(-inf, score.type))
    select = tile.SelectOp(score, [*found.values()], least.result)
    select.result.name_hint = score.name_hint
    Rewriter.insert_op([least, select], InsertPoint.before(yielded))
    yielded.operands[0] = select.result
    last.set_index(last.subscripts, [c for c in last.where if c not in found])


def _in_slab(
    condition: Expr, load: tile.LoadOp, slab: tile.ComputeOp, reduce: tile.ReduceOp
) -> Expr | None:
    """A condition on what a reduce loads of a slab as one on the slab's axes, if it is one."""
    for axis, place in zip(slab.axes, load.subscripts, strict=True):
        along = [v for v in place.values() if v in reduce.axes]
        if not along:
            continue
        own, other = place.coefficient(along[0]), condition.coefficient(along[0])
        if not own or not other or other % own:
            continue
        rest = condition - place * (other // own)
        if all(_is_known(v, slab) for v in rest.values()):
            return rest + Expr(((axis, other // own),))
    return None


def _is_known(value: SSAValue, at: Operation) -> bool:
    """True if a value is defined before an operation, in its block or around it."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    inside: Operation | None = at
    while inside is not None and inside.parent is not block:
        inside = inside.parent_op()
    return inside is not None and (isinstance(owner, Block) or owner.is_before_in_block(inside))
