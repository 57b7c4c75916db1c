"""What scalar operations of `arith` and `math` give for known operands, rounded to their type."""

from __future__ import annotations

import math as real
import operator
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

Scalar: TypeAlias = FloatAttr | IntegerAttr


def scalar(value: float, type: Attribute) -> Scalar:
    """`value` as a constant: a float is rounded to nearest, an integer wraps."""
    if isinstance(type, AnyFloat):
        return FloatAttr(_rounded(float(value), type), type)
    assert isinstance(type, IntegerType)
    bits = type.width.data
    if bits == 1:
        return IntegerAttr(-1 if value else 0, type)
    half = 1 << (bits - 1)
    return IntegerAttr((int(value) + half) % (2 * half) - half, type)


def _rounded(value: float, type: AnyFloat) -> float:
    """The nearest number of a floating-point type; infinity beyond the largest."""
    if not real.isfinite(value) or type.bitwidth == 64:
        return value
    if isinstance(type, BFloat16Type):
        # Eight bits of significand are left: adding and taking away a large number rounds.
        exponent = max(real.frexp(value)[1], -125)
        unit = real.ldexp(1.0, exponent - 8)
        rounded = round(value / unit) * unit
        return rounded if abs(rounded) < 2.0**128 else real.copysign(real.inf, value)
    code = "<f" if type.bitwidth == 32 else "<e"
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return real.copysign(real.inf, value)


def _value(constant: Scalar) -> float:
    value = constant.value.data
    return abs(value) if constant.type == IntegerType(1) else value


def _divided(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or real.isnan(x):
        return real.nan
    return real.copysign(real.inf, x) * real.copysign(1.0, y)


def _larger(x: float, y: float) -> float:
    return real.nan if real.isnan(x) or real.isnan(y) else max(x, y)


def _smaller(x: float, y: float) -> float:
    return real.nan if real.isnan(x) or real.isnan(y) else min(x, y)


BINARY: dict[type[Operation], Callable[[float, float], float]] = {
    arith.AddfOp: operator.add,
    arith.AddiOp: operator.add,
    arith.SubfOp: operator.sub,
    arith.SubiOp: operator.sub,
    arith.MulfOp: operator.mul,
    arith.MuliOp: operator.mul,
    arith.DivfOp: _divided,
    arith.MaximumfOp: _larger,
    arith.MinimumfOp: _smaller,
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
    arith.AndIOp: lambda x, y: int(x) & int(y),
    arith.OrIOp: lambda x, y: int(x) | int(y),
    arith.XOrIOp: lambda x, y: int(x) ^ int(y),
}

UNARY: dict[type[Operation], Callable[[float], float]] = {
    arith.NegfOp: operator.neg,
    math.AbsFOp: abs,
    math.AbsIOp: abs,
    math.SqrtOp: real.sqrt,
    math.RsqrtOp: lambda x: 1 / real.sqrt(x),
    math.ExpOp: real.exp,
    math.LogOp: real.log,
    math.SinOp: real.sin,
    math.CosOp: real.cos,
    math.TanhOp: real.tanh,
    arith.ExtFOp: float,
    arith.TruncFOp: float,
    arith.SIToFPOp: float,
    arith.ExtSIOp: int,
    arith.TruncIOp: int,
}

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def evaluate(op: Operation, operands: Sequence[Scalar]) -> Scalar | None:
    """
    The result of `op` for constant operands; None where this is not known exactly. Functions of
    `math` are rounded from f64, which is as good as any library computes them.
    """
    if isinstance(op, arith.SelectOp):
        return operands[1] if _value(operands[0]) else operands[2]
    values = [_value(c) for c in operands]
    result = op.results[0].type
    if isinstance(op, arith.CmpfOp):
        return _compared(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data], values)
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return None if name.startswith("u") else _compared(name.removeprefix("s"), values)
    if isinstance(op, arith.ExtUIOp | arith.UIToFPOp):
        return scalar(values[0], result) if operands[0].type == IntegerType(1) else None
    if type(op) in BINARY:
        return scalar(BINARY[type(op)](*values), result)
    if type(op) in UNARY:
        try:
            return scalar(UNARY[type(op)](*values), result)
        except (ValueError, OverflowError, ZeroDivisionError):
            return None
    return None


def _compared(predicate: str, values: Sequence[float]) -> Scalar | None:
    """`oeq`, `une`, `uno`, `eq`, …; a comparison of floats is ordered (false for NaN) or not."""
    holds: bool | None = None
    unordered = any(isinstance(v, float) and real.isnan(v) for v in values)
    if predicate == "uno":
        holds = unordered
    elif predicate in COMPARISONS:
        holds = COMPARISONS[predicate](*values)
    elif predicate[1:] in COMPARISONS:
        holds = predicate[0] == "u" if unordered else COMPARISONS[predicate[1:]](*values)
    return None if holds is None else scalar(holds, IntegerType(1))
