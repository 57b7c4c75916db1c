"""Patterns of the scalar operations inside kernels: what is computed of constants is a constant."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import ConstantLike

from dlc.ir.elements import find_element
from dlc.ir.evaluate import Scalar, evaluate


class FoldScalars(RewritePattern):
    """
    Operations of `arith` and `math` on constants become constants, for what a kernel holds: the
    operations are xDSL's. What is not known exactly stays (`dlc.ir.evaluate`).
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for inner in [o for o in op.walk() if o.dialect_name() in ("arith", "math")]:
            if (value := _value(inner)) is not None:
                folded = arith.ConstantOp(value)
                folded.location = inner.location
                rewriter.replace(inner, folded)


def _value(op: Operation) -> Scalar | None:
    """The number that an operation gives, if its operands are constants."""
    constants: list[Scalar] = []
    for value in op.operands:
        constant = ConstantLike.get_constant_value(value)
        if not isinstance(constant, FloatAttr | IntegerAttr):
            return None
        constants.append(constant)
    types = {value.type for value in (*op.operands, *op.results)} - {IndexType()}
    if not constants or any(find_element(type) is None for type in types):
        return None
    return evaluate(op, constants)
