"""Scans along an axis: running sums, products, extremes, and what is numbered by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.tensor_ir import ScanOp
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.folds import combined, folded, identities
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.reductions import as_element
from dlc.transforms.tensor.decompositions.scalar import Scalar

ROWS, LONG = 64, 32768
"""Rows that fill a chip, a block each, and the longest of fewer that are no more than launches."""
PART = 8192
"""Elements of a part of a long row."""


def scanned(c: Lowering, monoid: str, values: Sequence[SSAValue], dim: int) -> list[SSAValue]:
    """
    At each point the fold of the elements along `dim` up to it. Few long rows are taken in parts,
    which are scanned as rows are, the first element of each with all parts before it; one whose
    length is a size is taken whole.
    """
    shape = list(shape_of(values[0]))
    few = isinstance(shape[dim], int) and shape[dim] > LONG and _rows(c, shape, dim) < ROWS
    if not few:
        return _scan(c, monoid, values, dim)
    n, parts = shape[dim], -(-shape[dim] // PART)
    given = list(zip(values, identities(monoid, [element_of(v) for v in values]), strict=True))
    whole = [*shape[:dim], parts, PART, *shape[dim + 1 :]]
    axes = dims(len(whole))
    part, within = axes[dim], axes[dim + 1]
    point = [*axes[:dim], part * PART + within, *axes[dim + 2 :]]
    inside = [fixed(n - 1) - point[dim]] if n % PART else []
    split = [c.move(v, point, whole, inside, fill if inside else None) for v, fill in given]
    totals = scanned(c, monoid, folded(c, monoid, [dim + 1], split, "total"), dim)
    last = [*axes[:dim], part - 1, *axes[dim + 2 :]]
    before = [
        c.move(total, last, whole, [part - 1, fixed(0) - within], fill)
        for total, (_, fill) in zip(totals, given, strict=True)
    ]
    count = len(values)

    def joined(number: int) -> SSAValue:
        def function(*scalars: Scalar) -> Scalar:
            return combined(monoid, scalars[:count], scalars[count:])[number]

        return c.elementwise(function, *before, *split, shape=whole, hint="seeded")

    prefixes = _scan(c, monoid, [joined(number) for number in range(count)], dim + 1)
    axes = dims(len(shape))
    at = [*axes[:dim], axes[dim] // PART, axes[dim] % PART, *axes[dim + 1 :]]
    return [c.move(v, at, shape) for v in prefixes]


def _rows(c: Lowering, shape: Sequence[int], dim: int) -> int:
    """The rows of a shape along a dimension, at least those of the smallest sizes."""
    return prod(int(c.bounds(n)[0]) for d, n in enumerate(shape) if d != dim)


def _scan(c: Lowering, monoid: str, values: Sequence[SSAValue], dim: int) -> list[SSAValue]:
    return list(c.insert(ScanOp(monoid, dim, values), "prefix").owner.results)  # pyright: ignore[reportAttributeAccessIssue]


def running(monoid: str) -> Callable[[Lowering], Lowered]:
    def decomposition(c: Lowering) -> Lowered:
        value = as_element(c, c.tensor(), c.element)
        if not shape_of(value):
            return c.cast(value, c.element, c.hint)
        dim = c.dim(len(shape_of(value)))
        return c.cast(scanned(c, monoid, [value], dim)[0], c.element, c.hint)

    return decomposition


lower("cumsum")(running("add"))
lower("cumprod")(running("mul"))
lower("logcumsumexp")(running("logaddexp"))


def running_extreme(extreme: str) -> Callable[[Lowering], Lowered]:
    """The best element so far and the last index where it is."""

    def decomposition(c: Lowering) -> Lowered:
        value = c.tensor()
        shape = shape_of(value)
        if not shape:
            return [value, c.constant(0, (), i64)]
        dim = c.dim(len(shape))
        if not c.op.results[1].uses:
            (best,) = scanned(c, extreme, [c.wide(value)], dim)
            return [c.cast(best, c.element, c.hint), c.constant(0, shape, i64)]
        given = [c.wide(value), c.iota(dim, shape)]
        best, place = scanned(c, f"arg{extreme}_last", given, dim)
        return [c.cast(best, c.element, c.hint), place]

    return decomposition


lower("cummax")(running_extreme("max"))
lower("cummin")(running_extreme("min"))


@lower("masked_scatter")
def masked_scatter(c: Lowering) -> Lowered:
    """The n-th element of the source goes to the n-th place where the mask is true."""
    size = [prod(c.shape)]
    source = c.reshape(c.tensor("source"), [prod(shape_of(c.tensor("source")))])
    if not size[0] or not shape_of(source)[0]:
        return c.tensor()
    mask = c.broadcast(c.tensor("mask"), c.shape)
    counts = c.elementwise(lambda m: m.to(i64), mask, hint="count")
    so_far = scanned(c, "add", [c.reshape(counts, size)], 0)[0]
    index = c.elementwise(lambda n, own: n - own, so_far, c.reshape(counts, size), shape=size)
    found = gathered(c, source, [c.reshape(index, c.shape)], [dimension(len(c.shape))])
    return c.elementwise(lambda m, x, y: m.select(x, y), mask, found, c.tensor())
