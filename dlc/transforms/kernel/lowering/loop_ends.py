"""
Loops that end where the conditions of a reduce say: at a point that memory tells each thread.

```
%s = tile.reduce add about 4 serial(%k in 64) -> f32 {
  %v = tile.load %x[%first + %k] where (%points - %k >= 1)
  tile.yield %v where (%points - %k >= 1) : f32
}
```
becomes
```
scf.for %k = 0 to %points {        // the least of %points and 64
  %v = tile.load %x[%first + %k]
  … %s + %v …
}
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerType, i32, i64
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects import tile
from dlc.dialects.axes import SERIAL
from dlc.dialects.indexed_op import IndexedOp
from dlc.ir.attributes import index_attr
from dlc.ir.bounds import bounds
from dlc.ir.expr import Expr
from dlc.remarks import remark
from dlc.transforms.kernel.lowering.reduce_lowering import ReduceLowering, registers_around


@dataclass(frozen=True)
class LoopEnd:
    """Conditions that hold up to a point of the only axis of a reduce, and not from there on."""

    axis: BlockArgument
    where: tuple[Expr, ...]

    def loop(self, to: ReduceLowering, op: tile.ReduceOp) -> scf.ForOp:
        """The loop of a reduce whose body has been lowered; it is not inserted yet."""
        to.before(op)
        ends = [self._points(condition) for condition in to.exprs(self.where)]
        if not any(bounds(end)[1] <= op.least(self.axis) for end in ends):
            ends.append(op.count(self.axis))
        short = all(-(2**31) <= n < 2**31 for end in ends for n in bounds(end))
        first = _least(to, ends, i32 if short else i64)
        walked = to.constant(index_attr(0)), first, to.constant(index_attr(1))
        loop = scf.ForOp(*walked, [], op.detach_region(op.body))
        last = loop.body.block.last_op
        assert isinstance(last, tile.YieldOp)
        Rewriter.replace_op(last, scf.YieldOp(), [])
        loop.attributes.update(op.attributes)
        if op.about is not None:
            loop.attributes["about"] = op.about
        loop.location = op.location
        return loop

    def _points(self, condition: Expr) -> Expr:
        """The points at which a condition holds, or 0 or less."""
        step = -(condition.coefficient(self.axis) or 0)
        first: dict[SSAValue, Expr] = {self.axis: Expr()}
        return condition.substitute(first.get) // step + 1


def loop_end(to: ReduceLowering, op: tile.ReduceOp) -> LoopEnd | None:
    """
    The end of the loop of a reduce that says about how many points it has; its yield has no
    conditions then, nor what is loaded under the same ones. None, with a remark, where they are
    not all bounds of the only axis, the same for all points of a thread.
    """
    where = op.yielded.where
    if op.about is None or not where:
        return None
    if op.skips is not None or op.kinds is None or [k.data for k in op.kinds] != [SERIAL]:
        return _none(to, "it walks more than one axis")
    (axis,) = op.axes
    inside = {axis, *(r for inner in op.body.walk() for r in inner.results)}
    registers = {*registers_around(op)}
    for condition in where:
        others = {*condition.values()} - {axis}
        if (condition.coefficient(axis) or 0) >= 0 or others & inside:
            return _none(to, "a condition is no end")
        if not registers.isdisjoint(to.along(others)):
            return _none(to, "points of a thread end at different places")
    for inner in op.body.walk():
        if isinstance(inner, IndexedOp) and inner is not op.yielded:
            _leave_out(inner, where)
    op.yielded.set_index([], [])
    return LoopEnd(axis, where)


def _least(to: ReduceLowering, ends: Sequence[Expr], within: IntegerType) -> SSAValue:
    """The least of some index expressions, compared as integers of a type."""
    if len(ends) == 1:
        return to.index_of(ends[0])
    first, *others = (to.insert(arith.IndexCastOp(to.index_of(end), within)) for end in ends)
    for other in others:
        first = to.insert(arith.MinSIOp(first, other))
    return to.insert(arith.IndexCastOp(first, IndexType()), "end")


def _none(to: ReduceLowering, why: str) -> None:
    remark("lower-reduces", to.source.name_, f"a loop has no end that is data: {why}")


def _leave_out(op: IndexedOp, where: tuple[Expr, ...]) -> None:
    """Takes conditions that hold wherever an operation runs from it."""
    if not (given := op.where) or set(given).isdisjoint(where):
        return
    rest = [condition for condition in given if condition not in where]
    if not rest and isinstance(op, tile.SelectOp):
        Rewriter.replace_op(op, [], [op.value])
        return
    op.set_index(op.subscripts, rest)
    if not rest and isinstance(op, tile.LoadOp) and op.default is not None:
        new = tile.LoadOp(op.ref, op.subscripts)
        new.result.name_hint, new.location = op.result.name_hint, op.location
        Rewriter.replace_op(op, new)
