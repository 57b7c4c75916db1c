"""Quotients and what they leave."""

from __future__ import annotations

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.pointwise import both
from dlc.transforms.tensor.decompositions.scalar import Scalar, is_float


def fmod(x: Scalar, y: Scalar) -> Scalar:
    """The remainder of the quotient rounded towards zero, exactly; zeros have the sign of `x`."""
    if y.is_whole_power_of_two:
        return (x - s.trunc(x / y) * y).copysign(x)
    return x.fmod(y)


def _differs_in_sign(rest: Scalar, y: Scalar) -> Scalar:
    return rest.ne(0) & ((rest < 0) ^ (y < 0))


def remainder_of_floor(x: Scalar, y: Scalar) -> Scalar:
    """The remainder of the quotient rounded down: it has the sign of the divisor."""
    rest = fmod(x, y) if x.is_float else x.remainder(y)
    return _differs_in_sign(rest, y).select(rest + y, rest)


def floor_quotient(x: Scalar, y: Scalar) -> Scalar:
    """The quotient rounded down: of floats as eager has it, by way of the remainder."""
    if not x.is_float:
        return x / y - _differs_in_sign(x.remainder(y), y).to(x.element)
    rest, ratio = fmod(x, y), x / y
    quotient = (x - rest) / y - _differs_in_sign(rest, y).to(x.element)
    whole = s.floor(quotient)
    whole = whole + (quotient - whole > 0.5).to(x.element)
    return y.eq(0).select(ratio, whole.copysign(ratio))  # which matters where it is 0


@lower(
    "div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode",
    "true_divide.Tensor", "divide.Tensor",
)  # fmt: skip
def div(c: Lowering) -> Lowered:
    mode = c.op.argument("rounding_mode")
    if mode == "floor":
        return floor_divide(c)
    if mode == "trunc":
        return c.pointwise(lambda x, y: s.trunc(x / y), *both(c))
    return c.pointwise(lambda x, y: x / y, *both(c))


# What remains of a quotient by a number that is rounded first is another: eager rounds here.


@lower("floor_divide", "floor_divide.Scalar")
def floor_divide(c: Lowering) -> Lowered:
    dividend, divisor = both(c)
    number = not isinstance(dividend, SSAValue) or not shape_of(dividend)
    return c.pointwise(floor_quotient, dividend, divisor, within=c.element if number else None)


@lower("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(c: Lowering) -> Lowered:
    return c.pointwise(remainder_of_floor, *both(c), within=c.element)


@lower("fmod.Tensor", "fmod.Scalar")
def fmod_op(c: Lowering) -> Lowered:
    function = fmod if is_float(c.element) else Scalar.remainder
    return c.pointwise(function, *both(c), within=c.element)


def least_multiple(x: Scalar, y: Scalar) -> Scalar:
    """The least common multiple of integers; narrow ones lose what they cannot hold at last."""
    wide = i64 if x.element == i64 else i32
    a, b = x.to(wide), y.to(wide)
    return (a / a.gcd(b) * b).abs().to(x.element)


@lower("gcd")
def gcd(c: Lowering) -> Lowered:
    return c.pointwise(Scalar.gcd, *both(c))


@lower("lcm")
def lcm(c: Lowering) -> Lowered:
    return c.pointwise(least_multiple, *both(c))
