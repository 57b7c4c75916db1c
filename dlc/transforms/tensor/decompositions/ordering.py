"""Scans and sorts along an axis: running sums and products, sorting."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.dialects.tensor_ir import element_of
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.reductions import as_element
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar

CHUNK = 32
"""The elements that are folded anew for each prefix within a chunk."""
SHORT = 64
"""The longest axis that is a single chunk."""

COMBINED: dict[str, tuple[Number, Callable[[Scalar, Scalar], Scalar]]] = {
    "add": (0, lambda x, y: x + y),
    "mul": (1, lambda x, y: x * y),
}
"""The identities of monoids, and how they combine."""


def prefixes(
    c: Lowering, monoid: str, value: SSAValue, dim: int, *, exclusive: bool = False
) -> SSAValue:
    """
    At each point the fold of the elements along `dim` up to it, without its own if `exclusive`.

    An axis is folded in chunks; a prefix is the fold of a part of its chunk, and that of the
    chunks before, which are prefixes of a shorter axis. So n elements take at most
    `CHUNK * n` combinations at each of `log(n) / log(CHUNK)` levels, all of them independent.
    """
    shape, n = list(shape_of(value)), shape_of(value)[dim]
    identity, combine = COMBINED[monoid]
    chunk = n if n <= SHORT else CHUNK
    axes = dims(len(shape) + 1)
    own, k = axes[dim], axes[-1]
    first = (own // chunk) * chunk if chunk < n else fixed(0)
    within = own % chunk if chunk < n else own
    source = axes[:-1]
    source[dim] = first + k
    upto = [within - k - 1 if exclusive else within - k]
    read = c.move(value, source, [*shape, chunk], upto, identity)
    inside = c.reduce(monoid, [len(shape)], read, hint="prefix")
    if chunk == n:
        return inside
    chunks = -(-n // chunk)
    parts = [*shape[:dim], chunks, chunk, *shape[dim + 1 :]]
    point = axes[dim] * chunk + axes[dim + 1]
    whole = [fixed(n - 1) - point] if n % chunk else []
    split = c.move(
        value, [*axes[:dim], point, *axes[dim + 2 :]], parts, whole, identity if whole else None
    )
    folds = c.reduce(monoid, [dim + 1], split, hint="chunk")
    before = prefixes(c, monoid, folds, dim, exclusive=True)
    place = dims(len(shape))
    place[dim] = place[dim] // chunk
    before = c.move(before, place, shape)
    return c.elementwise(combine, before, inside, shape=shape, hint="prefix")


def running(monoid: str) -> Callable[[Lowering], Lowered]:
    def decomposition(c: Lowering) -> Lowered:
        value = as_element(c, c.tensor(), c.element)
        if not shape_of(value):
            return c.cast(value, c.element, c.hint)
        dim = c.dim(len(shape_of(value)))
        return c.cast(prefixes(c, monoid, value, dim), c.element, c.hint)

    return decomposition


lower("cumsum")(running("add"))
lower("cumprod")(running("mul"))


@lower("masked_scatter")
def masked_scatter(c: Lowering) -> Lowered:
    """The n-th element of the source goes to the n-th place where the mask is true."""
    size = [prod(c.shape)]
    source = c.reshape(c.tensor("source"), [prod(shape_of(c.tensor("source")))])
    if not size[0] or not shape_of(source)[0]:
        return c.tensor()
    mask = c.broadcast(c.tensor("mask"), c.shape)
    counts = c.elementwise(lambda m: m.to(i64), mask, hint="count")
    index = prefixes(c, "add", c.reshape(counts, size), 0, exclusive=True)
    found = gathered(c, source, [c.reshape(index, c.shape)], [dimension(len(c.shape))])
    return c.elementwise(lambda m, x, y: m.select(x, y), mask, found, c.tensor())


def precedes(x: Scalar, y: Scalar, descending: bool) -> Scalar:
    """True where x comes before y; NaN is the largest number."""
    if x.element == i1:
        x, y = x.to(i64), y.to(i64)
    if descending:
        return (x.is_nan() & ~y.is_nan()) | (x > y) if x.is_float else x > y
    return (y.is_nan() & ~x.is_nan()) | (x < y) if x.is_float else x < y


def in_order(c: Lowering, value: SSAValue, dim: int, count: int, descending: bool) -> SSAValue:
    """
    The indices along `dim` of the first `count` elements in order, equal ones as they stand.

    The rank of an element is the number of those before it, an index is found by its rank: n**2
    comparisons for n elements, of which none waits for another.
    """
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
    ranks = c.reduce("add", [rank], compared, hint="rank")
    square[dim] = count
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
