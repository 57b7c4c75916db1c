"""
Updates by the place that they hit: in the order of places, those of one stand side by side, and are
found by binary search. So a place folds what hits it, and looks at nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size
from dlc.transforms.tensor.decompositions.builder import Exprs, dimension, dims
from dlc.transforms.tensor.decompositions.folds import combine, identity
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowering
from dlc.transforms.tensor.decompositions.ordering import in_order
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.searching_steps import searched

SHIFT = 2
FAN = 1 << SHIFT
"""The rows that one of the next level folds. A run of rows has fewer at each of its ends."""


@dataclass(frozen=True)
class Groups:
    """The updates of places 0, 1, …, of each line."""

    order: SSAValue
    """The numbers of updates, [*lines, updates]; those of a place as they stand."""
    first: SSAValue
    """Where the updates of a place begin in that order, [*lines, places], as i64."""
    last: SSAValue
    """Where they end, which is where they begin if there are none."""

    def over(self, c: Lowering, subscripts: Exprs, shape: Sequence[int]) -> Groups:
        """First and last where a tensor of a shape has its places."""
        first, last = (c.move(v, subscripts, shape) for v in (self.first, self.last))
        return Groups(self.order, first, last)

    def folded(
        self, c: Lowering, values: SSAValue, axis: int, rest: Exprs, monoid: str
    ) -> SSAValue:
        """
        The folds of updates, which stand along `axis` of `values`: its other dimensions are those
        of lines, if there are any, and `rest` are its other subscripts.
        """
        shape = shape_of(values)
        along = dims(len(shape))
        update = along.pop(axis)
        lines = along if len(shape_of(self.order)) > 1 else []
        index = c.move(self.order, [*lines, update], shape)
        along.insert(axis, dimension(len(shape)))
        rows = gathered(c, values, [index], along, shape)
        return folded_run(c, rows, axis, self.first, self.last, rest, monoid)

    def latest(self, c: Lowering, lines: Exprs) -> SSAValue:
        """The last update of each place, or -1."""
        shape = shape_of(self.last)
        place = c.elementwise(lambda n: (n - 1).maximum(0), self.last, shape=shape, hint="place")
        update = gathered(c, self.order, [place], [*lines, dimension(len(shape))], shape)
        return c.elementwise(
            lambda a, b, u: (a < b).select(u, -1),
            self.first,
            self.last,
            update,
            shape=shape,
            hint="latest",
        )

    def counts(self, c: Lowering) -> SSAValue:
        shape = shape_of(self.last)
        return c.elementwise(lambda a, b: b - a, self.first, self.last, shape=shape, hint="count")


def grouped(c: Lowering, places: SSAValue, count: int) -> Groups:
    """
    Updates whose places stand along the last axis, [*lines, updates]. There are `count` places;
    what hits none of them is left out.
    """
    *lines, updates = shape_of(places)
    rank, shape = len(lines), [*lines, count + 1]
    narrow = i32 if count < 2**31 else i64
    keys = c.elementwise(
        lambda p: ((p < 0) | (p >= count)).select(count, p).to(narrow),
        places,
        shape=shape_of(places),
        hint="key",
    )
    bits = None if isinstance(count, Size) else count.bit_length() + 1
    order = in_order(c, keys, rank, updates, descending=False, bits=bits)
    at = [*dims(rank), dimension(rank + 1)]
    ordered = gathered(c, keys, [order], at, shape_of(places))
    place = c.cast(c.iota(rank, shape), narrow)
    ends = searched(c, ordered, dims(rank), place, lambda e, p: e < p, shape)
    first, last = (
        c.move(ends, [*dims(rank), dimension(rank) + n], [*lines, count]) for n in (0, 1)
    )
    return Groups(order, first, last)


def folded_run(
    c: Lowering,
    rows: SSAValue,
    axis: int,
    first: SSAValue,
    last: SSAValue,
    rest: Sequence[Expr],
    monoid: str,
) -> SSAValue:
    """
    The fold of some rows side by side along `axis` for each element of `first` and `last`, which
    say where they begin and end; `rest` are the other subscripts of `rows`.

    Rows are folded by `FAN`, what that gives again, and so on: the ends of a run are folded at each
    level and what is whole between them at the next, so that a long run takes few steps, too. How
    many levels there are must be known: as many rows as a size are looked at one by one.
    """
    shape = list(shape_of(first))
    rank, element = len(shape), element_of(rows)
    nothing = identity(monoid, element)
    total: SSAValue | None = None
    while (n := shape_of(rows)[axis]) != 0:
        whole = isinstance(n, Size) or n <= 2 * FAN
        square = [*shape, n if whole else 2 * (FAN - 1)]

        def row(a: Scalar, b: Scalar, j: Scalar, whole: bool = whole) -> Scalar:
            """The number of a row at one of the ends, or -1."""
            if whole:
                return (a + j < b).select(a + j, -1)
            end = _up(a).minimum(b)
            begin = _down(b).maximum(end) - (FAN - 1)
            at_begin = j < FAN - 1
            at = at_begin.select(a, begin) + j
            return (at < at_begin.select(end, b)).select(at, -1)

        spread = [c.move(v, dims(rank), square) for v in (first, last)]
        number = c.elementwise(row, *spread, c.iota(rank, square), shape=square, hint="row")
        index = c.elementwise(lambda m: m.maximum(0), number, shape=square, hint="row")
        subscripts = [*rest]
        subscripts.insert(axis, dimension(rank + 1))
        found = c.elementwise(
            lambda m, x: (m < 0).select(nothing, x),
            number,
            gathered(c, rows, [index], subscripts, square),
            shape=square,
            hint="update",
        )
        part = c.reduce(monoid, [rank], found, hint="updates")
        total = (
            part
            if total is None
            else c.elementwise(
                lambda x, y: combine(monoid, x, y), total, part, shape=shape, hint="updates"
            )
        )
        if whole:
            break
        last = c.elementwise(
            lambda a, b: (b >> SHIFT).maximum(_up(a) >> SHIFT),
            first,
            last,
            shape=shape,
            hint="last",
        )
        first = c.elementwise(lambda a: _up(a) >> SHIFT, first, shape=shape, hint="first")
        extents = list(shape_of(rows))
        extents[axis] = n // FAN
        inside = dims(len(extents))
        inside[axis] = inside[axis] * FAN + dimension(len(extents))
        folded = c.move(rows, inside, [*extents, FAN])
        rows = c.reduce(monoid, [len(extents)], folded, hint="rows")
    return c.constant(nothing, shape, element) if total is None else total


def _up(number: Scalar) -> Scalar:
    """The next multiple of `FAN`."""
    return _down(number + (FAN - 1))


def _down(number: Scalar) -> Scalar:
    """The multiple of `FAN` before."""
    return number >> SHIFT << SHIFT
