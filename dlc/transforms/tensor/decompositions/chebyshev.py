"""Polynomials of Chebyshev, of a degree that is data, by what they are without recurrence."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.lowering import lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.series import function_of_two, in_double


def parity(n: Scalar) -> Scalar:
    """1 for even numbers, -1 for odd ones."""
    return 1.0 - (n - s.floor(n * 0.5) * 2.0) * 2.0


def of_kind(kind: str) -> Callable[[Scalar, Scalar], Scalar]:
    """
    With x = cos(t), `t` is cos(n t), `u` is sin((n + 1) t) / sin(t), `v` and `w` are
    cos((n + 1/2) t) / cos(t / 2) and the same of sines (DLMF 18.5); beyond 1 with those of the
    hyperbola, and at ±1 their limits. Those of the negative are those of x but for their sign,
    and V and W change places.
    """

    def function(x: Scalar, degree: Scalar) -> Scalar:
        n, size = s.trunc(degree), x.abs()
        negative = x < 0
        inside = size.minimum(1.0)
        # Of 1 - x nothing is lost near 1, of the angle's cosine all would be.
        half = s.function("asin")(s.sqrt((1.0 - inside) * 0.5))
        outside = s.function("asinh")(s.sqrt((size.maximum(1.0) - 1.0) * 0.5))
        sin, cos = s.sin, s.cos
        sinh, cosh = s.function("sinh"), s.function("cosh")
        many, odd = n * 2.0 + 1.0, n + 1.0
        if kind == "t":
            near, far, limit = cos(n * half * 2.0), cosh(n * outside * 2.0), n * 0.0 + 1.0
        elif kind == "u":
            near = sin(odd * half * 2.0) / sin(half * 2.0)
            far = sinh(odd * outside * 2.0) / sinh(outside * 2.0)
            limit = odd
        else:
            by_cosine = (cos(many * half) / cos(half), cosh(many * outside) / cosh(outside))
            by_sine = (sin(many * half) / sin(half), sinh(many * outside) / sinh(outside))
            swapped = negative if kind == "v" else ~negative
            near, far = (swapped.select(b, a) for a, b in zip(by_cosine, by_sine, strict=True))
            limit = swapped.select(many, 1.0)
        far = size.eq(inf).select(inf, far)
        result = (size < 1).select(near, (size > 1).select(far, limit))
        result = negative.select(result * parity(n), result)
        result = x.is_nan().select(x, result)
        result = n.eq(0).select(1.0, result)
        return (n < 0).select(0.0, result)

    return function


for _kind in "tuvw":
    _function = of_kind(_kind)
    for _shifted in ("", "shifted_"):
        _name = f"special_{_shifted}chebyshev_polynomial_{_kind}"

        def _of(x: Scalar, n: Scalar, f: Callable[..., Scalar] = _function,
                shifted: str = _shifted) -> Scalar:  # fmt: skip
            return f(x * 2.0 - 1.0 if shifted else x, n)

        lower(_name, f"{_name}.n_scalar", f"{_name}.x_scalar")(
            function_of_two(in_double(_of), "x", "n")
        )
