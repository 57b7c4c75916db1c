"""
The scalar operations of `arith` and `math`, one row each: NumPy function, C text, cost.

To add an operation, add its row: it then prints, folds, runs in the simulator and has a price; a
function of `math` that xDSL lacks becomes an operation (`dlc.dialects.math_functions`), and with
the name of an ATen operation PyTorch's is lowered to it. Comparisons, conversions and `select`,
whose meaning is in their types or attributes, are where they are computed and printed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

Value: TypeAlias = Any
"""An array, a NumPy scalar or, of type index, an int."""
Function: TypeAlias = Callable[..., Value]


@dataclass(frozen=True)
class ScalarOp:
    """What there is to know of a scalar operation."""

    numpy: Function
    """What it gives for operands of its type, or for their f64 values if `in_f64`."""
    call: str = ""
    """The function of C that it calls, for floats without the `f` of single precision."""
    infix: str = ""
    """The operator in C; of a `helper`, the one that the better operand satisfies."""
    boolean: str = ""
    """The operator in C for booleans."""
    helper: str = ""
    """The function of the prelude that it calls in single precision."""
    cost: float = 1
    """Issue slots of a thread, roughly (CUDA C++ Programming Guide, arithmetic instructions)."""
    in_f64: bool = False
    """True if it is computed in f64 and rounded once, as good as any library computes it."""
    unsigned: bool = False
    """True if it sees its operands as unsigned."""
    divides: bool = False
    """True if the second operand must not be 0."""
    aten: tuple[str, ...] = ()
    """The ATen operations that it is, for floats."""


def fma(a: Value, b: Value, c: Value) -> Value:
    """`a * b + c`, rounded once: products of f32 are exact in f64, those of f64 are fractions."""
    if np.asarray(a).dtype != np.float64:
        return _round_odd_sum(np.float64(a) * b, np.float64(c)).astype(np.asarray(a).dtype)

    def one(a: float, b: float, c: float) -> float:
        rough = a * b + c
        if not math.isfinite(rough):
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


def _quotient(a: Value, b: Value) -> Value:
    """Rounded towards zero."""
    down = a // b
    return down + ((a - down * b != 0) & ((a < 0) != (b < 0)))


def _remainder(a: Value, b: Value) -> Value:
    """With the sign of the dividend."""
    return a - _quotient(a, b) * b


def _round_away(x: Value) -> Value:
    """To the nearest integer, halves away from 0."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _function(name: str, numpy: Function, cost: float = 20, aten: str | None = None) -> ScalarOp:
    """A function of floats, in C and in ATen by one name."""
    names = (name,) if aten is None else tuple(aten.split())
    return ScalarOp(numpy, name, cost=cost, in_f64=True, aten=names)


def _exact(name: str, numpy: Function, cost: float = 20, aten: str = "") -> ScalarOp:
    """A function of floats that is exact, or rounded once, in its own type."""
    return ScalarOp(numpy, name, cost=cost, aten=tuple(aten.split()))


SCALARS: dict[str, ScalarOp] = {
    "arith.addf": ScalarOp(operator.add, infix="+"),
    "arith.subf": ScalarOp(operator.sub, infix="-"),
    "arith.mulf": ScalarOp(operator.mul, infix="*"),
    "arith.divf": ScalarOp(np.divide, infix="/", cost=10),
    "arith.negf": ScalarOp(operator.neg),
    "arith.maximumf": ScalarOp(np.maximum, infix=">", helper="max_nan"),
    "arith.minimumf": ScalarOp(np.minimum, infix="<", helper="min_nan"),
    "arith.maxnumf": ScalarOp(np.fmax, "fmax"),
    "arith.minnumf": ScalarOp(np.fmin, "fmin"),
    "arith.addi": ScalarOp(operator.add, infix="+"),
    "arith.subi": ScalarOp(operator.sub, infix="-"),
    "arith.muli": ScalarOp(operator.mul, infix="*"),
    "arith.divsi": ScalarOp(_quotient, infix="/", divides=True),
    "arith.remsi": ScalarOp(_remainder, infix="%", divides=True),
    "arith.floordivsi": ScalarOp(operator.floordiv, helper="floor_div", divides=True),
    "arith.divui": ScalarOp(operator.floordiv, infix="/", unsigned=True, divides=True),
    "arith.remui": ScalarOp(operator.mod, infix="%", unsigned=True, divides=True),
    "arith.maxsi": ScalarOp(np.maximum, "max"),
    "arith.minsi": ScalarOp(np.minimum, "min"),
    "arith.maxui": ScalarOp(np.maximum, "max", unsigned=True),
    "arith.minui": ScalarOp(np.minimum, "min", unsigned=True),
    "arith.andi": ScalarOp(operator.and_, infix="&", boolean="&&"),
    "arith.ori": ScalarOp(operator.or_, infix="|", boolean="||"),
    "arith.xori": ScalarOp(operator.xor, infix="^", boolean="!="),
    "arith.shli": ScalarOp(operator.lshift, infix="<<"),
    "arith.shrsi": ScalarOp(operator.rshift, infix=">>"),
    "arith.shrui": ScalarOp(operator.rshift, infix=">>", unsigned=True),
    "math.absi": ScalarOp(np.abs, "abs", cost=20),
    "math.absf": _exact("fabs", np.abs),
    "math.ceil": _exact("ceil", np.ceil, aten="ceil"),
    "math.copysign": _exact("copysign", np.copysign),
    "math.floor": _exact("floor", np.floor, aten="floor"),
    "math.fma": _exact("fma", fma),
    "math.round": _exact("round", _round_away),
    "math.roundeven": _exact("nearbyint", np.rint, aten="round"),
    "math.sqrt": _exact("sqrt", np.sqrt, 10, aten="sqrt"),
    "math.trunc": _exact("trunc", np.trunc, aten="trunc fix"),
    "math.acos": _function("acos", np.arccos),
    "math.acosh": _function("acosh", np.arccosh),
    "math.asin": _function("asin", np.arcsin),
    "math.asinh": _function("asinh", np.arcsinh),
    "math.atan": _function("atan", np.arctan),
    "math.atan2": _function("atan2", np.arctan2, aten=""),
    "math.atanh": _function("atanh", np.arctanh),
    "math.cbrt": _function("cbrt", np.cbrt, aten=""),
    "math.cos": _function("cos", np.cos, 40),
    "math.cosh": _function("cosh", np.cosh),
    "math.erf": _function("erf", np.vectorize(math.erf, [np.float64]), 30, "erf special_erf"),
    # 1 - erf(x) without cancellation: at 5 it is 1.5e-12, where the difference is 0 in f32.
    "math.erfc": _function("erfc", np.vectorize(math.erfc, [np.float64]), 40, "erfc special_erfc"),
    "math.exp": _function("exp", np.exp, 15),
    "math.exp2": _function("exp2", np.exp2, 10, "exp2 special_exp2"),
    "math.expm1": _function("expm1", np.expm1, aten="expm1 special_expm1"),
    "math.log": _function("log", np.log, 20),
    "math.log10": _function("log10", np.log10),
    "math.log1p": _function("log1p", np.log1p),
    "math.log2": _function("log2", np.log2),
    "math.powf": _function("pow", np.power, 80, aten=""),
    "math.rsqrt": _function("rsqrt", lambda x: 1 / np.sqrt(x), 4),
    "math.sin": _function("sin", np.sin, 40),
    "math.sinh": _function("sinh", np.sinh),
    "math.tan": _function("tan", np.tan),
    "math.tanh": _function("tanh", np.tanh, 30),
}
"""The scalar operations by the name of the IR."""


@dataclass(frozen=True)
class Comparison:
    """A relation of two numbers."""

    numpy: Function
    infix: str
    negation: str
    """What holds where it does not, NaN aside."""
    mirror: str
    """What holds of the operands the other way round."""


COMPARISONS: dict[str, Comparison] = {
    "eq": Comparison(operator.eq, "==", "ne", "eq"),
    "ne": Comparison(operator.ne, "!=", "eq", "ne"),
    "lt": Comparison(operator.lt, "<", "ge", "gt"),
    "le": Comparison(operator.le, "<=", "gt", "ge"),
    "gt": Comparison(operator.gt, ">", "le", "lt"),
    "ge": Comparison(operator.ge, ">=", "lt", "le"),
}
"""The relations of `arith.cmpi` and `arith.cmpf` by name, signs and order of NaN aside."""


def compare_floats(predicate: str) -> Function:
    """
    The function of a predicate of `arith.cmpf`: `oeq`, `une`, `uno`, …. An ordered comparison is
    false, an unordered one true, where an operand is NaN.
    """

    def unordered(a: Value, b: Value) -> Value:
        return np.isnan(a) | np.isnan(b)

    if predicate in ("true", "false"):
        return lambda a, b: np.bool_(predicate == "true")
    if predicate == "uno":
        return unordered
    if predicate == "ord":
        return lambda a, b: ~unordered(a, b)
    compare = COMPARISONS[predicate[1:]].numpy
    if predicate[0] == "u":
        return lambda a, b: unordered(a, b) | compare(a, b)
    return lambda a, b: ~unordered(a, b) & compare(a, b) if predicate == "one" else compare(a, b)
