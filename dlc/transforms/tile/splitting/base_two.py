"""Sums of powers of e as sums of powers of 2, which is what units for special functions compute."""

from __future__ import annotations

from math import inf, log

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, StringAttr, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile
from dlc.ir.known_numbers import is_number, number_of
from dlc.ir.monoid import EXP2SUM


def take_base_two(reduce: tile.ReduceOp) -> bool:
    """
    Makes a fold of powers of e in f32 whose exponents are products with a number, or -inf, one of
    powers of 2: e^(a·c) is 2^(a·(c / ln 2)), a product less for each power. The largest exponent is
    multiplied with ln 2 behind it. No other exponent overflows as c is at most ln 2. Returns
    whether there are such.
    """
    last = reduce.yielded
    exponent = _in_base_two(Builder(InsertPoint.before(last)), last.values[0])
    if exponent is None:
        return False
    exponent.name_hint = last.values[0].name_hint
    last.operands[0] = exponent
    for op in reversed(list(reduce.body.block.ops)[:-1]):
        if not any(result.uses for result in op.results):
            Rewriter.erase_op(op)
    reduce.monoid_name = StringAttr(EXP2SUM)
    largest = reduce.results[0]
    if uses := list(largest.uses):
        builder = Builder(InsertPoint.after(reduce))
        factor = builder.insert(arith.ConstantOp(FloatAttr(log(2), f32)))
        product = builder.insert(arith.MulfOp(largest, factor.result)).result
        product.name_hint = largest.name_hint
        for use in uses:
            use.operation.operands[use.index] = product
    return True


def _in_base_two(builder: Builder, x: SSAValue) -> SSAValue | None:
    """x / ln 2, if that is no more to compute than x."""
    if x.type != f32:
        return None
    match x.owner:
        case tile.SelectOp(value=value, default=default) as select if is_number(default, -inf):
            inner = _in_base_two(builder, value)
            if inner is None:
                return None
            return builder.insert(tile.SelectOp(inner, select.where, default)).result
        case arith.SelectOp(cond=cond, lhs=lhs, rhs=rhs):
            masked, other = (lhs, rhs) if is_number(lhs, -inf) else (rhs, lhs)
            inner = _in_base_two(builder, other) if is_number(masked, -inf) else None
            if inner is None:
                return None
            chosen = (masked, inner) if masked is lhs else (inner, masked)
            return builder.insert(arith.SelectOp(cond, *chosen)).result
        case arith.MulfOp(lhs=lhs, rhs=rhs):
            value, number = (lhs, rhs) if number_of(lhs) is None else (rhs, lhs)
            return _scaled(builder, value, number_of(number))
        case arith.DivfOp(lhs=lhs, rhs=rhs):
            by = number_of(rhs)
            return _scaled(builder, lhs, 1 / by if by else None)
        case _:
            return None


def _scaled(builder: Builder, value: SSAValue, by: float | None) -> SSAValue | None:
    """The product with a number, which is divided by ln 2."""
    if by is None or not 0 < abs(by) <= log(2):
        return None
    factor = builder.insert(arith.ConstantOp(FloatAttr(float(np.float32(by / log(2))), f32)))
    return builder.insert(arith.MulfOp(value, factor.result)).result
