"""
Writing at indices that are data, as reading: each element of the result looks for the updates that
hit it, among all of them, or among those in the order of places where there are many. So no two
updates meet in memory, and results are the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import ceil, nan, prod

from xdsl.dialects.builtin import IntegerType, i1, i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.expr import Expr
from dlc.transforms.tensor.decompositions.builder import Exprs, dimension, dims, fixed, refuse
from dlc.transforms.tensor.decompositions.division import floor_quotient
from dlc.transforms.tensor.decompositions.exact_sums import added_at, adding_pays, inside
from dlc.transforms.tensor.decompositions.folds import combine, identity
from dlc.transforms.tensor.decompositions.groups import folded_run, grouped, grouping_pays
from dlc.transforms.tensor.decompositions.indexing import gathered, wrapped
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.pointwise import truth
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar, is_unsigned
from dlc.transforms.tensor.decompositions.scans import scanned


def hits(
    c: Lowering, indices: Sequence[SSAValue], axes: Sequence[int], shape: Sequence[int]
) -> SSAValue:
    """True where the index tensors, one for each of `axes` and of that shape, name the place."""
    places = [c.iota(axis, shape) for axis in axes]

    def function(*scalars: Scalar) -> Scalar:
        pairs = zip(scalars[: len(axes)], scalars[len(axes) :], strict=True)
        return reduce(lambda a, b: a & b, (i.eq(place) for i, place in pairs))

    return c.elementwise(function, *indices, *places, shape=shape, hint="hit")


def latest(c: Lowering, hit: SSAValue) -> SSAValue:
    """The last index along the last axis where `hit` holds, or -1."""
    shape = shape_of(hit)
    axis = len(shape) - 1
    numbers = c.elementwise(
        lambda h, k: h.select(k, -1), hit, c.iota(axis, shape), shape=shape, hint="update"
    )
    return c.reduce("max", [axis], numbers, hint="latest")


def overwritten(c: Lowering, update: SSAValue, updates: SSAValue, subscripts: Exprs) -> SSAValue:
    """
    `self` where `update` is -1, elsewhere the element of `updates` at `subscripts`, in which the
    dimension after those of the result stands for `update`.
    """
    place = c.elementwise(lambda u: u.maximum(0), update, hint="place")
    found = gathered(c, updates, [place], subscripts)
    return c.elementwise(lambda u, x, y: (u < 0).select(x, y), update, c.tensor(), found)


def overwritten_once(c: Lowering, hit: SSAValue, value: SSAValue) -> SSAValue:
    """`self` where a single update does not hit, elsewhere its value."""
    return c.elementwise(lambda h, x, y: truth(h).select(y, x), hit, c.tensor(), value)


# index_put: x[i, j] = values.


@lower("index_put", "_unsafe_index_put")
def index_put(c: Lowering) -> Lowered:
    base, given = c.tensor(), c.op.operand_list("indices")
    if any(v is not None and is_mask(v) for v in given):
        return _masked_put(c, given)
    places = [d for d, v in enumerate(given) if v is not None]
    indices = [wrapped(c, v, c.shape[d]) for d, v in enumerate(given) if v is not None]
    rank = max(len(shape_of(v)) for v in indices)
    common = [
        max(([1] * (rank - len(shape_of(v))) + list(shape_of(v)))[d] for v in indices)
        for d in range(rank)
    ]
    if any(0 in shape_of(v) for v in indices) or 0 in c.shape:
        return base
    count = prod(common)
    flat = [c.reshape(c.broadcast(v, common), [count]) for v in indices]
    # As in reading, indices side by side put their dimensions in their place, others in front.
    adjacent = places == list(range(places[0], places[-1] + 1))
    first = places[0] if adjacent else 0
    rest = [d for d in range(len(c.shape)) if d not in places]
    before, after = ([c.shape[d] for d in part] for part in (rest[:first], rest[first:]))
    values = c.broadcast(c.cast(c.tensor("values"), c.element), [*before, *common, *after])
    values = c.reshape(values, [*before, count, *after])
    update = dimension(len(c.shape))
    subscripts = [dimension(d) for d in rest]
    subscripts.insert(first, update)
    wide = c.wide(values)
    if c.flag("accumulate") and adding_pays(c, wide, prod(shape_of(values)), prod(c.shape), count):
        own = shape_of(values)
        named = [
            c.move(inside(c, v, c.shape[d]), [dimension(first)], own)
            for v, d in zip(flat, places, strict=True)
        ]
        where = {d: dimension(r + (r >= first)) for r, d in enumerate(rest)}
        where |= {d: dimension(len(own) + n) for n, d in enumerate(places)}
        added = added_at(c, wide, named, [where[d] for d in range(len(c.shape))], c.shape)
        return c.pointwise_wide(lambda x, y: x + y, base, added)
    if grouping_pays(c, count, 1, prod(c.shape), prod(c.shape[d] for d in places)):
        extents = [c.shape[d] for d in places]
        groups = grouped(c, _place(c, flat, extents), prod(extents))
        groups = groups.over(c, [place_number(places, c.shape)], c.shape)
        if not c.flag("accumulate"):
            return overwritten(c, groups.latest(c, []), values, subscripts)
        others = [dimension(d) for d in rest]
        added = groups.folded(c, c.wide(values), first, others, "add")
        return c.pointwise_wide(lambda x, y: x + y, base, added)
    if c.flag("accumulate"):
        square = [*c.shape, count]
        hit = hits(c, [c.move(v, [update], square) for v in flat], places, square)
        added = folded_hits(c, hit, c.move(c.wide(values), subscripts, square), "add")
        return c.pointwise_wide(lambda x, y: x + y, base, added)
    extents = [c.shape[d] for d in places]
    square = [*extents, count]
    along = dimension(len(extents))
    hit = hits(c, [c.move(v, [along], square) for v in flat], range(len(extents)), square)
    if count == 1:
        there = c.move(c.reshape(hit, extents), [dimension(d) for d in places], c.shape)
        subscripts[first] = fixed(0)
        return overwritten_once(c, there, c.move(values, subscripts, c.shape))
    found = c.move(latest(c, hit), [dimension(d) for d in places], c.shape)
    return overwritten(c, found, values, subscripts)


def _place(c: Lowering, indices: Sequence[SSAValue], extents: Sequence[int]) -> SSAValue:
    """Places counted in row-major order; -1 for what is outside of an extent."""

    def function(*scalars: Scalar) -> Scalar:
        sides = list(zip(scalars, extents, strict=True))
        inside = reduce(lambda a, b: a & b, ((i >= 0) & (i < n) for i, n in sides))
        number, *others = sides
        return inside.select(reduce(lambda at, s: at * s[1] + s[0], others, number[0]), -1)

    return c.elementwise(function, *indices, shape=shape_of(indices[0]), hint="place")


def place_number(axes: Sequence[int], shape: Sequence[int]) -> Expr:
    """The number of a place along some axes of a shape, in row-major order."""
    return reduce(lambda at, d: at * shape[d] + dimension(d), axes, fixed(0))


def is_mask(index: SSAValue) -> bool:
    return element_of(index) == i1 or is_unsigned(element_of(index))


def _masked_put(c: Lowering, given: Sequence[SSAValue | None]) -> Lowered:
    """Values that do not differ along the places where one mask is true."""
    masks = [(d, v) for d, v in enumerate(given) if v is not None]
    dim, mask = masks[0]
    values, covered = c.cast(c.tensor("values"), c.element), len(shape_of(mask))
    behind = len(c.shape) - dim - covered
    shape = shape_of(values)
    if len(masks) > 1 or (len(shape) > behind and shape[len(shape) - behind - 1] != 1):
        refuse("a boolean mask takes a value for all its places; use torch.where for one for each")
    if len(shape) > behind:
        split = len(shape) - behind - 1
        values = c.reshape(values, [*shape[:split], *[1] * covered, *shape[split + 1 :]])
    mask = c.move(mask, dims(len(c.shape))[dim : dim + covered], c.shape)
    if c.flag("accumulate"):
        values = c.pointwise_wide(lambda x, y: x + y, c.tensor(), values)
    return c.elementwise(lambda m, x, y: truth(m).select(x, y), mask, values, c.tensor())


@lower("put")
def put(c: Lowering) -> Lowered:
    """Writes at places counted in row-major order."""
    size, count = prod(c.shape), prod(shape_of(c.tensor("index")))
    if not size or not count:
        return c.tensor()
    rank = len(c.shape)
    square = [*c.shape, count]
    index = wrapped(c, c.reshape(c.tensor("index"), [count]), size)
    number = c.reshape(c.iota(0, [size]), c.shape)
    hit = c.elementwise(
        lambda i, n: i.eq(n),
        c.move(index, [dimension(rank)], square),
        c.move(number, dims(rank), square),
        shape=square,
        hint="hit",
    )
    source = c.reshape(c.cast(c.tensor("source"), c.element), [count])
    if grouping_pays(c, count, 1, size, size):
        groups = grouped(c, index, size).over(c, [place_number(range(rank), c.shape)], c.shape)
        if not c.flag("accumulate"):
            return overwritten(c, groups.latest(c, []), source, [dimension(rank)])
        added = groups.folded(c, c.wide(source), 0, [], "add")
        return c.pointwise_wide(lambda x, y: x + y, c.tensor(), added)
    if c.flag("accumulate"):
        values = c.move(c.wide(source), [dimension(rank)], square)
        added = folded_hits(c, hit, values, "add")
        return c.pointwise_wide(lambda x, y: x + y, c.tensor(), added)
    return overwritten(c, latest(c, hit), source, [dimension(rank)])


# scatter: x[index[i][j]][j] = src[i][j].


def folded_hits(c: Lowering, hit: SSAValue, values: SSAValue, monoid: str) -> SSAValue:
    """The fold over the last axis of the values where `hit` holds."""
    shape, nothing = shape_of(hit), identity(monoid, element_of(values))
    chosen = c.elementwise(
        lambda h, x: h.select(x, nothing), hit, values, shape=shape, hint="update"
    )
    return c.reduce(monoid, [len(shape) - 1], chosen, hint="updates")


def _scattered(c: Lowering, name: str, dim: int, length: int, where: int) -> SSAValue:
    """
    The index or the source over `[result…, update]`: what it has at the update's place along
    `dim` and at the result's along others. Past its end it is `where`. A number is one update.
    """
    value = c.reshape(c.tensor(name), shape_of(c.tensor(name)) or (1,))
    if name == "index":
        value = c.cast(value, i64)
    else:
        value = c.wide(c.cast(value, c.element))
    subscripts = dims(len(c.shape)) or dims(1)  # a scalar is a line of one point
    subscripts[dim] = dimension(len(c.shape))
    updates = [*c.shape] or [1]
    updates[dim] = length
    inside = _inside(c, value, updates)
    return c.move(value, subscripts, [*c.shape, length], inside, where if inside else None)


def _inside(c: Lowering, value: SSAValue, shape: Sequence[int]) -> Exprs:
    """Conditions of the places of a shape where a tensor has elements, as it may be smaller."""
    sides = enumerate(zip(shape_of(value), shape, strict=True))
    return [c.at(own - 1) - dimension(d) for d, (own, n) in sides if own != n and own < n]


@lower(
    "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add",
    "scatter_reduce.two",
)  # fmt: skip
def scatter(c: Lowering) -> Lowered:
    base, rank = c.tensor(), len(c.shape)
    if 0 in shape_of(c.tensor("index")) or not prod(c.shape):
        return base
    dim = c.dim(rank)
    length = (shape_of(c.tensor("index")) or (1,))[dim]
    sums = _how(c) in ("sum", "add") and c.flag("include_self", True)
    if rank and sums and isinstance(c.element, IntegerType):
        own = shape_of(c.tensor("index"))
        if c.op.operand("src") is None:
            values = c.broadcast(c.wide(c.constant(c.number("value"), (), c.element)), own)
        else:
            values = c.move(c.wide(c.cast(c.tensor("src"), c.element)), dims(rank), own)
        if adding_pays(c, values, prod(own), prod(c.shape), length):
            place = inside(c, c.cast(c.tensor("index"), i64), c.shape[dim])
            subscripts = dims(rank)
            subscripts[dim] = dimension(rank)
            added = added_at(c, values, [place], subscripts, c.shape)
            return c.pointwise_wide(lambda x, y: x + y, base, added)
    if rank and grouping_pays(
        c, length, prod(c.shape) // c.shape[dim], prod(c.shape), c.shape[dim]
    ):
        return _scattered_in_order(c, dim, length)
    index = _scattered(c, "index", dim, length, -1)
    square = shape_of(index)
    if rank:
        hit = hits(c, [index], [dim], square)
    else:
        hit = c.elementwise(lambda i: i.eq(0), index, shape=square, hint="hit")
    if c.op.operand("src") is None:
        constant = c.constant(c.number("value"), (), c.element)
        values = c.broadcast(c.wide(constant), square)
    else:
        values = _scattered(c, "src", dim, length, 0)
    if (how := _how(c)) is not None:
        return _reduced_hits(c, how, hit, values)
    values = c.cast(values, c.element)
    if length == 1:
        return overwritten_once(c, c.reshape(hit, c.shape), c.reshape(values, c.shape))
    return overwritten(c, latest(c, hit), values, dims(rank + 1))


def _how(c: Lowering) -> str | None:
    """How a scatter reduces, if it does not overwrite."""
    how = "sum" if c.op.overload.data == "scatter_add.default" else c.op.argument("reduce")
    return None if how is None else str(how)


def _scattered_in_order(c: Lowering, dim: int, length: int) -> Lowered:
    """The same, of many updates: those of each line along `dim` are put in the order of places."""
    rank = len(c.shape)
    shape = [*c.shape]
    shape[dim] = length
    along = dims(rank)
    lines = [*along[:dim], *along[dim + 1 :]]

    def whole(value: SSAValue, fill: Number) -> SSAValue:
        """The updates of all lines, some of which may have none."""
        inside = _inside(c, value, shape)
        return c.move(value, along, shape, inside, fill if inside else None)

    index = whole(c.cast(c.tensor("index"), i64), -1)
    # The same with `dim` as the last dimension.
    of_keys = [dimension(d if d < dim else d - 1) for d in range(rank)]
    of_keys[dim] = dimension(rank - 1)
    keys = c.move(index, of_keys, [*shape[:dim], *shape[dim + 1 :], length])
    if c.op.operand("src") is None:
        values = c.broadcast(c.wide(c.constant(c.number("value"), (), c.element)), shape)
    else:
        values = whole(c.wide(c.cast(c.tensor("src"), c.element)), 0)
    groups = grouped(c, keys, c.shape[dim]).over(c, [*lines, dimension(dim)], c.shape)
    if (how := _how(c)) is not None:
        folds = groups.folded(c, values, dim, lines, FOLDS[how])
        return _reduced(c, how, folds, groups.counts(c))
    subscripts = dims(rank)
    subscripts[dim] = dimension(rank)
    return overwritten(c, groups.latest(c, lines), c.cast(values, c.element), subscripts)


@lower("index_reduce")
def index_reduce(c: Lowering) -> Lowered:
    """Of each line of the source that `index` sends to a place along `dim`."""
    rank, source = len(c.shape), c.wide(c.cast(c.tensor("source"), c.element))
    dim = c.dim(rank)
    count = prod(shape_of(c.tensor("index")))
    if not count or not prod(c.shape):
        return c.tensor()
    square = [*c.shape, count]
    update = dimension(rank)
    index = c.cast(c.reshape(c.tensor("index"), [count]), i64)
    how = str(c.op.argument("reduce"))
    if rank and grouping_pays(c, count, 1, prod(c.shape), c.shape[dim]):
        groups = grouped(c, index, c.shape[dim]).over(c, [dimension(dim)], c.shape)
        others = [dimension(d) for d in range(rank) if d != dim]
        folds = groups.folded(c, source, dim, others, FOLDS[how])
        return _reduced(c, how, folds, groups.counts(c))
    index = c.move(index, [update], square)
    place = c.iota(dim, square) if rank else c.constant(0, square, i64)
    hit = c.elementwise(lambda i, p: i.eq(p), index, place, shape=square, hint="hit")
    subscripts = dims(rank)
    subscripts[dim : dim + 1] = [update] if shape_of(source) else []
    return _reduced_hits(c, how, hit, c.move(source, subscripts, square))


@lower("segment_reduce")
def segment_reduce(c: Lowering) -> Lowered:
    """Of rows side by side along `axis`: from one offset to the next, or of so many each."""
    value, rank, axis = c.wide(c.tensor("data")), len(c.shape), c.integer("axis", 0)
    count, how = shape_of(value)[axis], str(c.op.argument("reduce"))
    line, place = dims(axis), dimension(axis)
    if c.op.operand("offsets") is None:
        lengths = c.cast(c.tensor("lengths"), i64)
        (ends,) = scanned(c, "add", [lengths], axis)
        begins = c.elementwise(
            lambda end, n: end - n, ends, lengths, shape=shape_of(ends), hint="offset"
        )
        given = (begins, place), (ends, place)
    else:
        offsets = c.cast(c.tensor("offsets"), i64)
        given = (offsets, place), (offsets, place + 1)
    first, last = (
        c.elementwise(
            lambda n: n.maximum(0).minimum(count),
            c.move(v, [*line, at], c.shape),
            shape=c.shape,
            hint="offset",
        )
        for v, at in given
    )
    rest = [dimension(d) for d in range(rank) if d != axis]
    segments = max(c.likely(c.shape[axis]), 1)
    about = ceil(c.likely(count) / segments)
    folds = folded_run(c, value, axis, (first, last), rest, FOLDS[how], about)
    initial = c.optional_number("initial")

    def function(fold: Scalar, a: Scalar, b: Scalar) -> Scalar:
        if initial is not None:
            fold = combine(FOLDS[how], fold.of(initial), fold)
        if how != "mean":
            return fold
        empty = nan if initial is None else initial
        return (b <= a).select(empty, fold / (b - a).maximum(1).to(fold.element))

    return c.elementwise(function, folds, first, last, element=c.element)


FOLDS = {
    "sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul", "amax": "max",
    "amin": "min",
    "max": "max", "min": "min",
}  # fmt: skip
"""The monoids of reducing scatters."""


def _reduced_hits(c: Lowering, how: str, hit: SSAValue, values: SSAValue) -> Lowered:
    counts = folded_hits(c, hit, c.constant(1, shape_of(hit), i64), "add")
    return _reduced(c, how, folded_hits(c, hit, values, FOLDS[how]), counts)


def _reduced(c: Lowering, how: str, folds: SSAValue, counts: SSAValue) -> Lowered:
    """`self` with the folds of updates, of which each place has so many."""
    own = c.flag("include_self", True)

    def function(x: Scalar, fold: Scalar, count: Scalar) -> Scalar:
        result = combine(FOLDS[how], x, fold) if own else count.eq(0).select(x, fold)
        if how != "mean":
            return result
        if is_unsigned(c.element):
            result = result & 255  # their sum wraps, as that of signed ones does
        total = (count + 1 if own else count.maximum(1)).to(x.element)
        return result / total if x.is_float else floor_quotient(result, total)

    return c.pointwise_wide(function, c.tensor(), folds, counts)
