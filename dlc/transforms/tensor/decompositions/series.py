"""Series that functions of one number are computed by; their coefficients are made, not listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from math import comb

from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar, width


def is_double(x: Scalar) -> bool:
    """True if a scalar is an f64, which takes more terms."""
    return width(x.element) == 64


def in_double(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """A function of f64 for any floats, rounded once: one that has zeros or poles cancels there."""
    return lambda *scalars: function(*(x.to(f64) for x in scalars)).to(scalars[0].element)


def polynomial(x: Scalar, coefficients: Sequence[Number | Fraction]) -> Scalar:
    """`c[0] + c[1] * x + c[2] * x**2 + …`"""
    result = x.of(float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        result = result * x + float(coefficient)
    return result


@cache
def bernoulli(n: int) -> Fraction:
    """The number B(n) of Bernoulli, by its recurrence; B(1) is -1/2."""
    if n == 0:
        return Fraction(1)
    return -sum((comb(n + 1, k) * bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


def asymptotic(order: Fraction, terms: int) -> list[Fraction]:
    """
    The coefficients a(k) of Hankel's expansions of Bessel functions of that order in powers of 1/x
    (DLMF 10.17.1): the product of `(4 order**2 - (2j - 1)**2) / (8 j)` for j to k.
    """
    found = [Fraction(1)]
    for j in range(1, terms):
        found.append(found[-1] * (4 * order**2 - (2 * j - 1) ** 2) / (8 * j))
    return found


def function_of_one(
    function: Callable[[Scalar], Scalar], operand: str = "self"
) -> Callable[[Lowering], Lowered]:
    """
    The decomposition to a function that is computed in the type of the result; numbers of other
    types are converted to it.
    """
    return lambda c: c.pointwise(function, c.tensor(operand))


def function_of_two(
    function: Callable[[Scalar, Scalar], Scalar], first: str = "self", second: str = "other"
) -> Callable[[Lowering], Lowered]:
    """The same of two operands, of which one may be a number."""

    def decomposition(c: Lowering) -> Lowered:
        given: list[SSAValue | Number] = [c.operand(first), c.operand(second)]
        return c.pointwise(function, *given)

    return decomposition
