"""
Updates by the place that they hit: in the order of places, those of one stand side by side, and are
found by binary search. So a place walks over what hits it, and looks at nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.tensor_ir import FoldOp
from dlc.ir.sizes import Size
from dlc.schedule.long_folds import fan_of
from dlc.transforms.tensor.decompositions.builder import Exprs, dim_map, dimension, dims
from dlc.transforms.tensor.decompositions.folds import combine
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowering
from dlc.transforms.tensor.decompositions.ordering import LOW, in_order, ordering_pays
from dlc.transforms.tensor.decompositions.scalar import Scalar
from dlc.transforms.tensor.decompositions.searching_steps import searched


@dataclass(frozen=True)
class Groups:
    """The updates of places 0, 1, …, of each line."""

    order: SSAValue
    """The numbers of updates, [*lines, updates]; those of a place as they stand."""
    first: SSAValue
    """Where the updates of a place begin in that order, [*lines, places], as i64."""
    last: SSAValue
    """Where they end, which is where they begin if there are none."""
    about: int
    """The updates that a place is likely to have."""

    def over(self, c: Lowering, subscripts: Exprs, shape: Sequence[int]) -> Groups:
        """First and last where a tensor of a shape has its places."""
        first, last = (c.move(v, subscripts, shape) for v in (self.first, self.last))
        return Groups(self.order, first, last, self.about)

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
        ends = self.first, self.last
        return folded_run(c, rows, axis, ends, rest, monoid, self.about)

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


def grouping_pays(c: Lowering, updates: int, lines: int, results: int, count: int) -> bool:
    """True if to put the updates of each of some lines in the order of `count` places is faster
    than to compare each of the results with all of them."""
    searches = lines * count
    return ordering_pays(c, updates, lines, results, searches, place_bits(count), folds=True)


def place_bits(count: int) -> int:
    """The bits of a number of a place, or of none of them, the sign among them."""
    return LOW if isinstance(count, Size) else count.bit_length() + 1


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
    order = in_order(c, keys, rank, updates, descending=False, bits=place_bits(count))
    at = [*dims(rank), dimension(rank + 1)]
    ordered = gathered(c, keys, [order], at, shape_of(places))
    place = c.cast(c.iota(rank, shape), narrow)
    ends = searched(c, ordered, dims(rank), place, lambda e, p: e < p, shape)
    first, last = (
        c.move(ends, [*dims(rank), dimension(rank) + n], [*lines, count]) for n in (0, 1)
    )
    about = ceil(c.likely(updates) / max(c.likely(count), 1))
    return Groups(order, first, last, about)


def folded_run(
    c: Lowering,
    rows: SSAValue,
    axis: int,
    ends: tuple[SSAValue, SSAValue],
    rest: Exprs,
    monoid: str,
    about: int,
) -> SSAValue:
    """
    The fold of some rows side by side along `axis` for each element of `ends`, which say where they
    begin and end; `rest` are the other subscripts of `rows`. There are about so many for each.

    Runs are walked, or all rows are folded by `fan_of` them first: what is whole of these in a run
    is folded in its turn, and rows are walked at its ends.
    """
    rank, shape = len(shape_of(ends[0])), shape_of(ends[0])
    subscripts = [*rest]
    subscripts.insert(axis, dimension(rank))
    map = dim_map(rank + 1, subscripts)

    def walked(first: SSAValue, last: SSAValue, about: int) -> SSAValue:
        return c.insert(FoldOp(monoid, rows, [first, last], map, about), "updates")

    n, extents = shape_of(rows)[axis], list(shape_of(rows))
    fan = None
    if not isinstance(n, Size):
        count, each = (c.likely(prod(part)) for part in (extents[: axis + 1], extents[axis + 1 :]))
        fan = fan_of(about, count, each * element_bytes(element_of(rows)), c.target)
    if fan is None or n < fan:
        return walked(*ends, max(1, about))
    shift = fan.bit_length() - 1

    def computed(function: Callable[..., Scalar], *values: SSAValue, hint: str) -> SSAValue:
        return c.elementwise(function, *values, shape=shape, hint=hint)

    first, last = ends
    begin = computed(lambda a: (a + (fan - 1)) >> shift, first, hint="first")
    end = computed(lambda a, b: (b >> shift).maximum(a), begin, last, hint="last")
    up = computed(lambda a, b: (a << shift).minimum(b), begin, last, hint="first")
    down = computed(lambda b: b << shift, end, hint="last")
    extents[axis] = n // fan
    inside = dims(len(extents))
    inside[axis] = inside[axis] * fan + dimension(len(extents))
    of_fan = c.reduce(monoid, [len(extents)], c.move(rows, inside, [*extents, fan]), hint="rows")
    return computed(
        lambda x, y, z: combine(monoid, combine(monoid, x, y), z),
        walked(first, up, fan // 2),
        folded_run(c, of_fan, axis, (begin, end), rest, monoid, about // fan),
        walked(down, last, fan // 2),
        hint="updates",
    )
