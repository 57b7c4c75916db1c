"""Patterns of operations with axes: loops and reduces of one point, or of none."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue, Use
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from dlc.dialects.access import SelectOpBase
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.nest_ops import ForOpBase, ReduceOpBase
from dlc.dialects.scan_ops import AlongOpBase


class DropEmptyLoop(RewritePattern):
    """A loop over no points goes, and a reduce over no points is its monoid's identity."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ForOpBase | ReduceOpBase, rewriter: PatternRewriter, /) -> None:
        if 0 in op.all_extents:
            rewriter.replace(op, [], [] if isinstance(op, ForOpBase) else _identity(op, rewriter))


class DropUnitAxes(RewritePattern):
    """An axis of extent 1 is 0 in subscripts; one that an operation runs over stays."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ForOpBase | ReduceOpBase, rewriter: PatternRewriter, /) -> None:
        units = [
            a
            for a in op.axes
            if op.least(a) == op.most(a) == 1 and not any(map(_runs_over, a.uses))
        ]
        if not units:
            return
        kept = [axis for axis in op.axes if axis not in units]
        extents = [op.extent(axis) for axis in kept]
        kinds = None if op.kinds is None else [op.kind(axis) for axis in kept]
        for axis in units:
            for user in [use.operation for use in axis.uses]:
                assert isinstance(user, IndexedOp)
                user.substitute(lambda value, axis=axis: 0 if value is axis else None)
        for axis in units:  # only now: an axis has its extent by its place
            op.body.block.erase_arg(axis)
        op.set_axes(extents, kinds)
        rewriter.notify_op_modified(op)


class DropScan(RewritePattern):
    """A scan of one point is what it folds, a sort what it sorts."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AlongOpBase, rewriter: PatternRewriter, /) -> None:
        if op.place.is_constant:
            rewriter.replace(op, [], op.values)


def _runs_over(use: Use) -> bool:
    return not isinstance(use.operation, IndexedOp)


@dataclass(frozen=True)
class DissolveLoop(RewritePattern):
    """A loop without axes is its body; conditions of what a reduce folds choose its identity."""

    select: type[SelectOpBase]

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ForOpBase | ReduceOpBase, rewriter: PatternRewriter, /) -> None:
        if op.axes:
            return
        last = op.yielded
        values, where = list(last.values), last.where
        rewriter.erase(last)
        rewriter.inline_block(op.body.block, InsertPoint.before(op))
        if isinstance(op, ReduceOpBase) and where:
            selects = [
                self.select(value, where, identity)
                for value, identity in zip(values, _identity(op, rewriter), strict=True)
            ]
            rewriter.insert(selects, InsertPoint.before(op))
            values = [select.result for select in selects]
        rewriter.replace(op, [], values)


def _identity(op: ReduceOpBase, rewriter: PatternRewriter) -> list[SSAValue]:
    """The identity of a reduce's monoid, as constants before it."""
    identity = op.monoid.identity([r.type for r in op.results])
    constants = [arith.ConstantOp(value) for value in identity]  # pyright: ignore[reportArgumentType, reportCallIssue]
    rewriter.insert(constants, InsertPoint.before(op))
    return [constant.result for constant in constants]
