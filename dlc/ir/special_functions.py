"""
Functions of two numbers whose series are as long as the numbers say, in f64.

`dlc/backend/cuda/print/prelude_series.py` has the same in C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dlc.ir.gamma_series import EPSILON, LARGE, STIRLING, TEMME, TEMME_NEXT

Value: TypeAlias = Any
"""An array or a NumPy scalar of f64."""


def _polynomial(first: Callable[..., Value], following: Callable[..., Value]) -> Any:
    """
    The polynomial of x of degree n by its recurrence: of degree 1 it is `first(x)`, of degree
    k + 1 `following` of x, those of degrees k and k - 1, and k. Of no degree from 0 on it is 0.
    """

    def function(x: Value, degree: Value) -> Value:
        with np.errstate(all="ignore"):
            n = np.where(np.abs(degree) < 2.0**63, np.trunc(degree), -1.0)
            x, n = np.broadcast_arrays(np.asarray(x, np.float64), n)
            before, last = np.ones_like(x), first(x)
            result = np.where(n == 0, 1.0, np.where(n > 0, last, 0.0))
            k = 1
            while (left := (n > k) & ~np.isnan(result)).any():
                before, last = last, following(x, last, before, float(k))
                result = np.where(left, last, result)
                k += 1
        return result[()]

    return function


hermite_h = _polynomial(lambda x: x + x, lambda x, q, p, k: (x + x) * q - 2 * k * p)
hermite_he = _polynomial(lambda x: x, lambda x, q, p, k: x * q - k * p)
laguerre_l = _polynomial(
    lambda x: 1 - x, lambda x, q, p, k: ((2 * k + (1 - x)) * q - k * p) / (k + 1)
)
legendre_p = _polynomial(lambda x: x, lambda x, q, p, k: ((2 * k + 1) * x * q - k * p) / (k + 1))


@partial(np.vectorize, otypes=[np.float64])
def igamma(a: float, x: float) -> float:
    """The regularized lower incomplete gamma function P(a, x)."""
    return _incomplete_gamma(float(a), float(x), upper=False)


@partial(np.vectorize, otypes=[np.float64])
def igammac(a: float, x: float) -> float:
    """The regularized upper incomplete gamma function Q(a, x)."""
    return _incomplete_gamma(float(a), float(x), upper=True)


def _incomplete_gamma(a: float, x: float, *, upper: bool) -> float:
    if a < 0 or x < 0 or (a == 0 and not x > 0) or (math.isinf(a) and math.isinf(x)):
        return math.nan
    if a == 0:
        return float(not upper)
    if x == 0 or math.isinf(a):  # also where the other is NaN, as in PyTorch
        return float(upper)
    if math.isinf(x):
        return float(not upper)
    mu = (x - a) / a
    distance = _distance(mu)
    if a > LARGE:
        return _of_large(a, mu, distance, upper)
    scale = _scale(a, x, distance)
    if x < a + 1:
        lower = scale * _series(a, x)
        return 1 - lower if upper else lower
    tail = scale * a * _fraction(a, x)
    return tail if upper else 1 - tail


def _distance(mu: float) -> float:
    """`mu - log(1 + mu)`: near 0, where the two are next to equal, by its series."""
    if abs(mu) >= 0.01:
        return mu - math.log1p(mu) if mu > -1 else math.inf
    total = 0.0
    for k in range(9, 1, -1):
        total = (-1) ** k / k + mu * total
    return total * mu * mu


def _scale(a: float, x: float, distance: float) -> float:
    """`x**a * exp(-x) / Γ(a + 1)`."""
    if a < 10:
        return 0.0 if x > 800 else x**a * math.exp(-x) / math.gamma(a + 1)
    correction = 0.0
    for coefficient in reversed(STIRLING):
        correction = correction / (a * a) + coefficient
    return math.exp(-a * distance - correction / a) / math.sqrt(2 * math.pi * a)


def _series(a: float, x: float) -> float:
    """The sum of `x**k / ((a + 1) … (a + k))` (DLMF 8.7.1)."""
    total = term = k = 1.0
    while term > EPSILON * total:
        term *= x / (a + k)
        total += term
        k += 1
    return total


def _fraction(a: float, x: float) -> float:
    """The continued fraction of DLMF 8.9.2, by the method of Lentz."""
    b = x + 1 - a
    c, d = math.inf, 1 / b
    result, change, k = d, 0.0, 1.0
    while abs(change - 1) > EPSILON * 4:
        factor = k * (a - k)
        b += 2
        d = 1 / (factor * d + b)
        c = factor / c + b
        change = c * d
        result *= change
        k += 1
    return result


def _of_large(a: float, mu: float, distance: float, upper: bool) -> float:
    """DLMF 8.12.3 and 8.12.4."""
    root = math.copysign(math.sqrt(a * distance), mu)
    eta = max(-1.0, min(1.0, root * math.sqrt(2 / a)))
    first, second = (sum(c * eta**k for k, c in enumerate(terms)) for terms in (TEMME, TEMME_NEXT))
    rest = math.exp(-a * distance) / math.sqrt(2 * math.pi * a) * (first + second / a)
    sign = 1 if upper else -1
    return math.erfc(sign * root) / 2 + sign * rest
