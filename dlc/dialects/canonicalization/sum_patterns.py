"""Patterns of sums of products that are 0 at some points."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from dlc.dialects.access import LoadOpBase, SelectOpBase
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number


class GuardSum(RewritePattern):
    """
    A sum of products folds only where a condition holds without which both factors are 0, so that
    whole iterations can be skipped:

    `yield (load %x[i] where (c, d) else 0) * (load %w[i] where (c) else 0)` is that product
    `where (c)`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReduceOpBase, rewriter: PatternRewriter, /) -> None:
        last = op.yielded
        products = [value.owner for value in last.values]
        if op.monoid_name.data != "add" or not products:
            return
        known: list[Expr] | None = None
        for product in products:
            if not isinstance(product, arith.MulfOp):
                return
            for factor in product.operands:
                conditions = _zero_unless(factor)
                kept = conditions if known is None else [c for c in known if c in conditions]
                known = kept
        if new := [c for c in known or () if c not in last.where]:
            last.set_index(last.subscripts, [*last.where, *new])
            rewriter.notify_op_modified(last)


def _zero_unless(value: SSAValue) -> list[Expr]:
    """Conditions such that a value is 0 where one of them does not hold."""
    op = value.owner
    if isinstance(op, arith.ExtFOp):
        return _zero_unless(op.input)
    if not isinstance(op, LoadOpBase | SelectOpBase):
        return []
    return [*op.where] if is_number(op.default, 0) else []
