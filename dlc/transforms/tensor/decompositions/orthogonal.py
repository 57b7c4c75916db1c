"""Functions of two numbers whose series are as long as these say: polynomials, incomplete Γ."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from dlc.transforms.tensor.decompositions.lowering import lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.series import function_of_two, in_double, is_double


def in_series(name: str) -> Callable[[Scalar, Scalar], Scalar]:
    """A function of `dlc.ir.special_functions`."""
    return in_double(lambda x, y: x.series(name, y))


def hermite(name: str) -> Callable[[Scalar, Scalar], Scalar]:
    """As PyTorch has it, of no degree above a largest one."""
    polynomial = in_series(name)

    def function(x: Scalar, n: Scalar) -> Scalar:
        most = 512.0 if is_double(x) else 128.0
        return (n >= most + 1).select(nan, polynomial(x, n.minimum(most)))

    return function


for _name in ("hermite_polynomial_h", "hermite_polynomial_he",
              "laguerre_polynomial_l", "legendre_polynomial_p"):  # fmt: skip
    _of = (hermite if "hermite" in _name else in_series)(_name.replace("_polynomial", ""))
    lower(f"special_{_name}", f"special_{_name}.n_scalar", f"special_{_name}.x_scalar")(
        function_of_two(_of, "x", "n")
    )
for _name in ("igamma", "igammac"):
    lower(_name)(function_of_two(in_series(_name)))
