"""Comparisons, and the logic of booleans and of bits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.pointwise import both, truth
from dlc.transforms.tensor.decompositions.scalar import Scalar, is_float, is_unsigned, width

COMPARISONS = {
    "eq": "eq",
    "ne": "ne",
    "not_equal": "ne",
    "lt": "lt",
    "less": "lt",
    "le": "le",
    "less_equal": "le",
    "gt": "gt",
    "greater": "gt",
    "ge": "ge",
    "greater_equal": "ge",
}
"""The predicate of `Scalar.compare` by the name of the operation."""


def _comparison(predicate: str) -> Callable[[Lowering], Lowered]:
    return lambda c: c.compare(lambda x, y: x.compare(predicate, y), *both(c))


for _name, _predicate in COMPARISONS.items():
    lower(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_predicate))


@lower("isnan")
def isnan(c: Lowering) -> Lowered:
    return c.compare(lambda x: x.is_nan(), c.tensor())


@lower("isinf")
def isinf(c: Lowering) -> Lowered:
    if not is_float(element_of(c.tensor())):
        return c.constant(False, c.shape, i1)
    return c.compare(lambda x: x.abs().eq(inf), c.tensor())


@lower("isfinite")
def isfinite(c: Lowering) -> Lowered:
    if not is_float(element_of(c.tensor())):
        return c.constant(True, c.shape, i1)
    return c.compare(lambda x: x.abs() < inf, c.tensor())


LOGICAL: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


def _logical(function: Callable[[Scalar, Scalar], Scalar]) -> Callable[[Lowering], Lowered]:
    return lambda c: c.elementwise(
        lambda x, y: function(truth(x), truth(y)), c.tensor(), c.tensor("other")
    )


def _bitwise(function: Callable[[Scalar, Scalar], Scalar]) -> Callable[[Lowering], Lowered]:
    def decomposition(c: Lowering) -> Lowered:
        if c.element != i1:
            return c.pointwise(function, *both(c))
        first, second = both(c)
        if not isinstance(first, SSAValue):
            first, second = second, first  # the functions commute
        assert isinstance(first, SSAValue)
        if isinstance(second, SSAValue):
            return c.elementwise(function, first, second)
        return c.elementwise(lambda x: function(x, x.of(second)), first)

    return decomposition


for _name, _binary in LOGICAL.items():
    lower(f"logical_{_name}")(_logical(_binary))
    lower(
        f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor",
        f"__{_name}__.Tensor", f"__{_name}__.Scalar",
    )(_bitwise(_binary))  # fmt: skip


@lower("logical_not")
def logical_not(c: Lowering) -> Lowered:
    return c.elementwise(lambda x: ~truth(x), c.tensor())


@lower("bitwise_not")
def bitwise_not(c: Lowering) -> Lowered:
    if c.element == i1:
        return logical_not(c)
    return c.pointwise(lambda x: ~x, c.tensor())


@lower(
    "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar",
    "bitwise_left_shift.Scalar_Tensor",
    "__lshift__.Tensor", "__lshift__.Scalar",
)  # fmt: skip
def left_shift(c: Lowering) -> Lowered:
    """By more than there are bits, or by less than none, gives 0."""
    bits = width(c.element)

    def function(x: Scalar, y: Scalar) -> Scalar:
        inside = (y >= 0) & (y < bits)
        return inside.select(x << inside.select(y, 0), 0)

    return c.pointwise(function, *both(c))


@lower(
    "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar",
    "bitwise_right_shift.Scalar_Tensor",
    "__rshift__.Tensor", "__rshift__.Scalar",
)  # fmt: skip
def right_shift(c: Lowering) -> Lowered:
    """By more than there are bits, or by less than none, leaves the sign alone, or 0 without."""
    most = width(c.element) - 1

    def function(x: Scalar, y: Scalar) -> Scalar:
        inside = (y >= 0) & (y <= most)
        shifted = x >> inside.select(y, most)
        return inside.select(shifted, 0) if is_unsigned(c.element) else shifted

    return c.pointwise(function, *both(c))
