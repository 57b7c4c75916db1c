"""
The operations of `arith` and `math` on NumPy arrays, one element per thread.

Arithmetic is done in the operation's own type. Functions of `math` are computed in f64 and rounded
once, which is as good as any library computes them. A value that all threads share is a NumPy
scalar, of type index a Python `int`.
"""

from __future__ import annotations

import math as real
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation

from dlc.dialects.math_functions import ErfcOp
from dlc.simulator.hazards import Hazard

Value: TypeAlias = Any
"""An array over the threads, a NumPy scalar or, of type index, an int."""
Function: TypeAlias = Callable[..., Value]


def dtype_of(type: Attribute, op: Operation) -> np.dtype[Any]:
    """The NumPy type of a value or element; bf16 is held in float32."""
    match type:
        case VectorType():
            return dtype_of(type.element_type, op)
        case Float64Type():
            return np.dtype(np.float64)
        case Float32Type() | BFloat16Type():
            return np.dtype(np.float32)
        case Float16Type():
            return np.dtype(np.float16)
        case IndexType():
            return np.dtype(np.int64)
        case IntegerType() if type.width.data == 1:
            return np.dtype(np.bool_)
        case IntegerType() if type.width.data in (8, 16, 32, 64):
            return np.dtype(f"i{type.width.data // 8}")
        case _:
            raise Hazard("not checked", op, f"the interpreter has no values of type {type}")


def constant_of(op: arith.ConstantOp) -> Value:
    """The value of a constant."""
    attribute = op.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        values = np.array(attribute.get_values(), dtype_of(attribute.type, op))
        return np.broadcast_to(values, (1, *attribute.get_shape()))
    assert isinstance(attribute, IntegerAttr | FloatAttr)
    number = attribute.value.data
    if isinstance(op.result.type, IndexType):
        return int(number)
    type = dtype_of(op.result.type, op)
    return np.bool_(number != 0) if type == np.bool_ else np.array(number).astype(type)[()]


def function_of(op: Operation) -> Function:
    """The function that an operation applies to its operands."""
    kind = type(op)
    result = op.results[0].type
    if isinstance(op, arith.CmpfOp):
        return _compare_floats(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data])
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return _compare_integers(name, op.lhs.type == IntegerType(1))
    if isinstance(op, arith.SelectOp):
        return blend
    if isinstance(result, BFloat16Type) and kind is not arith.TruncFOp:
        sentence = "arithmetic is done in f32 or f64, not in bf16"
        raise Hazard("not checked", op, sentence)
    if isinstance(result, IndexType) and kind in _INDEX:
        return _INDEX[kind]
    if kind in _DIVISIONS:
        return _DIVISIONS[kind]
    if kind in _DIRECT:
        return _DIRECT[kind]
    if kind in _UNSIGNED:
        return _unsigned(_UNSIGNED[kind])
    if kind in _IN_F64:
        return _in_f64(_IN_F64[kind])
    if kind in _CONVERSIONS:
        return _CONVERSIONS[kind](op, op.operands[0].type, dtype_of(result, op))
    raise Hazard("not checked", op, f"the interpreter does not know '{op.name}'")


def blend(condition: Value, a: Value, b: Value) -> Value:
    """`a` where a condition holds, else `b`."""
    if np.ndim(condition) == 0:
        return a if condition else b
    if np.ndim(a) > 1 or np.ndim(b) > 1:
        condition = condition[:, None]
    return np.where(condition, a, b)


_COMPARISONS: dict[str, Function] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _compare_floats(name: str) -> Function:
    def unordered(a: Value, b: Value) -> Value:
        return np.isnan(a) | np.isnan(b)

    if name in ("true", "false"):
        return lambda a, b: np.bool_(name == "true")
    if name == "uno":
        return unordered
    if name == "ord":
        return lambda a, b: ~unordered(a, b)
    compare = _COMPARISONS[name[1:]]
    if name[0] == "u":
        return lambda a, b: unordered(a, b) | compare(a, b)
    return lambda a, b: ~unordered(a, b) & compare(a, b) if name == "one" else compare(a, b)


def _compare_integers(name: str, boolean: bool) -> Function:
    compare = _COMPARISONS[name if len(name) == 2 else name[1:]]
    if name.startswith("u"):
        return lambda a, b: compare(_as_unsigned(a), _as_unsigned(b))
    if boolean:  # as a signed number, true is -1
        return lambda a, b: compare(
            -_as_unsigned(a).astype(np.int8), -_as_unsigned(b).astype(np.int8)
        )
    return compare


def _as_unsigned(x: Value) -> Value:
    x = np.int64(x) if isinstance(x, int) and not isinstance(x, bool) else np.asarray(x)[()]
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def _unsigned(function: Function) -> Function:
    def apply(a: Value, b: Value) -> Value:
        signed = np.asarray(a).dtype
        return function(_as_unsigned(a), _as_unsigned(b)).astype(signed)

    return apply


def _in_f64(function: Function) -> Function:
    def apply(*operands: Value) -> Value:
        type = operands[0].dtype
        return function(*(x.astype(np.float64) for x in operands)).astype(type)

    return apply


def _quotient(a: Value, b: Value) -> Value:
    """Rounded towards zero."""
    down = a // b
    return down + ((a - down * b != 0) & ((a < 0) != (b < 0)))


def fma(a: Value, b: Value, c: Value) -> Value:
    """`a * b + c`, rounded once: products of f32 are exact in f64, those of f64 are fractions."""
    if np.asarray(a).dtype != np.float64:
        return _round_odd_sum(np.float64(a) * b, np.float64(c)).astype(np.asarray(a).dtype)

    def one(a: float, b: float, c: float) -> float:
        rough = a * b + c
        if not real.isfinite(rough):
            return rough
        return float(Fraction(a) * Fraction(b) + Fraction(c))

    return np.vectorize(one, otypes=[np.float64])(a, b, c)[()]


def _round_odd_sum(a: Value, b: Value) -> Value:
    """`a + b` with its last bit set where it is not exact, so that it is rounded once later."""
    total = a + b
    other = total - a
    lost = (a - (total - other)) + (b - other)
    bits = np.asarray(total).view(np.int64)
    away = (lost > 0) == (total > 0)
    odd = np.where(bits & 1, bits, np.where(away, bits + 1, bits - 1)).view(np.float64)
    return np.where((lost != 0) & np.isfinite(total), odd, total)[()]


def _round_away(x: Value) -> Value:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_DIVISIONS: dict[type[Operation], Function] = {
    arith.DivSIOp: _quotient,
    arith.RemSIOp: lambda a, b: a - _quotient(a, b) * b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.DivUIOp: _unsigned(operator.floordiv),
    arith.RemUIOp: _unsigned(operator.mod),
}
"""Operations whose second operand must not be 0."""

_DIRECT: dict[type[Operation], Function] = {
    arith.AddfOp: np.add,
    arith.AddiOp: np.add,
    arith.SubfOp: np.subtract,
    arith.SubiOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.MuliOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    math.AbsFOp: np.abs,
    math.AbsIOp: np.abs,
    math.CeilOp: np.ceil,
    math.CopySignOp: np.copysign,
    math.FloorOp: np.floor,
    math.FmaOp: fma,
    math.RoundEvenOp: np.rint,
    math.RoundOp: _round_away,
    math.SqrtOp: np.sqrt,
    math.TruncOp: np.trunc,
}

_UNSIGNED: dict[type[Operation], Function] = {
    arith.MaxUIOp: np.maximum,
    arith.MinUIOp: np.minimum,
    arith.ShRUIOp: operator.rshift,
}

_INDEX: dict[type[Operation], Function] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivSIOp: _quotient,
    arith.RemSIOp: lambda a, b: a - _quotient(a, b) * b,
    arith.FloorDivSIOp: operator.floordiv,
    arith.DivUIOp: operator.floordiv,
    arith.RemUIOp: operator.mod,
    arith.MaxSIOp: lambda a, b: blend(a > b, a, b),
    arith.MinSIOp: lambda a, b: blend(a < b, a, b),
}
"""Operations on indices keep an int an int."""

_IN_F64: dict[type[Operation], Function] = {
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.Atan2Op: np.arctan2,
    math.CbrtOp: np.cbrt,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: np.vectorize(real.erf, otypes=[np.float64]),
    ErfcOp: np.vectorize(real.erfc, otypes=[np.float64]),
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.ExpM1Op: np.expm1,
    math.LogOp: np.log,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.Log2Op: np.log2,
    math.PowFOp: np.power,
    math.RsqrtOp: lambda x: 1 / np.sqrt(x),
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
}


def _cast(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if isinstance(op.results[0].type, BFloat16Type):
        return _round_to_bf16
    return lambda x: x.astype(target)


def _index_cast(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if isinstance(op.results[0].type, IndexType):
        return lambda x: int(x) if np.ndim(x) == 0 else x.astype(np.int64)
    return lambda x: np.asarray(x, np.int64).astype(target)[()]


def _signed(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if source == IntegerType(1):
        return lambda x: -(x.astype(target))
    return lambda x: x.astype(target)


def _from_unsigned(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    return lambda x: _as_unsigned(x).astype(target)


def _truncated(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if target == np.bool_:
        return lambda x: (x & 1) != 0
    return lambda x: x.astype(target)


def _round_to_bf16(x: Value) -> Value:
    """To nearest, ties to even; NaN stays NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))[()]


_CONVERSIONS: dict[type[Operation], Callable[[Operation, Attribute, np.dtype[Any]], Function]] = {
    arith.ExtFOp: _cast,
    arith.TruncFOp: _cast,
    arith.FPToSIOp: _cast,
    arith.SIToFPOp: _signed,
    arith.ExtSIOp: _signed,
    arith.UIToFPOp: _from_unsigned,
    arith.ExtUIOp: _from_unsigned,
    arith.TruncIOp: _truncated,
    arith.IndexCastOp: _index_cast,
}


def divides(op: Operation) -> bool:
    """Must the second operand not be 0?"""
    return type(op) in _DIVISIONS
