"""
Masks of what threads hold, which chunks that no mask touches do not ask for.

```
tile.for register(%r in 4) { … tile.store %score, %scores[%r] }
scf.if %brow * 64 - %ko * 64 < 63 {                      // some key of the chunk may be masked
  tile.for register(%r in 4) {
    %score = tile.load %scores[%r]
    %masked = tile.select %score where (…) else %least
    tile.store %masked, %scores[%r]
  }
}
```
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.axes import REGISTER, new_body
from dlc.ir.bounds import bounds, never, sure
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.stage_lowering import StageLowering


@dataclass(frozen=True)
class Mask:
    """A condition on what is held, without which something else is held."""

    condition: Expr
    bound: Expr
    """What it is at least in a block, the same for all of its threads."""
    default: arith.ConstantOp


def take_masks(op: tile.HoldOp) -> list[Mask]:
    """
    Takes conditions out of the select that a hold yields, of which a block can tell that all of
    its threads' elements fulfil them; none if it yields no select of a constant.
    """
    select = op.yielded.values[0].owner
    if not isinstance(select, tile.SelectOp) or op.yielded.where:
        return []
    default = select.default.owner
    if not select.result.has_one_use() or not isinstance(default, arith.ConstantOp):
        return []
    found: list[Mask] = []
    for condition in select.where:
        bound = _least(condition, op)
        if bound is not None and not sure(bound) and not never(bound):
            found.append(Mask(condition, bound, default))
    taken = [mask.condition for mask in found]
    rest = [condition for condition in select.where if condition not in taken]
    if not rest:
        Rewriter.replace_op(select, [], [select.value])
    else:
        select.set_index(select.subscripts, rest)
    return found


def insert_mask(to: StageLowering, mask: Mask, buffer: SSAValue, points: tile.ForOp) -> None:
    """Puts the other value in the place of elements whose condition fails, where some may."""
    with to.only_if([Expr((), -1) - mask.bound]):
        extents = points.all_extents
        each = tile.ForOp(extents, new_body(len(extents), [a.name_hint for a in points.axes]),
                          [REGISTER] * len(extents))  # fmt: skip
        to.builder.insert(each)
        at = dict[SSAValue, Expr](zip(points.axes, map(Expr.of, each.axes), strict=True))
        place = [Expr.of(axis) for axis in each.axes]
        with to.in_loop(each):
            value = to.insert(tile.LoadOp(buffer, place), buffer.name_hint)
            where = [mask.condition.substitute(at.get)]
            default = to.insert(mask.default.clone())
            masked = to.insert(tile.SelectOp(value, where, default), buffer.name_hint)
            to.builder.insert(tile.StoreOp(masked, buffer, place))


def _least(condition: Expr, op: tile.HoldOp) -> Expr | None:
    """What a condition is at least for all threads of a block and all that each holds."""
    at: dict[SSAValue, int] = {}
    for value in condition.values():
        if isinstance(value.owner, Operation) and op.is_ancestor(value.owner):
            return None
        if value not in op.axes and not _is_of_thread(value):
            continue
        factor = condition.coefficient(value)
        low, high = (0, op.extent(value) - 1) if value in op.axes else bounds(value)
        if factor is None or isinf(low) or isinf(high):
            return None
        at[value] = int(low if factor >= 0 else high)
    return condition.substitute(at.get)


def _is_of_thread(value: SSAValue) -> bool:
    """True for a number that threads of a block have different ones of."""
    owner = value.owner
    if isinstance(owner, kernel.ThreadIdOp):
        return True
    return isinstance(owner, kernel.IndexOp) and any(map(_is_of_thread, owner.operands))
