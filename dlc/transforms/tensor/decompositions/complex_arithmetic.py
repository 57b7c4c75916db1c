"""Operations that calculate with complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from xdsl.ir import SSAValue

from dlc.transforms.tensor.decompositions import complex_scalar as z
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.complex_pairs import (
    Pair,
    PairLowered,
    PairLowering,
    lower_complex,
)
from dlc.transforms.tensor.decompositions.complex_scalar import Complex
from dlc.transforms.tensor.decompositions.scalar import Scalar

UNARY: dict[tuple[str, ...], Callable[[Complex], Complex | Scalar]] = {
    ("abs",): lambda x: x.abs,
    ("angle",): lambda x: x.angle,
    ("conj", "_conj", "_conj_physical", "conj_physical"): lambda x: x.conjugate,
    ("cos",): z.cos,
    ("cosh",): z.cosh_,
    ("exp",): z.exp,
    ("isfinite",): lambda x: (x.re.abs() < inf) & (x.im.abs() < inf),
    ("isinf",): lambda x: x.re.abs().eq(inf) | x.im.abs().eq(inf),
    ("isnan",): lambda x: x.re.is_nan() | x.im.is_nan(),
    ("log",): z.log,
    ("neg", "negative", "_neg_view", "_neg_view_copy"): lambda x: -x,
    ("reciprocal",): z.reciprocal,
    ("rsqrt",): lambda x: z.reciprocal(z.sqrt(x)),
    ("sgn",): z.sgn,
    ("sin",): z.sin,
    ("sinh",): z.sinh_,
    ("sqrt",): z.sqrt,
    ("square",): z.square,
}


def _unary(
    function: Callable[[Complex], Complex | Scalar],
) -> Callable[[PairLowering], PairLowered]:
    return lambda c: c.of_scalars(function, c.pair())


for _names, _function in UNARY.items():
    lower_complex(*_names)(_unary(_function))

BINARY: dict[tuple[str, ...], Callable[[Complex, Complex], Complex | Scalar]] = {
    ("mul.Tensor", "mul.Scalar", "multiply.Tensor"): lambda x, y: x * y,
    ("div.Tensor", "div.Scalar", "divide.Tensor", "true_divide.Tensor"): lambda x, y: x / y,
    ("eq.Tensor", "eq.Scalar"): lambda x, y: x.eq(y),
    ("ne.Tensor", "ne.Scalar"): lambda x, y: x.ne(y),
}


def _binary(
    function: Callable[[Complex, Complex], Complex | Scalar],
) -> Callable[[PairLowering], PairLowered]:
    return lambda c: c.of_scalars(function, c.pair(), c.pair("other"))


for _several, _of_two in BINARY.items():
    lower_complex(*_several)(_binary(_of_two))


@lower_complex("add.Tensor", "add.Scalar")
def add(c: PairLowering) -> PairLowered:
    alpha = c.complex_number("alpha", 1)
    return c.of_scalars(lambda x, y: x + y.times(alpha), c.pair(), c.pair("other"))


@lower_complex("sub.Tensor", "sub.Scalar", "subtract.Tensor")
def sub(c: PairLowering) -> PairLowered:
    alpha = c.complex_number("alpha", 1)
    return c.of_scalars(lambda x, y: x - y.times(alpha), c.pair(), c.pair("other"))


@lower_complex("rsub.Tensor", "rsub.Scalar")
def rsub(c: PairLowering) -> PairLowered:
    alpha = c.complex_number("alpha", 1)
    return c.of_scalars(lambda x, y: y - x.times(alpha), c.pair(), c.pair("other"))


@lower_complex("addcmul")
def addcmul(c: PairLowering) -> PairLowered:
    value = c.complex_number("value", 1)
    return c.of_scalars(
        lambda x, y, w: x + (y * w).times(value), c.pair(), c.pair("tensor1"), c.pair("tensor2")
    )


@lower_complex("pow.Tensor_Scalar")
def pow_scalar(c: PairLowering) -> PairLowered:
    exponent = c.complex_number("exponent")
    return c.of_scalars(lambda x: z.power(x, exponent), c.pair())


@lower_complex("polar")
def polar(c: PairLowering) -> PairLowered:
    size, angle = c.tensor("abs"), c.tensor("angle")
    return Pair(
        c.pointwise(lambda r, a: r * s.cos(a), size, angle),
        c.pointwise(lambda r, a: r * s.sin(a), size, angle),
    )


PRODUCTS = {
    "matmul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"),
    "dot": ("self", "tensor"), "vdot": ("self", "other"), "mv": ("self", "vec"),
    "linear": ("input", "weight"), "linalg_matmul": ("self", "other"),
    "einsum": ("tensors.0", "tensors.1"), "conv1d": ("input", "weight"),
    "conv2d": ("input", "weight"), "convolution": ("input", "weight"),
}  # fmt: skip
"""Operations that are linear in each of two tensors."""
ADDED = {
    "addmm": ("mm", "mat1", "mat2"),
    "addmv": ("mv", "mat", "vec"),
    "baddbmm": ("bmm", "batch1", "batch2"),
}
"""Products that are added to `self`."""


def product(c: PairLowering, name: str, x: Pair, y: Pair) -> Pair:
    """Four real products by the operation `name`."""
    left, right = PRODUCTS[name]
    arguments = {} if c.name.startswith(("add", "badd")) else c.named_arguments

    def of(a: SSAValue, b: SSAValue) -> SSAValue:
        return c.real({left: a, right: b}, arguments, c.real_types, f"{name}.default")[0]

    (a, b), (p, q) = x.tensors, y.tensors
    if name == "vdot":  # whose left tensor is conjugated
        return Pair(
            c.pointwise(lambda m, n: m + n, of(a, p), of(b, q)),
            c.pointwise(lambda m, n: m - n, of(a, q), of(b, p)),
        )
    return Pair(
        c.pointwise(lambda m, n: m - n, of(a, p), of(b, q)),
        c.pointwise(lambda m, n: m + n, of(a, q), of(b, p)),
    )


def _product(name: str, left: str, right: str) -> Callable[[PairLowering], PairLowered]:
    def decomposition(c: PairLowering) -> PairLowered:
        given = c.named_operands
        if given.keys() - {left, right, "bias"} or right not in given:
            refuse("it multiplies more or fewer than two complex tensors")
        x, y = c.parts_of(given[left]), c.parts_of(given[right])
        found = product(c, name, x, y)
        if "bias" not in given:
            return found
        if name.startswith("conv"):
            refuse("a convolution of complex numbers has no bias; add it afterwards")
        return c.of_scalars(lambda x, y: x + y, found, c.parts_of(given["bias"]))

    return decomposition


for _name, _operands in PRODUCTS.items():
    lower_complex(_name)(_product(_name, *_operands))


def _added(name: str, left: str, right: str) -> Callable[[PairLowering], PairLowered]:
    def decomposition(c: PairLowering) -> PairLowered:
        alpha, beta = c.complex_number("alpha", 1), c.complex_number("beta", 1)
        found = product(c, name, c.pair(left), c.pair(right))
        if beta == 0:  # NaN in what is added does not count
            return c.of_scalars(lambda x: x.times(alpha), found)
        return c.of_scalars(lambda x, y: x.times(beta) + y.times(alpha), c.pair(), found)

    return decomposition


for _name, _parts in ADDED.items():
    lower_complex(_name)(_added(*_parts))
