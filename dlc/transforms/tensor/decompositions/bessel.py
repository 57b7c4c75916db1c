"""
Bessel functions of the orders 0 and 1, modified ones, and Airy's.

Near 0 their power series, far from it Hankel's expansions, and between them, where the terms of
neither get small, the recurrence in the order or an integral.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import cosh, exp, factorial, gamma, inf, nan, pi, sqrt

from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.lowering import lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.series import (
    asymptotic,
    function_of_one,
    in_double,
    is_double,
    polynomial,
)

EULER = 0.57721566490153286
"""The constant of Euler and Mascheroni."""


# Modified, of the first kind: they grow as exp(x).


def growing(x: Scalar, order: int) -> tuple[Scalar, Scalar, Scalar]:
    """
    I(|x|) as two factors, of which the first is exp(|x|) far from 0 and 1 near it; and True far
    from 0.
    """
    size = x.abs()
    terms, more, far = (50, 22, 20.0) if is_double(x) else (22, 10, 10.0)
    quarter = size * size * 0.25
    near = polynomial(quarter, [
        Fraction(1, factorial(k) * factorial(k + order)) for k in range(terms)
    ])  # fmt: skip
    near = near * (size * 0.5) if order else near
    inverse = 1.0 / size
    signs = [a * (-1) ** k for k, a in enumerate(asymptotic(Fraction(order), more))]
    beyond = polynomial(inverse, signs) * s.sqrt(inverse * (1 / (2 * pi)))
    return near, beyond, size > far


def modified(order: int, *, scaled: bool = False) -> Callable[[Scalar], Scalar]:
    def function(x: Scalar) -> Scalar:
        near, beyond, is_far = growing(x, order)
        size = x.abs()
        if scaled:
            result = is_far.select(beyond, near * s.exp(-size))
            result = size.eq(inf).select(0.0, result)
        else:
            half = s.exp(size * 0.5)
            result = is_far.select(half * beyond * half, near)
            result = size.eq(inf).select(nan, result)
        return result.copysign(x) if order else result

    return function


# Modified, of the second kind: they fall as exp(-x).


def falling_far(x: Scalar, order: Fraction, first: float) -> Scalar:
    """
    `exp(x) K(x)` for x from `first` on: the integral of `exp(-x (cosh t - 1)) cosh(order t)` over
    positive t (DLMF 10.32.9) by the trapezoidal rule, whose error falls faster than any power;
    then Hankel's expansion (DLMF 10.40.2).
    """
    step, least, far, terms = (1 / 8, 1e-17, 20.0, 22) if is_double(x) else (1 / 4, 1e-9, 10.0, 10)
    total, t = x.of(0.5), step
    while exp(-first * (cosh(t) - 1)) > least:
        power = s.exp(x * (1.0 - cosh(t)))
        total = total + power * cosh(float(order) * t)
        t += step
    inverse = 1.0 / x
    beyond = polynomial(inverse, asymptotic(order, terms)) * s.sqrt(inverse * (pi / 2))
    return (x < far).select(total * step, beyond)


def falling(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """K(x) near 0 by its series (DLMF 10.31), and `exp(x) K(x)` for x from 1 on."""
    terms = 16 if is_double(x) else 9
    quarter = x * x * 0.25

    def harmonic(k: int) -> float:
        return sum(1 / j for j in range(1, k + 1)) - EULER

    weights = [1 / (factorial(k) * factorial(k + order)) for k in range(terms)]
    pairs = list(enumerate(weights))
    logarithm = s.log(x * 0.5)
    if order == 0:
        near = polynomial(quarter, [w * harmonic(k) for k, w in pairs])
        near = near - logarithm * polynomial(quarter, weights)
    else:
        sums = polynomial(quarter, [w * (harmonic(k) + harmonic(k + 1)) for k, w in pairs])
        half = x * 0.5
        near = 1.0 / x + logarithm * half * polynomial(quarter, weights) - half * sums * 0.5
    return near, falling_far(x.maximum(1.0), Fraction(order), 1.0)


def second_modified(order: int, *, scaled: bool = False) -> Callable[[Scalar], Scalar]:
    def function(x: Scalar) -> Scalar:
        near, beyond = falling(x, order)
        if scaled:
            near = near * s.exp(x)
        else:
            half = s.exp(x * -0.5)
            beyond = half * beyond * half
        result = (x < 1).select(near, beyond)
        result = x.eq(inf).select(0.0, result)
        result = x.eq(0).select(inf, result)
        return (x < 0).select(nan, result)

    return function


# Of the first and the second kind: they oscillate.


def by_series(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """J(x) and Y(x) below 1/2 (DLMF 10.2.2, 10.8.1, 10.8.2)."""
    terms = 10
    quarter = x * x * -0.25

    def harmonic(k: int) -> float:
        return sum(1 / j for j in range(1, k + 1)) - EULER

    weights = [1 / (factorial(k) * factorial(k + order)) for k in range(terms)]
    pairs = list(enumerate(weights))
    first = polynomial(quarter, weights)
    first = first * (x * 0.5) if order else first
    product = first * s.log(x * 0.5) * (2 / pi)
    if order == 0:
        sums = polynomial(quarter, [w * 2 * harmonic(k) for k, w in pairs])
        return first, product - sums * (1 / pi)
    sums = polynomial(quarter, [w * (harmonic(k) + harmonic(k + 1)) for k, w in pairs])
    return first, product - (2 / pi) / x - x * 0.5 * sums * (1 / pi)


def by_recurrence(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """
    J(x) and Y(x) from 1/2 on: Miller's algorithm begins with an order whose function is next to
    nothing; all even orders add up to 1 (DLMF 10.12.4), and those of a parity to Y (DLMF 10.23.15).
    """
    last = 76
    twice = 2.0 / x
    above, here = x.of(0.0), x.of(1e-200)
    total, sums = x.of(0.0), x.of(0.0)
    found: dict[int, Scalar] = {}
    for n in range(last, 0, -1):
        if n % 2 == 0:
            total = total + here * 2.0
        if n > order and (n - order) % 2 == 0:
            k = (n - order) // 2
            weight = (-1) ** k * (2 / n if order == 0 else n / (k * (k + 1)))
            sums = sums + here * weight
        above, here = here, here * twice * float(n) - above
        if n <= 2:
            found[n - 1] = here
    total = total + here
    first = found[order] / total
    sums = sums / total
    if order == 0:
        second = (s.log(x * 0.5) + EULER) * first - sums * 2.0
    else:
        second = (s.log(x * 0.5) + (EULER - 1)) * first - found[0] / total / x - sums
    return first, second * (2 / pi)


def by_expansion(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """J(x) and Y(x) of large numbers (DLMF 10.17.3)."""
    coefficients = asymptotic(Fraction(order), 24)
    inverse = 1.0 / x
    square = inverse * inverse
    p = polynomial(square, [a * (-1) ** k for k, a in enumerate(coefficients[::2])])
    q = polynomial(square, [a * (-1) ** k for k, a in enumerate(coefficients[1::2])]) * inverse
    sine, cosine = s.sin(x), s.cos(x)
    # The angle is x - pi / 4, or x - 3 pi / 4, without the factor of the root of 2.
    c, d = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -(sine + cosine))
    factor = s.sqrt(inverse * (1 / pi))
    return factor * (p * c - q * d), factor * (p * d + q * c)


def oscillating(order: int, kind: int) -> Callable[[Scalar], Scalar]:
    """J for kind 0, Y for kind 1."""

    def function(x: Scalar) -> Scalar:
        size = x.abs()
        far = 25.0
        near, between, beyond = (
            f(y, order)[kind]
            for f, y in (
                (by_series, size),
                (by_recurrence, size.maximum(0.5).minimum(far)),
                (by_expansion, size.maximum(far)),
            )
        )
        result = (size < 0.5).select(near, (size < far).select(between, beyond))
        if kind == 0:
            return (x < 0).select(-result, result) if order else result
        return x.eq(0).select(-inf, (x < 0).select(nan, result))

    return in_double(function)


def spherical(x: Scalar) -> Scalar:
    """`sin(x) / x`."""
    near = polynomial(x * x, [(-1) ** k / factorial(2 * k + 1) for k in range(8)])
    result = (x.abs() < 0.5).select(near, s.sin(x) / x)
    return x.abs().eq(inf).select(0.0, result)


def airy(x: Scalar) -> Scalar:
    """
    Ai(x): near 0 by its series (DLMF 9.4.1), whose terms are so much larger than their sum that
    they are added up in f64; elsewhere by K of the order 1/3 (DLMF 9.6.2), or its expansion
    (DLMF 9.7.9).
    """
    if is_double(x):
        refuse("between its series and its expansion it has too few digits in f64")
    return in_double(airy_in_double)(x)


def airy_in_double(x: Scalar) -> Scalar:
    """Ai(x) to the digits of f32."""
    cube = x * x * x
    first, second = [1.0], [1.0]
    for k in range(1, 40):
        first.append(first[-1] / ((3 * k - 1) * (3 * k)))
        second.append(second[-1] / ((3 * k) * (3 * k + 1)))
    at_zero = 3 ** (-2 / 3) / gamma(2 / 3)
    slope = -(3 ** (-1 / 3)) / gamma(1 / 3)
    near = polynomial(cube, first) * at_zero + polynomial(cube, second) * x * slope
    size = x.abs().maximum(1.0)
    root = s.sqrt(size)
    angle = size * root * (2 / 3)
    half = s.exp(angle * -0.5)
    integral = falling_far(angle, Fraction(1, 3), 2 / 3)
    falls = half * (integral * root * (1 / (pi * sqrt(3)))) * half
    terms = [abs(float(a)) for a in asymptotic(Fraction(1, 3), 10)]
    inverse = 1.0 / angle
    square = inverse * inverse
    p = polynomial(square, [a * (-1) ** k for k, a in enumerate(terms[::2])])
    q = polynomial(square, [a * (-1) ** k for k, a in enumerate(terms[1::2])]) * inverse
    sine, cosine = s.sin(angle), s.cos(angle)
    swings = (p * (cosine + sine) + q * (sine - cosine)) * s.sqrt(1.0 / (root * (2 * pi)))
    result = (x > 1).select(falls, (x < -8).select(swings, near))
    return x.abs().eq(inf).select(nan, result)


lower("i0", "special_i0", "special_modified_bessel_i0")(function_of_one(modified(0)))
lower("special_i1", "special_modified_bessel_i1")(function_of_one(modified(1)))
lower("special_i0e")(function_of_one(modified(0, scaled=True)))
lower("special_i1e")(function_of_one(modified(1, scaled=True)))
for _order in (0, 1):
    lower(f"special_modified_bessel_k{_order}")(function_of_one(second_modified(_order)))
    _function = second_modified(_order, scaled=True)
    lower(f"special_scaled_modified_bessel_k{_order}")(function_of_one(_function, "x"))
    lower(f"special_bessel_j{_order}")(function_of_one(oscillating(_order, 0)))
    lower(f"special_bessel_y{_order}")(function_of_one(oscillating(_order, 1)))
lower("special_spherical_bessel_j0")(function_of_one(spherical, "x"))
lower("special_airy_ai")(function_of_one(airy, "x"))
