"""One element along an axis by its place in order, or by how often it is there."""

from __future__ import annotations

from math import nan, prod

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.transforms.tensor.decompositions.builder import dims
from dlc.transforms.tensor.decompositions.folds import identity
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.ordering import ranks_along
from dlc.transforms.tensor.decompositions.reductions import finish
from dlc.transforms.tensor.decompositions.scalar import Scalar, is_float


def chosen(c: Lowering, value: SSAValue, dim: int, where: SSAValue) -> list[SSAValue]:
    """The element along `dim` where a boolean tensor holds, which it does once, and its index."""
    shape = shape_of(value)
    worst = identity("max", element_of(c.wide(value)))
    kept = c.elementwise(
        lambda w, x: w.select(x, worst), where, c.wide(value), shape=shape, hint="kept"
    )
    places = c.elementwise(
        lambda w, i: w.select(i, 0), where, c.iota(dim, shape), shape=shape, hint="place"
    )
    return [
        c.reduce("max", [dim], kept, hint="value"),
        c.reduce("add", [dim], places, hint="index"),
    ]


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


@lower("kthvalue")
def kthvalue(c: Lowering) -> Lowered:
    value, dim = along(c)
    place = c.integer("k") - 1
    ranks = ranks_along(c, value, dim)
    where = c.elementwise(lambda r: r.eq(place), ranks, shape=shape_of(value), hint="there")
    return finished(c, chosen(c, value, dim, where))


@lower("median", "median.dim", "nanmedian", "nanmedian.dim")
def median(c: Lowering) -> Lowered:
    """The lower one of the two in the middle; the first NaN if there is one."""
    value, dim = along(c)
    shape = shape_of(value)
    n = shape[dim]
    if not n:
        return finished(c, [c.constant(nan, (), element_of(value))])
    ranks = ranks_along(c, value, dim)
    if not is_float(element_of(value)):
        where = c.elementwise(lambda r: r.eq((n - 1) // 2), ranks, shape=shape, hint="there")
        return finished(c, chosen(c, value, dim, where))
    unknown = c.elementwise(
        lambda x: x.is_nan().to(i64), c.wide(value), shape=shape, hint="unknown"
    )
    count = c.reduce("add", [dim], unknown, hint="count")
    ignored = c.op.overload.data.startswith("nan")

    def middle(nans: Scalar) -> Scalar:
        if ignored:
            # Where all are NaN, the first of them.
            return ((n - 1 - nans) >> 1).maximum(0)
        return (nans > 0).select(n - nans, (n - 1) // 2)

    place = c.elementwise(middle, count, shape=shape_of(count), hint="middle")
    where = c.elementwise(
        lambda r, p: r.eq(p), ranks, c.spread(place, [dim], shape), shape=shape, hint="there"
    )
    return finished(c, chosen(c, value, dim, where))


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
