"""Tensors that are made of numbers."""

from __future__ import annotations

from xdsl.dialects.builtin import f64

from dlc.dialects.layouts import shape_of
from dlc.transforms.tensor.decompositions.builder import dimension
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Number, is_float


def filled(c: Lowering, value: Number) -> Lowered:
    return c.constant(value, c.shape, c.element)


@lower("full", "full_like", "new_full")
def full(c: Lowering) -> Lowered:
    return filled(c, c.number("fill_value"))


@lower("scalar_tensor")
def scalar_tensor(c: Lowering) -> Lowered:
    return filled(c, c.number("s"))


@lower("fill.Scalar")
def fill(c: Lowering) -> Lowered:
    return filled(c, c.number("value"))


@lower("fill.Tensor")
def fill_tensor(c: Lowering) -> Lowered:
    return c.broadcast(c.cast(c.tensor("value"), c.element), c.shape)


@lower(
    "zeros", "zeros_like", "new_zeros", "zero",
    "empty.memory_format", "empty_like", "new_empty", "empty_permuted",
    "empty_strided", "new_empty_strided",
)  # fmt: skip
def zeros(c: Lowering) -> Lowered:
    """Uninitialised elements may be any; these are the same every time."""
    return filled(c, 0)


@lower("ones", "ones_like", "new_ones")
def ones(c: Lowering) -> Lowered:
    return filled(c, 1)


@lower("arange", "arange.start", "arange.start_step")
def arange(c: Lowering) -> Lowered:
    start, step = c.number("start", 0), c.number("step", 1)
    index = c.iota(0, c.shape)
    whole = isinstance(start, int) and isinstance(step, int)
    if whole or not is_float(c.element):
        first, stride = int(start), int(step)
        if (first, stride) == (0, 1):
            return c.cast(index, c.element, c.hint)
        return c.elementwise(lambda i: i * stride + first, index, element=c.element)
    return c.elementwise(lambda i: i.to(f64) * float(step) + float(start), index, element=c.element)


@lower("eye", "eye.m")
def eye(c: Lowering) -> Lowered:
    one = c.constant(1, (), c.element)
    difference = dimension(0) - dimension(1)
    return c.move(one, [], shape_of(c.op.results[0]), [difference, difference * -1], 0)
