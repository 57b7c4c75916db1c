"""Reading at indices that are data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from dlc.dialects import tensor_ir
from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.expr import Expr
from dlc.transforms.tensor.decompositions.builder import (
    Exprs,
    dim_map,
    dimension,
    dims,
    fixed,
    refuse,
)
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import is_unsigned


def gathered(
    c: Lowering,
    source: SSAValue,
    indices: list[SSAValue],
    subscripts: Exprs,
    shape: Sequence[int] | None = None,
) -> SSAValue:
    """
    The elements of `source` at subscripts of the dimensions of `shape` (the result's) and, numbered
    after them, of the elements of `indices`, which have that shape.
    """
    shape = c.shape if shape is None else shape
    count = len(shape) + len(indices)
    return c.insert(tensor_ir.GatherOp(source, indices, dim_map(count, subscripts), shape))


@lower("embedding")
def embedding(c: Lowering) -> Lowered:
    rank = len(c.shape)
    indices = c.cast(c.tensor("indices"), i64)
    index = c.move(indices, dims(rank - 1), c.shape)
    found, column = dimension(rank), dimension(rank - 1)
    return gathered(c, c.tensor("weight"), [index], [found, column])


@lower("index_select")
def index_select(c: Lowering) -> Lowered:
    source, indices, rank = c.tensor(), c.cast(c.tensor("index"), i64), len(c.shape)
    if rank == 0:
        return source
    dim = c.dim(rank)
    along = [dimension(dim)] if shape_of(indices) else []
    subscripts = dims(rank)
    subscripts[dim] = dimension(rank)
    return gathered(c, source, [c.move(indices, along, c.shape)], subscripts)


@lower("gather")
def gather(c: Lowering) -> Lowered:
    source, indices = c.tensor(), c.cast(c.tensor("index"), i64)
    rank = len(shape_of(source))
    if not rank:
        return c.broadcast(source, c.shape)
    if 0 in c.shape:  # then the indices may have more dimensions, or fewer, than the source
        return c.constant(0, c.shape, c.element)
    subscripts = dims(rank)
    subscripts[c.dim(rank)] = dimension(len(c.shape))  # a scalar for an index has none
    return gathered(c, source, [indices], subscripts)


@lower("take")
def take(c: Lowering) -> Lowered:
    size = prod(shape_of(c.tensor()))
    index = wrapped(c, c.tensor("index"), size)
    return gathered(c, c.reshape(c.tensor(), [size]), [index], [dimension(len(c.shape))])


@lower("index.Tensor", "_unsafe_index.Tensor")
def index(c: Lowering) -> Lowered:
    source, given = c.tensor(), c.op.operand_list("indices")
    if any(v is not None and (element_of(v) == i1 or is_unsigned(element_of(v))) for v in given):
        refuse("a boolean mask gives a shape that depends on data; use torch.where")
    extents = shape_of(source)
    given += [None] * (len(extents) - len(given))
    places = [d for d, v in enumerate(given) if v is not None]
    indices = [v for v in given if v is not None]
    index_rank = max(len(shape_of(v)) for v in indices)
    # Indices that stand side by side put their dimensions in their place, others in front.
    adjacent = places == list(range(places[0], places[-1] + 1))
    first = places[0] if adjacent else 0
    rank = len(c.shape)
    inside = range(first, first + index_rank)
    rest = (e for d, e in enumerate(dims(rank)) if d not in inside)
    subscripts: list[Expr] = []
    spread: list[SSAValue] = []
    for extent, value in zip(extents, given, strict=True):
        if value is None:
            subscripts.append(next(rest))
            continue
        subscripts.append(dimension(rank + len(spread)))
        spread.append(_spread_index(c, wrapped(c, value, extent), first + index_rank))
    return gathered(c, source, spread, subscripts)


def wrapped(c: Lowering, value: SSAValue, extent: int) -> SSAValue:
    """Indices as i64, negative ones counted from the end."""
    return c.elementwise(
        lambda i: (i.to(i64) < 0).select(i.to(i64) + extent, i.to(i64)),
        value,
        shape=shape_of(value),
        hint="wrapped",
    )


def _spread_index(c: Lowering, value: SSAValue, end: int) -> SSAValue:
    """An index tensor whose last dimension is dimension `end - 1` of the result."""
    shape = shape_of(value)
    begin = end - len(shape)
    subscripts = [
        dimension(begin + d) if extent == c.shape[begin + d] else fixed(0)
        for d, extent in enumerate(shape)
    ]
    return c.move(value, subscripts, c.shape)


@lower("one_hot")
def one_hot(c: Lowering) -> Lowered:
    rank = len(c.shape)
    classes = c.iota(rank - 1, c.shape)
    value = c.move(c.tensor(), dims(rank - 1), c.shape)
    return c.elementwise(lambda x, n: x.to(i64).eq(n), value, classes, element=c.element)
