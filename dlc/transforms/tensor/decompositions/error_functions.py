"""Inverses of the error function and of the normal distribution, and the scaled complement."""

from __future__ import annotations

from math import inf, nan, pi, sqrt

from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.lowering import lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.series import function_of_one, is_double

SHAPE = 0.147
"""The parameter of the approximation of the inverse by one formula, for the least of its errors."""


def inverse(x: Scalar, rest: Scalar) -> Scalar:
    """
    The positive number whose error function is `x` and whose complement is `rest`, by Halley's
    method: three digits to begin with, three times as many after each step.
    """
    logarithm = s.log(rest * (x + 1.0))
    half = logarithm * 0.5 + 2.0 / (pi * SHAPE)
    y = s.sqrt((s.sqrt(half * half - logarithm / SHAPE) - half).maximum(0.0))
    for _ in range(4 if is_double(x) else 2):
        # The smaller one of the two has no cancellation.
        excess = (x < 0.5).select(s.erf(y) - x, rest - s.erfc(y))
        step = excess * (s.exp(y * y) * (sqrt(pi) / 2))
        y = y - step / (step * y + 1.0)
    return rest.eq(0).select(inf, y)


def erfinv(x: Scalar) -> Scalar:
    size = x.abs()
    result = inverse(size, 1.0 - size).copysign(x)
    return (size > 1).select(nan, result)


def ndtri(p: Scalar) -> Scalar:
    """The number below which a normal one is with probability `p`."""
    low = p < 0.5
    rest = low.select(p, 1.0 - p) * 2.0
    x = inverse(1.0 - rest, rest) * sqrt(2)
    result = low.select(-x, x)
    return ((p < 0) | (p > 1)).select(nan, result)


def erfcx(x: Scalar) -> Scalar:
    """`exp(x * x) * erfc(x)`: of large numbers by its continued fraction (DLMF 7.9.1)."""
    square = x * x
    # exp multiplies what the square has lost by the square itself.
    lost = x.fma(x, -square)
    power = s.exp(square) * (lost + 1.0)
    near = power * s.erfc(x.maximum(0.0))
    terms, far = (50, 4.0) if is_double(x) else (9, 3.0)
    fraction = x
    for k in range(terms, 0, -1):
        fraction = x + (k / 2) / fraction
    result = (x < far).select(near, (1 / sqrt(pi)) / fraction)
    negative = s.exp(square) * (s.erfc(x) + s.erfc(x) * lost)
    result = (x < 0).select(negative, result)
    result = (square.eq(inf) & (x < 0)).select(inf, result)
    return x.eq(inf).select(0.0, result)


lower("erfinv", "special_erfinv")(function_of_one(erfinv))
lower("special_ndtri")(function_of_one(ndtri))
lower("special_erfcx")(function_of_one(erfcx))
