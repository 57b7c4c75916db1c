"""Sorting along an axis, and what is found by order."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from xdsl.dialects.builtin import f64, i32, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.sizes import Size
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.searching_steps import STEP, strides

LEAST_RUN = 16
"""The elements of a run, or half as many, that are ordered by counting those before each: to count
two more for each of many elements takes an eighth of what a merge of all of them does."""
COUNTED = 2**21
"""The comparisons that take no longer than the launch of a kernel that merges: as long as there are
no more of them, runs are longer."""
LOW = 32
"""The bits of an index beside those of what it orders."""


def ordering_pays(c: Lowering, n: int, lines: int, results: int) -> bool:
    """
    True if to order each of some lines of `n` elements, and to search them for each of the results,
    is faster than to compare each result with `n` elements: a step of a search takes as long as
    `STEP` comparisons, one of a merge twice as long, and both are launches. Lines as long as a size
    are not ordered, as that takes more steps the longer they are.
    """
    if isinstance(n, Size):
        return False
    lines, results, steps = c.likely(lines), c.likely(results), n.bit_length()
    return results * n > steps * (STEP * (2 * lines * n + results) + 2 * COUNTED)


def key_of(x: Scalar, descending: bool) -> Scalar:
    """An integer that is ordered as `x` is: NaN is the largest number, and zeros are equal."""
    if x.is_float:
        wide = i64 if x.element == f64 else i32
        most = 2**63 - 1 if wide == i64 else 2**31 - 1
        bits = x.bits_as(wide)
        bits = (bits < 0).select(bits ^ most, bits)
        key = x.is_nan().select(most, x.eq(0).select(0, bits))
    else:
        key = x if x.element == i64 else x.to(i32)
    return ~key if descending else key


def in_order(c: Lowering, value: SSAValue, dim: int, count: int, descending: bool) -> SSAValue:
    """
    The indices along `dim` of the first `count` elements in order, equal ones as they stand.

    Short runs are ordered by counting, then merged in pairs, of which no more than `count` elements
    are kept. Elements with an index fit into one number if their keys have 32 bits; others are two.
    """
    shape = list(shape_of(value))
    rows, n = [*shape[:dim], *shape[dim + 1 :]], shape[dim]
    levels, length = 0, n
    if not isinstance(n, Size):
        longest = max(LEAST_RUN, COUNTED // max(1, c.likely(prod(shape))))
        levels = (ceil(n / longest) - 1).bit_length()
        length = ceil(n / 2**levels)
    rank = len(rows)
    runs = [*rows, 2**levels, length]
    keys = c.elementwise(lambda x: key_of(x, descending), c.wide(value), shape=shape, hint="key")
    place = dimension(rank) * length + dimension(rank + 1) if levels else dimension(rank + 1)
    subscripts = [*dims(dim), place, *dims(rank)[dim:]]
    inside = [fixed(n - 1) - place] if 2**levels * length != n else []
    most = 2**63 - 1 if element_of(keys) == i64 else 2**31 - 1
    keys = c.move(keys, subscripts, runs, inside, most if inside else None)
    numbers = c.move(c.iota(0, [2**levels * length]), [place], runs)
    if element_of(keys) == i64:
        parts = [keys, numbers]
    else:
        packed = c.elementwise(
            lambda x, i: (x.to(i64) << LOW) | i, keys, numbers, shape=runs, hint="numbered"
        )
        parts = [packed]
    parts = _counted(c, parts, min(length, count) if levels else count)
    for _ in range(levels):
        parts = _merged(c, parts, min(2 * shape_of(parts[0])[-1], count))
    shape[dim] = count
    order = [dimension(d) for d in range(len(shape)) if d != dim]
    index = c.move(parts[-1], [*order, fixed(0), dimension(dim)], shape)
    if len(parts) > 1:
        return index
    return c.elementwise(lambda x: x & (2**LOW - 1), index, shape=shape, hint="index")


def _counted(c: Lowering, parts: list[SSAValue], count: int) -> list[SSAValue]:
    """The first elements of each run along the last axis, by how many come before each."""
    shape = list(shape_of(parts[0]))
    rank = len(shape)
    square = [*shape, shape[-1]]
    own, other = dims(rank), [*dims(rank - 1), dimension(rank)]

    def before(x: Scalar, y: Scalar, i: Scalar, j: Scalar) -> Scalar:
        return ((y < x) | (y.eq(x) & (j < i)) if len(parts) > 1 else y < x).to(i32)

    compared = c.elementwise(
        before,
        c.move(parts[0], own, square),
        c.move(parts[0], other, square),
        c.iota(rank - 1, square),
        c.iota(rank, square),
        shape=square,
        hint="before",
    )
    ranks = c.reduce("add", [rank], compared, hint="rank")
    square[-2] = count

    def of_place(part: SSAValue) -> SSAValue:
        found = c.elementwise(
            lambda r, place, x: r.eq(place.to(i32)).select(x, 0),
            c.move(ranks, other, square),
            c.iota(rank - 1, square),
            c.move(part, other, square),
            shape=square,
            hint="found",
        )
        return c.reduce("add", [rank], found, hint="run")

    return [of_place(part) for part in parts]


def _merged(c: Lowering, parts: list[SSAValue], count: int) -> list[SSAValue]:
    """
    The first elements of each pair of runs along the last axis, in order.

    How many of the first `p` elements are from the first run is found by binary search along their
    diagonal (Green, McColl, Bader, "GPU merge path", ICS 2012): so no element waits for another.
    """
    *rows, runs, length = shape_of(parts[0])
    rank = len(rows)
    shape = [*rows, runs // 2, count]
    place = c.iota(rank + 1, shape)
    pair, found = dimension(rank), dimension(rank + 2)

    def computed(function: Callable[..., Scalar], *inputs: SSAValue, hint: str) -> SSAValue:
        """A function of numbers, which are calculated in 32 bits where they fit."""
        narrow = i64 if runs * length >= 2**31 else i32
        return c.elementwise(
            lambda *scalars: function(*(x.to(narrow) for x in scalars)).to(i64),
            *inputs,
            shape=shape,
            hint=hint,
        )

    def first(part: SSAValue, index: SSAValue) -> SSAValue:
        return gathered(c, part, [index], [*dims(rank), pair * 2, found], shape)

    def second(part: SSAValue, index: SSAValue) -> SSAValue:
        return gathered(c, part, [index], [*dims(rank), pair * 2 + 1, found], shape)

    taken = computed(lambda p: (p - length).maximum(0), place, hint="taken")
    for stride in strides(length):
        # One more than those that are tried to be taken is never read: of none, none are taken.
        last = computed(
            lambda t, p, stride=stride: (t + stride).minimum(p).minimum(length).maximum(1) - 1,
            taken,
            place,
            hint="last",
        )
        beside = computed(lambda n, p: (p - n - 1).maximum(0), last, place, hint="beside")
        x, y = first(parts[0], last), second(parts[0], beside)
        taken = c.elementwise(
            lambda t, n, x, y: (y < x).select(t, n + 1),
            taken,
            last,
            x,
            y,
            shape=shape,
            hint="taken",
        )
    taken = computed(lambda t, p: t.minimum(p), taken, place, hint="taken")
    ends = [
        computed(lambda t: t.minimum(length - 1), taken, hint="first"),
        computed(lambda t, p: (p - t).minimum(length - 1), taken, place, hint="second"),
    ]
    x, y = first(parts[0], ends[0]), second(parts[0], ends[1])

    def chosen(t: Scalar, p: Scalar, x: Scalar, y: Scalar, one: Scalar, other: Scalar) -> Scalar:
        return ((p - t >= length) | ((t < length) & ~(y < x))).select(one, other)

    def of(one: SSAValue, other: SSAValue) -> SSAValue:
        return c.elementwise(chosen, taken, place, x, y, one, other, shape=shape, hint="run")

    if len(parts) == 1:
        return [of(x, y)]
    which = of(ends[0], c.elementwise(lambda n: ~n, ends[1], shape=shape, hint="second"))
    index = c.elementwise(lambda n: (n < 0).select(~n, n), which, shape=shape, hint="index")
    run = c.elementwise(lambda n: (n < 0).select(n.of(1), n.of(0)), which, shape=shape, hint="of")
    row, at = dimension(rank + 2), dimension(rank + 3)
    return [gathered(c, p, [run, index], [*dims(rank), pair * 2 + row, at], shape) for p in parts]


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
