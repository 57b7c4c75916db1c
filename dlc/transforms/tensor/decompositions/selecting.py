"""One element along an axis by its place in order, or by how often it is there."""

from __future__ import annotations

from math import nan, prod

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.expr import Expr
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.folds import identity
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.ordering import in_order
from dlc.transforms.tensor.decompositions.reductions import finish
from dlc.transforms.tensor.decompositions.scalar import is_float, width


def along(c: Lowering) -> tuple[SSAValue, int]:
    """The tensor and the dimension that is asked for: of all elements if none is."""
    value = c.tensor()
    if c.op.argument("dim") is None and c.op.overload.data.endswith("median.default"):
        return c.reshape(value, [prod(shape_of(value))]), 0
    if not shape_of(value):
        return c.reshape(value, [1]), 0
    return value, c.dim(len(shape_of(value)), "dim", -1)


def finished(c: Lowering, found: list[SSAValue]) -> Lowered:
    return [finish(c, v, result=n) for n, v in enumerate(found[: len(c.op.results)])]


def at(c: Lowering, value: SSAValue, dim: int, index: SSAValue) -> list[SSAValue]:
    """The element along `dim` at an index that does not vary along it, and that index."""
    shape = shape_of(index)
    subscripts: list[Expr] = dims(len(shape))
    subscripts.insert(dim, dimension(len(shape)))
    return [gathered(c, value, [index], subscripts, shape), index]


def place_in(
    c: Lowering, value: SSAValue, dim: int, count: int, place: Expr | SSAValue
) -> SSAValue:
    """The index along `dim` of an element by its place among the first `count` in order."""
    shape = list(shape_of(value))
    del shape[dim]
    order = in_order(c, value, dim, count, descending=False)
    subscripts: list[Expr] = dims(len(shape))
    if isinstance(place, SSAValue):
        subscripts.insert(dim, dimension(len(shape)))
        return gathered(c, order, [place], subscripts, shape)
    subscripts.insert(dim, place)
    return c.move(order, subscripts, shape)


@lower("kthvalue")
def kthvalue(c: Lowering) -> Lowered:
    value, dim = along(c)
    k = c.integer("k")
    return finished(c, at(c, value, dim, place_in(c, value, dim, k, fixed(k - 1))))


@lower("median", "median.dim", "nanmedian", "nanmedian.dim")
def median(c: Lowering) -> Lowered:
    """
    The lower one of the two in the middle; the first NaN if there is one. Of nothing it is NaN, or
    the integer that a processor makes of that.
    """
    value, dim = along(c)
    shape, element = shape_of(value), element_of(value)
    n = shape[dim]
    if not n:
        least = -(2 ** (width(element) - 1)) if width(element) >= 32 else 0
        return finished(c, [c.constant(nan if is_float(element) else least, (), element)])
    middle = (n - 1) // 2
    if not is_float(element):
        index = place_in(c, value, dim, middle + 1, c.at(middle))
        return finished(c, at(c, value, dim, index))
    if c.op.overload.data.startswith("nan"):
        unknown = c.elementwise(
            lambda x: x.is_nan().to(i64), c.wide(value), shape=shape, hint="unknown"
        )
        count = c.reduce("add", [dim], unknown, hint="count")
        # Where all are NaN, the first of them.
        place = c.elementwise(
            lambda nans: ((-nans + (n - 1)) >> 1).maximum(0),
            count,
            shape=shape_of(count),
            hint="middle",
        )
        return finished(c, at(c, value, dim, place_in(c, value, dim, middle + 1, place)))
    unknown = c.elementwise(
        lambda x, i: x.is_nan().select(i, n),
        c.wide(value),
        c.iota(dim, shape),
        shape=shape,
        hint="unknown",
    )
    first = c.reduce("min", [dim], unknown, hint="first")
    index = c.elementwise(
        lambda f, i: (f < n).select(f, i),
        first,
        place_in(c, value, dim, middle + 1, c.at(middle)),
        shape=shape_of(first),
        hint="index",
    )
    return finished(c, at(c, value, dim, index))


@lower("mode")
def mode(c: Lowering) -> Lowered:
    """
    The least one of the values that are there most often, and the last place where it is; no NaN
    is equal to another one, so the result is one, the first, only where there is nothing else.
    """
    value, dim = along(c)
    shape, value = shape_of(value), c.wide(value)
    rank = len(shape)
    square = [*shape, shape[dim]]
    own, other = dims(rank), dims(rank + 1)[:-1]
    other[dim] = dims(rank + 1)[-1]

    equal = c.elementwise(
        lambda x, y: x.eq(y).to(i64),
        c.move(value, own, square),
        c.move(value, other, square),
        shape=square,
        hint="same",
    )
    counts = c.reduce("add", [rank], equal, hint="count")
    most = c.spread(c.reduce("max", [dim], counts, hint="most"), [dim], shape)
    best = identity("min", element_of(value))
    often = c.elementwise(
        lambda n, m, x: n.eq(m).select(x, best), counts, most, value, shape=shape, hint="often"
    )
    found = c.reduce("min", [dim], often, hint="mode")
    places = c.elementwise(
        lambda x, y, i: x.eq(y).select(i, 0),
        value,
        c.spread(found, [dim], shape),
        c.iota(dim, shape),
        shape=shape,
        hint="place",
    )
    return finished(c, [found, c.reduce("max", [dim], places, hint="index")])
