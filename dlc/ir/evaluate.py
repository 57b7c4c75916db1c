"""Evaluates scalar operations of `arith` and `math` on constants, rounded to their type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ReducedPrecisionFloatType,
)
from xdsl.ir import Attribute, Operation

from dlc.ir.elements import element
from dlc.ir.scalar_ops import COMPARISONS, SCALARS, ScalarOp, compare_floats

Scalar: TypeAlias = FloatAttr | IntegerAttr

_CONVERSIONS = (
    arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp, arith.ExtSIOp, arith.TruncIOp, arith.IndexCastOp,
)  # fmt: skip
_OF_BOOLEANS = (arith.ExtUIOp, arith.UIToFPOp)

BOOLEAN = IntegerType(1)


def scalar(value: float, type: Attribute) -> Scalar:
    """`value` as a constant: a float is rounded to nearest, an integer wraps."""
    if isinstance(type, AnyFloat):
        return FloatAttr(_rounded(float(value), type), type)
    if isinstance(type, IndexType):
        return IntegerAttr(int(value), type)
    assert isinstance(type, IntegerType)
    bits = type.width.data
    if bits == 1:
        return IntegerAttr(-1 if value else 0, type)
    half = 1 << (bits - 1)
    return IntegerAttr((int(value) + half) % (2 * half) - half, type)


def _rounded(value: float, type: AnyFloat) -> float:
    """
    The nearest number of a floating-point type, ties to even; beyond the largest infinity, or the
    largest where the type has none.
    """
    row = element(type)
    if isinstance(type, ReducedPrecisionFloatType):
        return type.decode_bits(type.encode_bits(max(min(value, row.limit), -row.limit)))
    if not math.isfinite(value) or row.digits == 53:
        return value
    # Numbers near zero have fewer digits: their last one stands where that of the smallest does.
    exponent = max(math.frexp(value)[1], 3 - row.exponent)
    unit = math.ldexp(1.0, exponent - row.digits)
    rounded = math.copysign(round(value / unit) * unit, value)
    return rounded if abs(rounded) < 2.0**row.exponent else math.copysign(math.inf, value)


def _value(constant: Scalar) -> float:
    value = constant.value.data
    return abs(value) if constant.type == BOOLEAN else value


def evaluate(op: Operation, operands: Sequence[Scalar]) -> Scalar | None:
    """The result of `op` for constant operands; None where this is not known exactly."""
    if isinstance(op, arith.SelectOp):
        return operands[1] if _value(operands[0]) else operands[2]
    values = [_value(c) for c in operands]
    if isinstance(op, arith.CmpfOp):
        name = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
        return scalar(bool(compare_floats(name)(*values)), BOOLEAN)
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if name.startswith("u"):
            return None
        return scalar(COMPARISONS[name.removeprefix("s")].numpy(*values), BOOLEAN)
    if isinstance(op, _CONVERSIONS) and BOOLEAN not in (operands[0].type, op.results[0].type):
        return scalar(values[0], op.results[0].type)
    if isinstance(op, _OF_BOOLEANS) and operands[0].type == BOOLEAN:
        return scalar(values[0], op.results[0].type)
    row = SCALARS.get(op.name)
    return None if row is None else _computed(row, values, op.results[0].type)


def _computed(row: ScalarOp, values: Sequence[float], type: Attribute) -> Scalar | None:
    """
    The value of a function; None for a quotient of integers by 0, a shift by more bits than there
    are, poles and NaN of math, and what the function is of numbers but not of booleans.
    """
    if row.unsigned or (row.divides and values[1] == 0) or (type == BOOLEAN and not row.boolean):
        return None
    if row.shifts and isinstance(type, IntegerType) and not 0 <= values[1] < type.width.data:
        return None
    import numpy as np

    with np.errstate(all="ignore"):
        known = [np.float64(v) for v in values] if isinstance(type, AnyFloat) else values
        value = row.numpy(*known)
    if row.in_f64 and not math.isfinite(value) and all(map(math.isfinite, values)):
        return None
    return scalar(math.nan if math.isnan(value) else value, type)  # NaN has no sign of its own
