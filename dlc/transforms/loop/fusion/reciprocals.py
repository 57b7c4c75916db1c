"""Dividing once where many divide by one; see `take_reciprocals`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32, f64
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.float_ranges import SMALLEST_F32, float_range
from dlc.dialects.loop import KernelOp, ReduceOp, ScanOp, YieldOp

ROUNDING = ("math.floor", "math.ceil", "math.round", "math.roundeven", "math.trunc")


def take_reciprocals(kernel: KernelOp) -> None:
    """
    Makes divisions by a value from before their loop products with its reciprocal, which is
    computed there: where that is never subnormal or infinite, so that a quotient is off by one more
    rounding at most, and where nothing decides by the quotient. What is 1 or NaN, and a factor of
    the divisor, is left out of the dividend.
    """
    found: dict[SSAValue, SSAValue] = {}
    for op in list(kernel.walk()):
        _leave_out_ones(op)
        if not isinstance(op, arith.DivfOp) or op.result.type not in (f32, f64):
            continue
        divisor = op.rhs.owner
        if isinstance(divisor, Block) or divisor.parent in (None, op.parent):
            continue
        if isinstance(divisor, arith.ConstantOp) or not _is_normal(op.rhs) or _decides(op):
            continue
        if op.rhs not in found:
            found[op.rhs] = _reciprocal(op.rhs, divisor)
        product = arith.MulfOp(op.lhs, found[op.rhs], op.fastmath)
        product.result.name_hint, product.location = op.result.name_hint, op.location
        Rewriter.replace_op(op, product)


def _leave_out_ones(op: Operation) -> None:
    """Makes a·k / (b·k), or a·k times 1 / (b·k), the same of a, where k is 1 or NaN: e^(x - x)."""
    if isinstance(op, arith.DivfOp):
        pairs = [(0, op.rhs.owner)]
    elif isinstance(op, arith.MulfOp):
        by = [(1 - n, value.owner) for n, value in enumerate(op.operands)]
        pairs = [(n, inverse.rhs.owner) for n, inverse in by if isinstance(inverse, arith.DivfOp)]
    else:
        return
    for number, divisor in pairs:
        product = op.operands[number].owner
        if not isinstance(product, arith.MulfOp) or not isinstance(divisor, arith.MulfOp):
            continue
        for factor, rest in (product.operands, reversed(product.operands)):
            if factor in divisor.operands and _is_one(factor):
                op.operands[number] = rest
                if not any(result.uses for result in product.results):
                    Rewriter.erase_op(product)
                return


def _is_one(value: SSAValue) -> bool:
    """True if a value is 1 or NaN: e^(x - x)."""
    power = value.owner
    exponent = power.operand.owner if isinstance(power, math.ExpOp) else None
    return isinstance(exponent, arith.SubfOp) and exponent.lhs is exponent.rhs


def _reciprocal(value: SSAValue, after: Operation) -> SSAValue:
    one = arith.ConstantOp(FloatAttr(1.0, f32 if value.type == f32 else f64))
    reciprocal = arith.DivfOp(one.result, value)
    reciprocal.location = after.location
    reciprocal.result.name_hint = f"{value.name_hint or 'v'}_reciprocal"
    Rewriter.insert_op([one, reciprocal], InsertPoint.after(after))
    return reciprocal.result


def _is_normal(value: SSAValue) -> bool:
    """True if a value that is not 0, infinite or NaN has a normal reciprocal."""
    tiny = SMALLEST_F32 if value.type == f32 else sys.float_info.min
    low, high = float_range(value)
    return tiny <= low and high <= 1 / tiny


def _decides(op: Operation) -> bool:
    """True if what the kernel computes of a value jumps where it changes a little."""
    pending: list[SSAValue] = [*op.results]
    seen = {*pending}
    while pending:
        for use in pending.pop().uses:
            if _jumps(use.operation):
                return True
            made = {*_made_of(use)} - seen
            seen |= made
            pending += made
    return False


def _jumps(user: Operation) -> bool:
    """True if an operation makes an integer or a flag of a float, or an integral number."""
    fold = user.parent_op() if isinstance(user, YieldOp) else user
    if isinstance(fold, ReduceOp | ScanOp) and not fold.monoid.together:
        return False
    results = fold.results if isinstance(fold, ReduceOp) else user.results
    return user.name in ROUNDING or not all(isinstance(r.type, AnyFloat) for r in results)


def _made_of(use: Use) -> Sequence[SSAValue]:
    """What an operation makes of an operand, by itself or as the end of a reduce's body."""
    user = use.operation
    fold = user.parent_op() if isinstance(user, YieldOp) else user
    if not isinstance(fold, ReduceOp | ScanOp) or fold.monoid.together:
        return user.results if fold is None else fold.results
    return [fold.results[use.index]]
