"""Scans along an axis: running sums, products, extremes, and what is numbered by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.tensor_ir import ScanOp
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.folds import combined, folded, identities
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.reductions import as_element, log_of_sum
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar

CHUNK = 8
"""
The elements that are folded anew for each prefix within a chunk: as many floats as a sector of
memory has. Fewer make more levels, thus launches; more make each element more work.
"""
SHORT = 64
"""The longest axis that is a single chunk."""

Scalars = Sequence[Scalar]


@dataclass(frozen=True)
class Scan:
    """What a scan folds with: a monoid, or what is one by its parts."""

    identities: Callable[[Sequence[Attribute]], list[Number]]
    """Of element types: what changes nothing that it is combined with."""
    fold: Callable[[Lowering, Sequence[SSAValue], int, str], list[SSAValue]]
    """The folds of tensors over an axis, under a name."""
    combine: Callable[[Scalars, Scalars], Scalars]

    @staticmethod
    def of(monoid: str) -> Scan:
        return Scan(
            lambda elements: identities(monoid, elements),
            lambda c, values, axis, hint: folded(c, monoid, [axis], values, hint),
            lambda left, right: combined(monoid, left, right),
        )


def prefixes(
    c: Lowering, scan: Scan, values: Sequence[SSAValue], dim: int, *, exclusive: bool = False
) -> list[SSAValue]:
    """
    At each point the fold of the elements along `dim` up to it, without its own if `exclusive`.

    An axis is folded in chunks; a prefix is the fold of a part of its chunk, and that of the
    chunks before, which are prefixes of a shorter axis. So n elements take at most
    `CHUNK * n` combinations at each of `log(n) / log(CHUNK)` levels, all of them independent.
    """
    shape, n = list(shape_of(values[0])), shape_of(values[0])[dim]
    fills = scan.identities([element_of(v) for v in values])
    given = list(zip(values, fills, strict=True))
    chunk = n if n <= SHORT else CHUNK
    axes = dims(len(shape) + 1)
    own, k = axes[dim], axes[-1]
    first = (own // chunk) * chunk if chunk < n else fixed(0)
    within = own % chunk if chunk < n else own
    source = axes[:-1]
    source[dim] = first + k
    upto = [within - k - 1 if exclusive else within - k]
    read = [c.move(v, source, [*shape, chunk], upto, fill) for v, fill in given]
    inside = scan.fold(c, read, len(shape), "prefix")
    if chunk == n:
        return inside
    chunks = -(-n // chunk)
    parts = [*shape[:dim], chunks, chunk, *shape[dim + 1 :]]
    point = axes[dim] * chunk + axes[dim + 1]
    whole = [fixed(n - 1) - point] if n % chunk else []
    place = [*axes[:dim], point, *axes[dim + 2 :]]
    split = [c.move(v, place, parts, whole, fill if whole else None) for v, fill in given]
    folds = scan.fold(c, split, dim + 1, "chunk")
    before = prefixes(c, scan, folds, dim, exclusive=True)
    place = dims(len(shape))
    place[dim] = place[dim] // chunk
    before = [c.move(v, place, shape) for v in before]
    count = len(values)

    def joined(number: int) -> SSAValue:
        def function(*scalars: Scalar) -> Scalar:
            return scan.combine(scalars[:count], scalars[count:])[number]

        return c.elementwise(function, *before, *inside, shape=shape, hint="prefix")

    return [joined(number) for number in range(count)]


def scanned(c: Lowering, monoid: str, values: Sequence[SSAValue], dim: int) -> list[SSAValue]:
    """At each point the fold of the elements along `dim` up to it."""
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


def running_extreme(monoid: str) -> Callable[[Lowering], Lowered]:
    """The best element so far and the last index where it is."""

    def decomposition(c: Lowering) -> Lowered:
        value = c.tensor()
        shape = shape_of(value)
        if not shape:
            return [value, c.constant(0, (), i64)]
        dim = c.dim(len(shape))
        # The monoid prefers small indices, so they are counted backwards.
        places = c.elementwise(lambda i: -i, c.iota(dim, shape), shape=shape, hint="place")
        best, place = scanned(c, monoid, [c.wide(value), places], dim)
        index = c.elementwise(lambda i: -i, place, shape=shape)
        return [c.cast(best, c.element, c.hint), index]

    return decomposition


lower("cummax")(running_extreme("argmax"))
lower("cummin")(running_extreme("argmin"))


def log_add(x: Scalar, y: Scalar) -> Scalar:
    """log(exp(x) + exp(y)), where neither has to be a finite number."""
    largest = x.maximum(y)
    total = largest + s.log1p(s.exp(x.minimum(y) - largest))
    return largest.abs().eq(inf).select(largest, total)


LOG_SUM = Scan(
    lambda elements: [-inf] * len(elements),
    lambda c, values, axis, hint: [log_of_sum(c, values[0], [axis], hint)],
    lambda left, right: [log_add(left[0], right[0])],
)


@lower("logcumsumexp")
def logcumsumexp(c: Lowering) -> Lowered:
    value = as_element(c, c.tensor(), c.element)
    if not shape_of(value):
        return c.cast(value, c.element, c.hint)
    dim = c.dim(len(shape_of(value)))
    return c.cast(prefixes(c, LOG_SUM, [value], dim)[0], c.element, c.hint)


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
