"""The chunks of which no element is masked: all conditions of a computed slab hold there."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from dlc.dialects import tile
from dlc.ir.bounds import never, sure
from dlc.ir.expr import Expr


def unmasked(op: tile.ComputeOp) -> list[Expr]:
    """
    Conditions, the same for all threads of a block, under which no element of a computed slab is
    selected in place of another. None if it has no selects, or this is always so, never so, or not
    told by a bound of a condition along the slab's axes.
    """
    found: list[Expr] = []
    for inner in op.body.block.ops:
        if not isinstance(inner, tile.SelectOp):
            continue
        for condition in inner.where:
            bound = _least_over(op, condition)
            if bound is None or never(bound) or any(_varies(op, v) for v in bound.values()):
                return []
            if not sure(bound) and bound not in found:
                found.append(bound)
    return found


def _least_over(op: tile.ComputeOp, condition: Expr) -> Expr | None:
    """What a condition is at the element of a slab where it is least; None if that depends."""
    at: dict[SSAValue, int] = {}
    for axis in op.axes:
        factor = condition.coefficient(axis)
        if factor is None:
            return None
        at[axis] = 0 if factor >= 0 else op.extent(axis) - 1
    return condition.substitute(at.get)


def _varies(op: tile.ComputeOp, value: SSAValue) -> bool:
    """True if a value is another one at other elements of a slab."""
    owner = value.owner
    if isinstance(owner, Block):
        return owner is op.body.block
    return op.is_ancestor(owner) and any(_varies(op, operand) for operand in owner.operands)
