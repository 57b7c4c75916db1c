"""Reference functions of scalar operations (`dlc.ir.scalar_ops`) for which NumPy has none."""

from __future__ import annotations

import math
from fractions import Fraction
from operator import add, and_, floordiv, lshift, mod, mul, neg, or_, rshift, sub, xor
from typing import Any, TypeAlias

import numpy as np

__all__ = ["add", "and_", "floordiv", "lshift", "mod", "mul", "neg", "or_", "rshift", "sub", "xor"]

Value: TypeAlias = Any
"""An array, a NumPy scalar or, of type index, an int."""

erf = np.vectorize(math.erf, [np.float64])
erfc = np.vectorize(math.erfc, [np.float64])


@np.vectorize
def lgamma(x: float) -> float:
    """The logarithm of the absolute value of Γ(x), infinite at its poles."""
    return math.inf if x <= 0 and float(x).is_integer() else math.lgamma(x)


def rsqrt(x: Value) -> Value:
    return 1 / np.sqrt(x)


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


def quotient(a: Value, b: Value) -> Value:
    """Rounded towards zero."""
    down = a // b
    return down + ((a - down * b != 0) & ((a < 0) != (b < 0)))


def remainder(a: Value, b: Value) -> Value:
    """With the sign of the dividend."""
    return a - quotient(a, b) * b


def round_away(x: Value) -> Value:
    """To the nearest integer, halves away from 0."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)
