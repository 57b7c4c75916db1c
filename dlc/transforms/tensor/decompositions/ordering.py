"""Sorting along an axis, and what is found by order."""

from __future__ import annotations

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.transforms.tensor.decompositions.builder import dimension, dims
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar


def precedes(x: Scalar, y: Scalar, descending: bool) -> Scalar:
    """True where x comes before y; NaN is the largest number."""
    if x.element == i1:
        x, y = x.to(i64), y.to(i64)
    if descending:
        return (x.is_nan() & ~y.is_nan()) | (x > y) if x.is_float else x > y
    return (y.is_nan() & ~x.is_nan()) | (x < y) if x.is_float else x < y


def ranks_along(c: Lowering, value: SSAValue, dim: int, descending: bool = False) -> SSAValue:
    """The number of elements along `dim` that come before each, equal ones as they stand."""
    value = c.wide(value)
    rank, shape = len(shape_of(value)), list(shape_of(value))
    n = shape[dim]
    square = [*shape, n]
    axes = dims(rank + 1)
    other = axes[:-1]
    other[dim] = axes[-1]

    def before(x: Scalar, y: Scalar, i: Scalar, j: Scalar) -> Scalar:
        after = precedes(x, y, descending)
        return (precedes(y, x, descending) | (~after & (j < i))).to(i64)

    compared = c.elementwise(
        before,
        c.move(value, axes[:-1], square),
        c.move(value, other, square),
        c.iota(dim, square),
        c.iota(rank, square),
        shape=square,
        hint="before",
    )
    return c.reduce("add", [rank], compared, hint="rank")


def in_order(c: Lowering, value: SSAValue, dim: int, count: int, descending: bool) -> SSAValue:
    """
    The indices along `dim` of the first `count` elements in order, equal ones as they stand.

    An index is found by its rank: n**2 comparisons for n elements, of which none waits for another.
    """
    ranks = ranks_along(c, value, dim, descending)
    rank, shape = len(shape_of(value)), list(shape_of(value))
    square = [*shape, shape[dim]]
    square[dim] = count
    other = dims(rank)
    other[dim] = dimension(rank)
    found = c.elementwise(
        lambda r, place, i: r.eq(place).select(i, 0),
        c.move(ranks, other, square),
        c.iota(dim, square),
        c.iota(rank, square),
        shape=square,
        hint="found",
    )
    return c.reduce("add", [rank], found, hint="index")


def _ordered(c: Lowering, descending: bool) -> Lowered:
    value = c.tensor()
    if not shape_of(value):
        return [value, c.constant(0, (), i64)]
    dim = c.dim(len(shape_of(value)), "dim", -1)
    if 0 in c.shape:
        return [c.constant(0, c.shape, element_of(r)) for r in c.op.results]
    index = in_order(c, value, dim, c.shape[dim], descending)
    subscripts = dims(len(c.shape))
    subscripts[dim] = dimension(len(c.shape))
    return [gathered(c, value, [index], subscripts), index]


@lower("sort", "sort.stable")
def sort(c: Lowering) -> Lowered:
    return _ordered(c, c.flag("descending"))


@lower("topk")
def topk(c: Lowering) -> Lowered:
    return _ordered(c, c.flag("largest", True))
