"""Functions beside the logarithm of Γ: digamma, polygamma, Hurwitz' zeta."""

from __future__ import annotations

from math import factorial, inf, nan, pi

from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.series import (
    bernoulli,
    function_of_one,
    function_of_two,
    in_double,
    polynomial,
)


def digamma(x: Scalar) -> Scalar:
    """
    By recurrence from `x + steps`, where Stirling's series (DLMF 5.11.2) has enough digits; of a
    negative number by reflection (DLMF 5.5.4). It has poles at 0 and at negative integers.
    """
    whole = s.floor(x)
    negative = x < 0
    cotangent = pi / s.tan((x - s.round_even(x)) * pi)
    y = negative.select(1.0 - x, x)
    steps, terms = 10, 8
    shift = (y < steps).to(x.element) * float(steps)
    passed = sum((1.0 / (y + float(k)) for k in range(1, steps)), 1.0 / y)
    z = y + shift
    square = 1.0 / (z * z)
    tail = polynomial(square, [bernoulli(2 * k) / (2 * k) for k in range(1, terms)]) * square
    result = s.log(z) - 0.5 / z - tail
    result = result - (y < steps).select(passed, 0.0)
    result = negative.select(result - cotangent, result)
    result = (negative & x.eq(whole)).select(nan, result)
    result = x.eq(0).select((-x.of(inf)).copysign(-x), result)
    return x.eq(inf).select(inf, result)


def zeta_of_positive(order: Scalar, x: Scalar) -> Scalar:
    """The sum of `(x + k)**-order` for k from 0 on, by Euler and Maclaurin (DLMF 25.11.28)."""
    steps, terms = 10, 10
    result = sum(((x + float(k)).pow(-order) for k in range(1, steps)), x.pow(-order))
    z = x + float(steps)
    power = z.pow(-order)
    result = result + power * (z / (order - 1.0) + 0.5)
    factor = order * power / z
    square = 1.0 / (z * z)
    for k in range(1, terms):
        result = result + factor * float(bernoulli(2 * k) / factorial(2 * k))
        factor = factor * (order + float(2 * k - 1)) * (order + float(2 * k)) * square
    return x.eq(inf).select(0.0, result)


def zeta(order: Scalar, x: Scalar) -> Scalar:
    """
    Hurwitz' zeta function. Of a negative number it is what all integers give, whose sums to either
    side begin at its distances from the next ones, less what comes before.
    """
    whole, negative = s.floor(x), x < 0
    below = x - whole
    even = s.floor(order * 0.5) * 2.0
    sign = 1.0 - (order - even) * 2.0
    above = zeta_of_positive(order, 1.0 - below) - zeta_of_positive(order, 1.0 - x)
    first = zeta_of_positive(order, negative.select(below, x))
    result = negative.select(first + sign * above, first)
    result = (negative & order.ne(s.floor(order))).select(nan, result)
    result = ((x <= 0) & x.eq(whole)).select(inf, result)
    result = (order < 1).select(nan, result)
    result = order.eq(1).select(inf, result)
    return (x.is_nan() | order.is_nan()).select(nan, result)


lower("digamma", "special_digamma")(function_of_one(in_double(digamma)))
lower("special_zeta", "special_zeta.other_scalar", "special_zeta.self_scalar")(
    function_of_two(in_double(zeta))
)


@lower("polygamma", "special_polygamma")
def polygamma(c: Lowering) -> Lowered:
    """`(-1)**(n + 1) n! zeta(n + 1, x)`."""
    n = c.integer("n")
    if n == 0:
        return c.pointwise(in_double(digamma), c.tensor())
    factor = float(factorial(n)) if n < 170 else inf
    if n % 2 == 0:
        factor = -factor
    return c.pointwise(in_double(lambda x: zeta(x.of(n + 1.0), x) * factor), c.tensor())
