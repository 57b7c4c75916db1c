"""Moving elements under a condition: padding, triangles, diagonals, and writing a part."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed, refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.shape import slice_bounds


@lower("constant_pad_nd", "pad")
def pad(c: Lowering) -> Lowered:
    value, mode = c.tensor(), c.op.argument("mode", "constant")
    rank, amounts = len(c.shape), c.integers("pad")
    if mode == "constant":
        return _constant_pad(c, value, amounts)
    for n in range(len(amounts) // 2):
        dim = rank - 1 - n
        before, after = amounts[2 * n : 2 * n + 2]
        shape = list(shape_of(value))
        extent = shape[dim]
        shape[dim] += before + after
        d = dimension(dim)
        inside = d - before
        if mode == "circular":
            # What a negative amount takes away is not there to come round again.
            first, kept = max(-before, 0), max(extent + min(before, 0) + min(after, 0), 1)
            parts = [((d + -max(before, 0) % kept) % kept + first, [])]
        elif mode == "replicate":
            parts = [
                (fixed(0), [fixed(before - 1) - d]),
                (inside, [fixed(before + extent - 1) - d]),
                (fixed(extent - 1), []),
            ]
        elif mode == "reflect":
            parts = [
                (fixed(before) - d, [fixed(before - 1) - d]),
                (inside, [fixed(before + extent - 1) - d]),
                (fixed(2 * extent - 2 + before) - d, []),
            ]
        else:
            refuse(f"unknown padding mode '{mode}'")
        subscripts = [[*dims(rank)[:dim], e, *dims(rank)[dim + 1 :]] for e, _ in parts]
        value = c.index_map([value] * len(parts), subscripts, shape, [w for _, w in parts])
    return value


def _constant_pad(c: Lowering, value: SSAValue, amounts: Sequence[int]) -> SSAValue:
    rank, source = len(c.shape), shape_of(value)
    subscripts, where = dims(rank), []
    for n in range(len(amounts) // 2):
        dim = rank - 1 - n
        before, after = amounts[2 * n : 2 * n + 2]
        inside = dimension(dim) - before
        subscripts[dim] = inside
        if before > 0:
            where.append(inside)
        if after > 0:
            where.append(fixed(before + source[dim] - 1) - dimension(dim))
    fill = c.op.argument("value")
    if not isinstance(fill, bool | int | float):
        fill = 0
    return c.move(value, subscripts, c.shape, where, fill if where else None)


@lower("tril", "triu")
def triangle(c: Lowering) -> Lowered:
    rank = len(c.shape)
    row, column = dimension(rank - 2), dimension(rank - 1)
    below = row - column + c.integer("diagonal", 0)
    kept = below if c.op.overload.data == "tril.default" else below * -1
    return c.move(c.tensor(), dims(rank), c.shape, [kept], 0)


@lower("diag_embed")
def diag_embed(c: Lowering) -> Lowered:
    rank = len(c.shape)
    offset = c.integer("offset", c.integer("diagonal", 0))
    first, second = c.dim(rank, "dim1", -2), c.dim(rank, "dim2", -1)
    row, column = c.iota(first, c.shape), c.iota(second, c.shape)
    rest = [dimension(d) for d in range(rank) if d not in (first, second)]
    # With an offset the diagonal ends before the last row or column does.
    place, last = dimension(first) + min(offset, 0), c.at(shape_of(c.tensor())[-1] - 1)
    inside = [place] if offset < 0 else [last - place] if offset > 0 else []
    value = c.move(c.tensor(), [*rest, place], c.shape, inside, 0 if inside else None)
    # A tensor of its own, as a product reads it: no slab has axes that only a condition knows.
    return c.elementwise(
        lambda x, i, j: (j - i).eq(offset).select(x, 0), value, row, column, element=c.element
    )


@lower("slice_scatter")
def slice_scatter(c: Lowering) -> Lowered:
    base, rank = c.tensor(), len(c.shape)
    dim = c.dim(rank, "dim", 0)
    source = c.broadcast(c.cast(c.tensor("src"), c.element), shape_of(c.tensor("src")))
    start, step = slice_bounds(c, c.shape[dim])
    length = shape_of(source)[dim]
    if not length:
        return base
    d = dimension(dim)
    inside = d - start
    where = [inside] if start else []
    end = start + (length - 1) * step
    if end < c.shape[dim] - 1:
        where.append(fixed(end) - d)
    if step > 1:
        where.append((inside % step) * -1)
        inside = inside // step
    subscripts = dims(rank)
    subscripts[dim] = inside
    if not where:
        return source
    return c.index_map([source, base], [subscripts, dims(rank)], c.shape, [where, []])


@lower("select_scatter")
def select_scatter(c: Lowering) -> Lowered:
    base, rank = c.tensor(), len(c.shape)
    dim = c.dim(rank)
    source = c.cast(c.tensor("src"), c.element)
    there = dimension(dim) - c.integer("index") % c.shape[dim]
    subscripts = [e for d, e in enumerate(dims(rank)) if d != dim]
    where = [there, there * -1]
    return c.index_map([source, base], [subscripts, dims(rank)], c.shape, [where, []])


@lower("diagonal_scatter")
def diagonal_scatter(c: Lowering) -> Lowered:
    base, rank, offset = c.tensor(), len(c.shape), c.integer("offset", 0)
    first, second = c.dim(rank, "dim1", 0), c.dim(rank, "dim2", 1)
    row, column = dimension(first), dimension(second)
    difference = column - row - offset
    along = row if offset >= 0 else column
    subscripts = [e for d, e in enumerate(dims(rank)) if d not in (first, second)]
    source = c.cast(c.tensor("src"), c.element)
    where = [difference, difference * -1]
    return c.index_map([source, base], [[*subscripts, along], dims(rank)], c.shape, [where, []])
