"""Polynomials of Hermite, Laguerre and Legendre of one degree, by their recurrences."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, trunc

from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.series import in_double

MOST = 128
"""The largest degree: each takes operations of its own, and PyTorch has no more of Hermite's."""
Recurrence = tuple[Callable[[Scalar], Scalar], Callable[[Scalar, Scalar, Scalar, float], Scalar]]
"""That of degree 1 of x, and that of degree k + 1 of x and those of degrees k and k - 1."""

RECURRENCES: dict[str, Recurrence] = {
    "hermite_polynomial_h": (lambda x: x + x, lambda x, q, p, k: (x + x) * q - p * (2 * k)),
    "hermite_polynomial_he": (lambda x: x, lambda x, q, p, k: x * q - p * k),
    "laguerre_polynomial_l": (
        lambda x: 1.0 - x,
        lambda x, q, p, k: ((1.0 - x + 2 * k) * q - p * k) / (k + 1),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda x, q, p, k: (x * (2 * k + 1) * q - p * k) / (k + 1),
    ),
}
"""DLMF 18.9.1 and table 18.9.1."""


ENDS_AT_NAN = ("laguerre_polynomial_l", "legendre_polynomial_p")
"""PyTorch's loop ends where it meets a NaN, here before its first turn, and gives 0."""


def of_degree(name: str, n: int) -> Callable[[Scalar], Scalar]:
    """The polynomial of degree `n`: 1 of degree 0, and 0 of negative ones as PyTorch's."""
    first, following = RECURRENCES[name]
    ends_at_nan = name in ENDS_AT_NAN

    def function(x: Scalar) -> Scalar:
        if n <= 0:
            return x.of(float(n == 0))
        before, last = x.of(1.0), first(x)
        for k in range(1, n):
            before, last = last, following(x, last, before, float(k))
        return x.is_nan().select(0.0, last) if ends_at_nan and n > 1 else last

    return function


def decomposition(name: str) -> Callable[[Lowering], Lowered]:
    """That of an operation whose degree is a number; a degree with a fraction is truncated."""

    def lowered(c: Lowering) -> Lowered:
        n = c.operand("n")
        if not isinstance(n, bool | int | float):
            refuse("its degree is a tensor; pass the degree as a Python number")
        if not isfinite(n) or n > MOST:
            refuse(f"expected a degree of {MOST} at most, found {n}")
        return c.pointwise(in_double(of_degree(name, trunc(n))), c.tensor("x"))

    return lowered


for _name in RECURRENCES:
    lower(f"special_{_name}", f"special_{_name}.n_scalar", f"special_{_name}.x_scalar")(
        decomposition(_name)
    )
