"""Sorting along an axis, and what is found by order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, prod

from xdsl.dialects.builtin import AnyFloat, bf16, f16, f64, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.tensor_ir import IotaOp, SortOp
from dlc.ir.sizes import Size
from dlc.schedule import orders
from dlc.schedule.rows import power_of_two
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar, is_unsigned, width

STEP_BITS = 8
"""The bits that a step of two searches by a block finds of each: 512 threads try a place each."""
HALF = 16
"""The bits of each half of a number of 32."""
LOW = 32
"""The bits of an index beside those of what it orders, in 64 bits."""


def ordering_pays(
    c: Lowering, n: int, lines: int, results: int, searches: int, bits: int, *, folds: bool
) -> bool:
    """
    True if to order each of some lines of `n` keys of so many bits, and to search them so often, is
    faster than to compare each of the results with `n` keys, and to fold what belongs to equal ones
    if `folds`. Lines as long as a size are not ordered, as that takes more steps the longer they
    are.
    """
    if isinstance(n, Size):
        return False
    lines, results, searches = map(c.likely, (lines, results, searches))
    return orders.ordering_pays(n, lines, results, searches, bits, c.target, folds=folds)


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


def key_of_half(x: Scalar, descending: bool) -> Scalar:
    """`key_of` of an f16, calculated in f32, in 16 bits: 2^-112 times it has the same ones."""
    limit = 2.0**-96
    x = x * 2.0**-112
    x = (x > limit).select(limit, (x < -limit).select(-limit, x))
    key = (key_of(x, descending=False) >> 13).minimum(2**15 - 1)
    return ~key if descending else key


def key_bits(element: Attribute) -> int:
    """The bits of a key of a type, the sign among them; those below are zeros in a wider one."""
    if isinstance(element, AnyFloat):
        return 64 if element == f64 else 16 if element in (bf16, f16) else 32
    return 2 if element == i1 else 9 if is_unsigned(element) else width(element)


def in_order(
    c: Lowering, value: SSAValue, dim: int, count: int, descending: bool, bits: int | None = None
) -> SSAValue:
    """
    The indices along `dim` of the first `count` elements in order, equal ones as they stand. If
    `bits` are given, elements are integers of no more, the sign among them.
    """
    shape = list(shape_of(value))
    rows, n = [*shape[:dim], *shape[dim + 1 :]], shape[dim]
    rank, element = len(rows), element_of(value)
    key = key_of_half if element == f16 else key_of
    keys = c.elementwise(lambda x: key(x, descending), c.wide(value), shape=shape, hint="key")
    keys = c.move(keys, [*dims(dim), dimension(rank), *dims(rank)[dim:]], [*rows, n])
    least = key_bits(element) if bits is None else bits
    order = orders.Order("counted", 0)
    if not isinstance(n, Size):
        order = orders.fastest_order(n, count, c.likely(prod(rows)), least, c.target)
    kind = _Keys(least, 32 - least if element == bf16 else 0)
    first, mask = _first(c, keys, c.iota(rank, [*rows, n]), n, count, kind, order)
    shape[dim] = count
    subscripts = [*dims(rank + 1)[:dim], *dims(rank + 1)[dim + 1 :], dimension(dim)]
    first = c.move(first, subscripts, shape)
    return c.elementwise(lambda x: (x & mask).to(i64), first, shape=shape, hint="index")


@dataclass(frozen=True)
class _Keys:
    """Integers: the bits that say what they are, and the unused ones below."""

    bits: int
    unused: int


def _first(
    c: Lowering,
    keys: SSAValue,
    numbers: SSAValue,
    limit: int,
    count: int,
    kind: _Keys,
    order: orders.Order,
) -> tuple[SSAValue, int]:
    """
    The numbers of the first `count` keys of each line in order, of equal ones the least first, and
    a mask: numbers are in its bits. What is numbered `limit` or more is no key.

    A key and its number are one number where they fit into one, else two, which are sorted
    together.
    """
    if order.way == "groups":
        return _first_of_groups(c, keys, limit, count, kind, order)
    low = LOW
    if not isinstance(limit, Size) and kind.bits + (limit - 1).bit_length() <= 32:
        low = (limit - 1).bit_length()
    parts = _numbered(c, keys, numbers, limit, 0 if low == LOW else kind.unused, low)
    if order.way == "counted":
        parts = _counted(c, parts, count)
    else:
        parts = _sorts(c, parts, count, order, rising=isinstance(numbers.owner, IotaOp))
    return parts[-1], -1 if len(parts) > 1 else 2**low - 1


def _numbered(
    c: Lowering, keys: SSAValue, numbers: SSAValue, limit: int, unused: int, low: int
) -> list[SSAValue]:
    """
    Keys, but for the unused bits below, and their numbers, of so many bits, as one number each; or
    both, where there is no room. What is no key comes last.
    """
    shape, element = shape_of(keys), element_of(keys)
    every = isinstance(numbers.owner, IotaOp)
    within = i64 if low == LOW or element == i64 else i32

    def last(x: Scalar, number: Scalar) -> Scalar:
        return x if every else (number < limit).select(x, _most(within))

    def packed(x: Scalar, number: Scalar) -> Scalar:
        whole = ((x >> unused).to(within) << low) | number.to(within)
        return last(whole, number)

    if element != i64:
        return [c.elementwise(packed, keys, numbers, shape=shape, hint="numbered")]
    keys = keys if every else c.elementwise(last, keys, numbers, shape=shape, hint="key")
    return [keys, numbers]


def _first_of_groups(
    c: Lowering, keys: SSAValue, n: int, count: int, kind: _Keys, order: orders.Order
) -> tuple[SSAValue, int]:
    """The same of `n` keys, numbered as they stand: the first ones are in those `count` groups of
    neighbours whose least keys come first, of equal ones in the first groups."""
    assert order.first is not None
    assert order.then is not None
    rows, size = list(shape_of(keys))[:-1], order.size
    rank, groups = len(rows), ceil(n / size)
    at = dimension(rank) * size + dimension(rank + 1)
    inside = [fixed(n - 1) - at] if groups * size != n else []
    most = _most(element_of(keys)) if inside else None
    each = c.move(keys, [*dims(rank), at], [*rows, groups, size], inside, most)
    least = c.reduce("min", [rank + 1], each, hint="least")
    numbers = c.iota(rank, [*rows, groups])
    chosen, mask = _first(c, least, numbers, groups, count, kind, order.first)
    shape = [*rows, count * size]
    number = c.elementwise(
        lambda group, place: (group & mask).to(i64) * size + (place & (size - 1)),
        c.move(chosen, [*dims(rank), dimension(rank) // size], shape),
        c.iota(rank, shape),
        shape=shape,
        hint="number",
    )
    place = number
    if inside:
        place = c.elementwise(lambda i: i.minimum(n - 1), number, shape=shape, hint="place")
    found = gathered(c, keys, [place], [*dims(rank), dimension(rank + 1)], shape)
    return _first(c, found, number, n, count, kind, order.then)


def _sorts(
    c: Lowering, parts: list[SSAValue], count: int, order: orders.Order, *, rising: bool
) -> list[SSAValue]:
    """The first `count` of each line, by sorts of runs of it; numbers rise along a line or not."""
    *rows, n = shape_of(parts[0])
    rank, step = len(rows), order
    parts = [c.move(part, [*dims(rank), dimension(rank + 1)], [*rows, 1, n]) for part in parts]
    if order.way == "merges":
        parts = _sorted(c, parts, 1 << (ceil(n / order.size) - 1).bit_length(), count)
        while shape_of(parts[0])[-2] > 1:
            kept = min(2 * shape_of(parts[0])[-1], count)
            told = parts[:1] if rising else parts
            parts = _merged(c, parts, told, kept, power_of_two(min(order.size, kept)))
    else:
        while step is not None:
            total = prod(shape_of(parts[0])[-2:])
            parts = _sorted(c, parts, ceil(total / step.size), count)
            step = step.then
    return [c.move(p, [*dims(rank), fixed(0), dimension(rank)], [*rows, count]) for p in parts]


def _sorted(c: Lowering, parts: list[SSAValue], groups: int, count: int) -> list[SSAValue]:
    """
    Takes runs side by side, of which the last one may have less, as `groups` of them, and gives the
    first elements of each group in order, up to `count`.
    """
    *rows, runs, kept = shape_of(parts[0])
    rank, total = len(rows), runs * kept
    length = ceil(total / groups)
    points = power_of_two(length)
    group, within = dimension(rank), dimension(rank + 1)
    at = group * length + within
    inside = [fixed(length - 1) - within] if points != length else []
    inside += [fixed(total - 1) - at] if groups * length != total else []
    shape = [*rows, groups, points]
    subscripts = [*dims(rank), at // kept, at % kept]

    def dealt(part: SSAValue) -> SSAValue:
        most = 2**63 - 1 if element_of(part) == i64 else 2**31 - 1
        return c.move(part, subscripts, shape, inside, most if inside else None)

    op = SortOp(rank + 1, [dealt(part) for part in parts], min(count, length))
    c.insert(op, "run")
    return list(op.results)


def _counted(c: Lowering, parts: list[SSAValue], count: int) -> list[SSAValue]:
    """The first elements of each run along the last axis, by how many come before each."""
    shape = list(shape_of(parts[0]))
    rank = len(shape)
    square = [*shape, shape[-1]]
    own, other = dims(rank), [*dims(rank - 1), dimension(rank)]

    compared = c.elementwise(
        lambda *pairs: _before(*pairs).to(i32),
        *(c.move(part, at, square) for part in parts for at in (own, other)),
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


def _before(x: Scalar, y: Scalar, *numbers: Scalar) -> Scalar:
    """True where `y` comes before `x`, of equal ones that of the lesser number if they have one."""
    less = y < x
    for own, its in pairwise(numbers):
        less |= y.eq(x) & (its < own)
    return less


def _merged(
    c: Lowering, parts: list[SSAValue], told: list[SSAValue], count: int, tile: int
) -> list[SSAValue]:
    """
    The first elements of each pair of runs along the last axis, in order, a tile of them by each
    block: what it takes of the first run rises, and what it takes of the second one falls, where
    that is read from its end. Where `told`, some of the parts, are equal, the first run
    comes first.
    """
    *rows, runs, length = shape_of(parts[0])
    rank, both = len(rows), 2 * length
    tiles = ceil(count / tile)
    pairs = [*rows, runs // 2, both]
    taken = _splits(c, [c.reshape(part, pairs) for part in told], tile, tiles)
    parts = [c.reshape(part, pairs) for part in parts]
    shape = [*rows, runs // 2, tiles, tile]
    begin, end = (c.move(taken, [*dims(rank + 2), fixed(e)], shape) for e in (0, 1))

    def place(begin: Scalar, end: Scalar, number: Scalar, within: Scalar) -> Scalar:
        """Where an element is that a tile takes; -1 in the middle of a tile that is not full."""
        before = number * tile
        last = (before + tile).minimum(both) - end
        second = before - begin + (tile - 1 - within)
        other = (second < last).select(second + length, -1)
        return (within < end - begin).select(begin + within, other)

    numbers = c.iota(rank + 1, shape), c.iota(rank + 2, shape)
    at = _whole(c, place, begin, end, *numbers, most=both, shape=shape, hint="place")
    inside = _whole(
        c, lambda n: n.maximum(0).minimum(both - 1), at, most=both, shape=shape, hint="place"
    )
    dealt = [
        gathered(c, part, [inside], [*dims(rank + 1), dimension(rank + 3)], shape) for part in parts
    ]
    if tiles * tile > both:
        dealt = [
            c.elementwise(lambda n, x: (n < 0).select(_most(x.element), x), at, v, shape=shape)
            for v in dealt
        ]
    op = SortOp(rank + 2, dealt, tile, bitonic=True)
    c.insert(op, "run")
    shape = [*rows, runs // 2, tiles * tile]
    first = [*shape[:-1], count]
    return [c.move(c.reshape(r, shape), dims(rank + 2), first) for r in op.results]


def _splits(c: Lowering, parts: list[SSAValue], tile: int, tiles: int) -> SSAValue:
    """
    Of pairs of runs, which stand behind each other along the last axis: how many of the elements
    before each tile of what is in order are of the first run, and how many of those before its end.

    That is found by searches along diagonals (Green, McColl, Bader, "GPU merge path", ICS 2012): so
    no tile waits for another. A step of both compares at as many places at once as a block has
    threads, or less: how many are passed is a half of one number each.
    """
    *rows, both = shape_of(parts[0])
    rank, length = len(rows), both // 2
    ends, bits = [*rows, tiles, 2], length.bit_length()
    each = ceil(bits / ceil(bits / STEP_BITS))
    tried = [*ends, 2**each]
    place = _whole(
        c,
        lambda n, end: ((n + end) * tile).minimum(both),
        c.iota(rank, ends),
        c.iota(rank + 1, ends),
        most=both,
        shape=ends,
        hint="place",
    )
    taken = _whole(c, lambda p: (p - length).maximum(0), place, most=both, shape=ends, hint="taken")
    wide, end, way = c.spread(place, [rank + 2], tried), *(c.iota(rank + n, tried) for n in (1, 2))
    for shift in range(bits - each, -each, -each):
        step = 2 ** max(shift, 0)
        at = _whole(
            c,
            lambda t, n, step=step: t + n * step + (step - 1),
            c.spread(taken, [rank + 2], tried),
            way,
            most=both,
            shape=tried,
            hint="at",
        )
        first = _whole(
            c, lambda t: t.maximum(0).minimum(length - 1), at, most=both, shape=tried, hint="first"
        )
        second = _whole(
            c,
            lambda t, p: (p - t - 1).maximum(0).minimum(length - 1) + length,
            at,
            wide,
            most=both,
            shape=tried,
            hint="second",
        )
        tested = [
            gathered(c, part, [n], [*dims(rank), dimension(rank + 3)], tried)
            for part in parts
            for n in (first, second)
        ]
        passed = c.elementwise(
            lambda t, p, e, *tested: (
                ((t < p.minimum(length)) & ~_before(*tested)).to(i32) << (e.to(i32) * HALF)
            ),
            at,
            wide,
            end,
            *tested,
            shape=tried,
            hint="passed",
        )
        passed = c.reduce("add", [rank + 1, rank + 2], passed, hint="passed")
        taken = _whole(
            c,
            lambda t, e, n, step=step: t + ((n >> e * HALF) & (2**HALF - 1)) * step,
            taken,
            c.iota(rank + 1, ends),
            c.spread(passed, [rank + 1], ends),
            most=both,
            shape=ends,
            hint="taken",
        )
    return taken


def _most(element: Attribute) -> int:
    """The largest number of a type."""
    return 2**63 - 1 if element == i64 else 2**31 - 1


def _whole(
    c: Lowering,
    function: Callable[..., Scalar],
    *inputs: SSAValue,
    most: int,
    shape: Sequence[int],
    hint: str,
) -> SSAValue:
    """A function of numbers up to `most` or some times it, which 32 bits have room for or not."""
    within = i32 if most < 2**29 else i64
    return c.elementwise(
        lambda *scalars: function(*(x.to(within) for x in scalars)).to(i64),
        *inputs,
        shape=shape,
        hint=hint,
    )


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
