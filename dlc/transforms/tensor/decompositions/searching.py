"""Places of values in a sorted sequence, membership, and how many values fall into each bin."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.transforms.tensor.decompositions import scalar as s
from dlc.transforms.tensor.decompositions.builder import dimension, dims
from dlc.transforms.tensor.decompositions.exact_sums import added_at, adding_pays
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.ordering import in_order, key_bits, ordering_pays
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.searching_steps import searched, searching_pays
from dlc.transforms.tensor.decompositions.types import promote


def given(c: Lowering, name: str) -> SSAValue:
    """A tensor, also where the program has a number in its place."""
    value = c.operand(name)
    if isinstance(value, SSAValue):
        return value
    return c.constant(value, (), promote([value]))


def compared(c: Lowering, *values: SSAValue) -> list[SSAValue]:
    """Tensors in the type that they are compared in."""
    within = promote(values)
    return [c.wide(c.cast(v, within)) for v in values]


def places(c: Lowering, sequence: SSAValue, values: SSAValue, after: bool) -> Lowered:
    """
    The number of elements of the last axis of a sorted sequence that are less than each value, or
    no greater if `after`: all of them for NaN.
    """
    sequence, values = compared(c, sequence, values)
    n, rank = shape_of(sequence)[-1], len(c.shape)
    row = dims(rank - 1) if len(shape_of(sequence)) > 1 else []

    def below(e: Scalar, v: Scalar) -> Scalar:
        return v.is_nan() | ((e <= v) if after else (e < v))

    if searching_pays(c, n):
        found = searched(c, sequence, row, c.broadcast(values, c.shape), below, c.shape)
        return c.cast(found, c.element, c.hint)
    square = [*c.shape, n]
    counted = c.elementwise(
        lambda e, v: below(e, v).to(i64),
        c.move(sequence, [*row, dimension(rank)], square),
        c.move(values, dims(rank), square),
        shape=square,
        hint="below",
    )
    return c.cast(c.reduce("add", [rank], counted, hint="place"), c.element, c.hint)


@lower("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(c: Lowering) -> Lowered:
    sequence = c.tensor("sorted_sequence")
    side = c.op.argument("side")
    after = c.flag("right") if side is None else side == "right"
    if (order := c.op.operand("sorter")) is not None:
        shape = shape_of(sequence)
        at = [*dims(len(shape) - 1), dimension(len(shape))]
        sequence = gathered(c, sequence, [order], at, shape)
    return places(c, sequence, given(c, "self"), after)


@lower("bucketize.Tensor", "bucketize.Scalar")
def bucketize(c: Lowering) -> Lowered:
    return places(c, c.tensor("boundaries"), given(c, "self"), c.flag("right"))


@lower("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(c: Lowering) -> Lowered:
    kind = c.op.overload.data
    elements = given(c, "element" if "Scalar_Tensor" in kind else "elements")
    tests = given(c, "test_element" if "Tensor_Scalar" in kind else "test_elements")
    inverted = c.flag("invert")
    elements, tests = compared(c, elements, c.reshape(tests, [prod(shape_of(tests))]))
    rank, count = len(c.shape), shape_of(tests)[0]
    results = prod(c.shape)
    if ordering_pays(c, count, 1, results, results, key_bits(element_of(tests)), folds=False):
        order = in_order(c, tests, 0, count, descending=False)
        tests = gathered(c, tests, [order], [dimension(1)], [count])
        elements = c.broadcast(elements, c.shape)
        place = searched(c, tests, [], elements, lambda e, v: e < v, c.shape)
        place = c.elementwise(lambda n: n.minimum(count - 1), place, hint="place")
        nearest = gathered(c, tests, [place], [dimension(rank)])
        return c.elementwise(
            lambda x, y: x.ne(y) if inverted else x.eq(y), elements, nearest, element=i1
        )
    square = [*c.shape, count]
    equal = c.elementwise(
        lambda x, y: x.eq(y),
        c.move(elements, dims(rank), square),
        c.move(tests, [dimension(rank)], square),
        shape=square,
        hint="equal",
    )
    found = c.reduce("or", [rank], equal, hint="found")
    return c.elementwise(lambda x: ~x if inverted else x, found, element=i1)


@lower("histc")
def histc(c: Lowering) -> Lowered:
    """The bins divide the range evenly, its end belongs to the last one; NaN is in none."""
    value = c.wide(c.reshape(c.tensor(), [prod(shape_of(c.tensor()))]))
    bins, element, (count,) = c.integer("bins", 100), element_of(value), shape_of(value)
    low, high = c.number("min", 0), c.number("max", 0)
    ends = [c.constant(end, (), element) for end in (low, high)]
    if low == high and count:
        ends = [c.reduce(monoid, [0], value, hint=monoid) for monoid in ("min", "max")]

    def bin_of(x: Scalar, first: Scalar, last: Scalar) -> Scalar:
        even = first.eq(last).to(element)
        first, last = first - even, last + even
        at = s.trunc((x - first) * bins / (last - first)).minimum(bins - 1)
        return ((at >= 0) & (x >= first) & (x <= last)).select(at, -1)

    one = c.constant(1, [count], i32 if c.bounds(count)[1] < 2**31 else i64)
    if adding_pays(c, one, count, bins, count):
        place = c.elementwise(
            lambda *scalars: bin_of(*scalars).to(i64),
            value,
            *(c.broadcast(end, [count]) for end in ends),
            shape=[count],
            hint="bin",
        )
        counts = added_at(c, one, [place], [dimension(1)], [bins])
        return c.pointwise_wide(lambda n: n, counts)
    square = [bins, count]
    counted = c.elementwise(
        lambda x, first, last, place: bin_of(x, first, last).eq(place.to(element)).to(element),
        c.move(value, [dimension(1)], square),
        *(c.broadcast(end, square) for end in ends),
        c.iota(0, square),
        shape=square,
        hint="inside",
    )
    return c.cast(c.reduce("add", [1], counted, hint="count"), c.element, c.hint)
