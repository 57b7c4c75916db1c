"""Reference functions of scalar operations (`dlc.ir.scalar_ops`) for which NumPy has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def power_of_integers(a: Value, b: Value) -> Value:
    """`a` multiplied `b` times, modulo the size of its type; to a negative power, rounded to 0."""
    root, rest = np.broadcast_arrays(a, b)
    square, result = root, np.ones_like(root)
    with np.errstate(over="ignore"):
        while (rest > 0).any():
            result = np.where((rest > 0) & (rest % 2 == 1), result * square, result)
            square, rest = square * square, rest // 2
    sign = np.where(np.abs(root) == 1, np.where(np.asarray(b) % 2 == 1, root, 1), 0)
    return np.where(np.asarray(b) < 0, sign, result).astype(root.dtype)[()]


def rsqrt(x: Value) -> Value:
    return 1 / np.sqrt(x)


def sigmoid(x: Value) -> Value:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1.0) / (power + 1.0)


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


def philox(seed: Value, counter: Value) -> Value:
    """The first 64 bits of `philox4x32` with the key `seed` at the place `counter`."""
    kind = np.asarray(seed).dtype
    key, place = (np.asarray(v).astype(np.int64).view(np.uint64) for v in (seed, counter))
    zero = np.zeros_like(place)
    words = philox4x32((*_halves(place), zero, zero), _halves(key))
    return (words[1] << np.uint64(32) | words[0]).astype(kind)[()]


def philox4x32(counter: Sequence[Value], key: Sequence[Value]) -> tuple[Value, ...]:
    """
    Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011): four words
    of 32 bits of a counter of four and a key of two, all held as u64.
    """
    (a, b, c, d), (k0, k1) = counter, key
    for turn in range(10):
        (high_a, low_a), (high_c, low_c) = (
            _halves(np.uint64(factor) * word)[::-1]
            for factor, word in ((0xD2511F53, a), (0xCD9E8D57, c))
        )
        r0, r1 = (
            k + np.uint64(turn * step % 2**32) & _WORD
            for k, step in ((k0, 0x9E3779B9), (k1, 0xBB67AE85))
        )
        a, b, c, d = high_c ^ b ^ r0, low_c, high_a ^ d ^ r1, low_a
    return a, b, c, d


_WORD = np.uint64(0xFFFFFFFF)


def _halves(value: Value) -> tuple[Value, Value]:
    """The low and the high 32 bits of u64."""
    return value & _WORD, value >> np.uint64(32)
