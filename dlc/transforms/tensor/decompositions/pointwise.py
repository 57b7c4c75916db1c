"""Functions of single elements."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from dlc.ir.scalar_ops import ROWS
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar, is_float


def sign(x: Scalar) -> Scalar:
    positive, negative = (x > 0).to(x.element), (x < 0).to(x.element)
    return positive - negative


def clamp(x: Scalar, low: Scalar | Number, high: Scalar | Number) -> Scalar:
    return x.maximum(low).minimum(high)


SIXTH = 1 / 6
"""What hard sigmoids are multiplied by, as eager on a GPU does: a division calls in a branch."""

UNARY: dict[str, Callable[[Scalar], Scalar]] = {
    **{
        aten: s.function(name.removeprefix("math."))
        for name, row in ROWS.items()
        for aten in row.aten
    },
    "abs": lambda x: x.abs(),
    "frac": lambda x: x - s.trunc(x),
    "hardsigmoid": lambda x: clamp(x + 3.0, 0.0, 6.0) * SIXTH,
    "hardswish": lambda x: x * clamp(x + 3.0, 0.0, 6.0) * SIXTH,
    "log_sigmoid": lambda x: x.minimum(0.0) - s.log1p(s.exp(-x.abs())),
    "mish": lambda x: x * s.tanh(s.log1p(s.exp(x))),
    "neg": lambda x: -x,
    "reciprocal": lambda x: 1.0 / x,
    "relu": lambda x: x.maximum(0),
    "relu6": lambda x: clamp(x, 0, 6),
    "sign": sign,
    "silu": lambda x: x * s.sigmoid(x),
    "square": lambda x: x * x,
    "negative": lambda x: -x,
    "_neg_view": lambda x: -x,
    "_neg_view_copy": lambda x: -x,
    "positive": lambda x: x,
    "sgn": sign,
}


def _unary(function: Callable[[Scalar], Scalar]) -> Callable[[Lowering], Lowered]:
    return lambda c: c.pointwise(function, c.tensor())


for _name, _function in UNARY.items():
    lower(_name)(_unary(_function))


def both(c: Lowering) -> tuple[SSAValue | Number, SSAValue | Number]:
    return c.sized_operand("self"), c.sized_operand("other")


def hypot(x: Scalar, y: Scalar) -> Scalar:
    long, short = x.abs().maximum(y.abs()), x.abs().minimum(y.abs())
    ratio = (long.eq(0) | short.eq(inf)).select(0.0, short / long)
    infinite = x.abs().eq(inf) | y.abs().eq(inf)
    return infinite.select(inf, long * s.sqrt(ratio * ratio + 1.0))


BINARY: dict[tuple[str, ...], Callable[[Scalar, Scalar], Scalar]] = {
    ("atan2",): lambda x, y: x.atan2(y),
    ("copysign.Tensor", "copysign.Scalar"): lambda x, y: x.copysign(y),
    ("hypot",): hypot,
    ("maximum", "max.other"): lambda x, y: x.maximum(y),
    ("minimum", "min.other"): lambda x, y: x.minimum(y),
    ("mul.Tensor", "mul.Scalar", "multiply.Tensor"): lambda x, y: x * y,
}


def _binary(function: Callable[[Scalar, Scalar], Scalar]) -> Callable[[Lowering], Lowered]:
    return lambda c: c.pointwise(function, *both(c))


for _names, _of_two in BINARY.items():
    lower(*_names)(_binary(_of_two))


def scaled(x: Scalar, factor: Number) -> Scalar:
    """`x * factor`, which is `x` for a factor of 1."""
    return x if factor == 1 else x * factor


@lower("add.Tensor", "add.Scalar")
def add(c: Lowering) -> Lowered:
    alpha = c.number("alpha", 1)
    alpha = int(alpha != 0) if c.element == i1 else alpha  # a number is a boolean among booleans
    return c.pointwise(lambda x, y: x + scaled(y, alpha), *both(c))


@lower("sub.Tensor", "sub.Scalar", "subtract.Tensor")
def sub(c: Lowering) -> Lowered:
    alpha = c.number("alpha", 1)
    return c.pointwise(lambda x, y: x - scaled(y, alpha), *both(c))


@lower("rsub.Tensor", "rsub.Scalar")
def rsub(c: Lowering) -> Lowered:
    alpha = c.number("alpha", 1)
    return c.pointwise(lambda x, y: y - scaled(x, alpha), *both(c))


@lower("signbit")
def signbit(c: Lowering) -> Lowered:
    def function(x: Scalar) -> Scalar:
        return (x.of(1.0).copysign(x) if x.is_float else x) < 0

    return c.compare(function, c.tensor())


@lower("fmax", "fmin")
def one_that_is_a_number(c: Lowering) -> Lowered:
    larger = c.op.overload.data.startswith("fmax")

    def function(x: Scalar, y: Scalar) -> Scalar:
        best = x.maximum(y) if larger else x.minimum(y)
        return x.is_nan().select(y, y.is_nan().select(x, best))

    return c.pointwise(function, *both(c))


def power(x: Scalar, exponent: Number) -> Scalar:
    """`x` to a constant exponent, by products and roots for the small ones as eager does."""
    if not x.is_float:
        if exponent < 0 or exponent != int(exponent):
            refuse(f"integers have no power {exponent} in integers")
        return _repeated(x, int(exponent))
    if exponent in (0, 1, 2, 3, 4):
        return _repeated(x, int(exponent))
    if exponent in (-1, -2):
        return 1.0 / _repeated(x, -int(exponent))
    if exponent == 0.5:
        return s.sqrt(x)
    if exponent == -0.5:
        return s.rsqrt(x)
    return x.pow(float(exponent))


def _repeated(x: Scalar, exponent: int) -> Scalar:
    """`x` multiplied `exponent` times, by squaring."""
    result, square = None, x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return x.of(1) if result is None else result


@lower("pow.Tensor_Scalar")
def pow_scalar(c: Lowering) -> Lowered:
    exponent = c.number("exponent")
    return c.pointwise(lambda x: power(x, exponent), c.tensor())


@lower("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(c: Lowering) -> Lowered:
    base, exponent = c.operand("self"), c.operand("exponent")
    if not isinstance(exponent, SSAValue):
        return c.pointwise(lambda x: power(x, exponent), base)
    function = Scalar.pow if is_float(c.element) else Scalar.ipow
    return c.pointwise(lambda x, y: function(x, y), base, exponent)


@lower("clamp", "clamp.Tensor", "hardtanh", "clip", "clip.Tensor")
def clamp_both(c: Lowering) -> Lowered:
    hardtanh = c.op.overload.data.startswith("hardtanh")
    low, high = ("min_val", "max_val") if hardtanh else ("min", "max")
    limits = [
        c.operand(low, -1) if hardtanh else c.optional_operand(low),
        c.operand(high, 1) if hardtanh else c.optional_operand(high),
    ]
    given = [(v, m) for v, m in zip(limits, ("maximum", "minimum"), strict=True) if v is not None]

    def function(x: Scalar, *bounds: Scalar) -> Scalar:
        for bound, (_, method) in zip(bounds, given, strict=True):
            x = getattr(x, method)(bound)
        return x

    return c.pointwise(function, c.tensor(), *(v for v, _ in given))


@lower("clamp_min", "clamp_min.Tensor")
def clamp_min(c: Lowering) -> Lowered:
    return c.pointwise(lambda x, low: x.maximum(low), c.tensor(), c.operand("min"))


@lower("clamp_max", "clamp_max.Tensor")
def clamp_max(c: Lowering) -> Lowered:
    return c.pointwise(lambda x, high: x.minimum(high), c.tensor(), c.operand("max"))


@lower("round.decimals")
def round_decimals(c: Lowering) -> Lowered:
    decimals = c.integer("decimals")
    factor = 10.0 ** abs(decimals)
    if decimals < 0:
        return c.pointwise(lambda x: s.round_even(x / factor) * factor, c.tensor())
    return c.pointwise(lambda x: s.round_even(x * factor) / factor, c.tensor())


def truth(x: Scalar) -> Scalar:
    """True where `x` differs from 0."""
    return x.to(i1)


def _selected(c: Lowering, condition: SSAValue, then: SSAValue | Number,
              otherwise: SSAValue | Number) -> Lowered:  # fmt: skip
    """`then` where `condition` holds; numbers have the result's type."""
    element = c.element
    given = [v for v in (then, otherwise) if isinstance(v, SSAValue)]

    def function(p: Scalar, *scalars: Scalar) -> Scalar:
        rest = iter(scalars)
        values = [
            next(rest).to(element) if isinstance(v, SSAValue) else p.body.constant(v, element)
            for v in (then, otherwise)
        ]
        return truth(p).select(*values)

    return c.elementwise(function, condition, *given)


@lower("where.self", "where.Scalar", "where.ScalarSelf", "where.ScalarOther")
def where(c: Lowering) -> Lowered:
    return _selected(c, c.tensor("condition"), *both(c))


@lower("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c: Lowering) -> Lowered:
    return _selected(c, c.tensor("mask"), c.operand("value"), c.tensor())


@lower("_to_copy", "to.dtype", "type_as", "_cast_Float", "to.other")
def to_copy(c: Lowering) -> Lowered:
    given = c.operand("self")
    if not isinstance(given, SSAValue):
        return c.constant(given, c.shape, c.element)
    return c.cast(given, c.element)
