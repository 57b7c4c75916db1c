"""Computed slabs that may stand where another slab did."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from dlc.dialects import tile
from dlc.ir.expr import Expr


def overwritten(op: tile.ComputeOp) -> tile.ComputeOp | None:
    """
    The computed slab of which each element is read for that of the same place in `op`, which a
    thread computes after the read, and by nobody later. None if there is no such slab. Where both
    are laid out alike, one takes the place of the other.
    """
    element = [Expr.of(axis) for axis in op.axes]
    for inner in op.body.block.ops:
        slab = inner.ref.owner if isinstance(inner, tile.LoadOp) else None
        if not isinstance(slab, tile.ComputeOp) or not _are_alike(slab, op):
            continue
        if slab.parent is op.parent and _is_last_read(op, slab.result, element):
            return slab
    return None


def _is_last_read(op: tile.ComputeOp, slab: SSAValue, element: list[Expr]) -> bool:
    """True if everything else reads a slab before `op`, which reads only the element of a place."""
    assert op.parent is not None
    for use in slab.uses:
        load: Operation = use.operation
        if not isinstance(load, tile.LoadOp):
            return False
        if load.parent_op() is op:
            if list(load.subscripts) != element:
                return False
            continue
        around = op.parent.find_ancestor_op_in_block(load)
        if around is None or op.is_before_in_block(around):
            return False
    return True


def _are_alike(slab: tile.ComputeOp, other: tile.ComputeOp) -> bool:
    """True if two slabs have as many elements along each axis, of one type."""
    one, two = slab.result_type, other.result_type
    return slab.sizes == other.sizes and one.element_type == two.element_type
