"""How the factors of a reduce lie, as matrices that a warpgroup multiplies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from dlc.analysis.kernel.layout import known_divisor
from dlc.analysis.tile.matrix_products import MatrixProduct
from dlc.dialects import tile
from dlc.dialects.axes import FRAGMENT
from dlc.dialects.kernel_memory import element_bytes, is_local, is_shared, memref_of
from dlc.dialects.layouts import PERIOD, UNIT, SwizzleAttr, shape_of
from dlc.ir.bounds import within
from dlc.ir.expr import Expr


@dataclass(frozen=True)
class Held:
    """A factor that the lanes of a warpgroup hold, as they hold sums of products."""

    load: tile.LoadOp


Weights = Mapping[SSAValue, int]
"""How far the rows, or columns, of a matrix are apart along axes."""


@dataclass(frozen=True)
class Matrix:
    """A factor of a product of a warpgroup in shared memory."""

    load: tile.LoadOp
    start: tuple[Expr, ...]
    """The subscripts of its first element, where axes along it are at 0."""
    along_rows: bool
    """True if its rows (of B: columns) are neighbours in memory, not its points of K."""
    leading: int
    stride: int
    swizzle: int
    """What its descriptor says, in bytes."""


def rows_of(reduce: tile.ReduceOp) -> Weights:
    """How far the rows of A are apart along the axes that number them."""
    quarter, group, _, half, _ = reduce.lanes
    return {quarter: 16, half: 8, group: 1}


def columns_of(reduce: tile.ReduceOp, tiles: BlockArgument | None) -> Weights:
    """The same of the columns of B; `tiles` counts eight of them."""
    _, _, member, _, pair = reduce.lanes
    weights: dict[SSAValue, int] = {member: 2, pair: 1}
    return weights if tiles is None else {tiles: 8, **weights}


def matrices_of(
    reduce: tile.ReduceOp, product: MatrixProduct, tiles: BlockArgument | None
) -> tuple[Matrix | Held, Matrix] | str:
    """A and B as descriptors tell them, A as lanes hold it; or the reason why none can."""
    assert reduce.mma is not None
    row, column, sizes = product.row.load, product.column.load, reduce.mma.sizes
    if reduce.yielded.where:
        return "points of K are left out"
    of_a, of_b = reduce.mma.elements
    a = Held(row) if is_local(row.ref) else _matrix(reduce, row, rows_of(reduce), sizes.m, of_a)
    if isinstance(a, str):
        return a
    b = _matrix(reduce, column, columns_of(reduce, tiles), sizes.n, of_b)
    return b if isinstance(b, str) else (a, b)


def _matrix(
    reduce: tile.ReduceOp, load: tile.LoadOp, weights: Weights, count: int, element: Attribute
) -> Matrix | str:
    """What a descriptor tells of a factor, or the reason why none can, with its name."""
    matrix = _told_matrix(reduce, load, weights, count, element)
    return f"{load.ref.name_hint or 'a factor'} {matrix}" if isinstance(matrix, str) else matrix


def _told_matrix(
    reduce: tile.ReduceOp, load: tile.LoadOp, weights: Weights, count: int, element: Attribute
) -> Matrix | str:
    assert reduce.mma is not None
    if load.where or not is_shared(load.ref):
        return "is not in shared memory"
    type, (k,) = memref_of(load.ref), reduce.axes_of(FRAGMENT)
    if len(shape_of(type)) < 2 or type.element_type != element:
        return f"is a {type}"
    *outer, second, last = load.subscripts
    axes = {*weights, k}
    if any(axes.intersection(e.values()) for e in outer):
        return "has rows in more than two dimensions"
    for along_rows, (inner, beside) in ((False, (last, second)), (True, (second, last))):
        if _goes_by(inner, {k: 1}, axes) and _goes_by(beside, weights, axes):
            break
    else:
        return "has no rows along K, and none across"
    if along_rows and not reduce.mma.reads_across:
        return f"lies across K: of {reduce.mma.factors.data}, wgmma reads rows along it"
    if not isinstance(type.layout, SwizzleAttr):
        return "is not swizzled (split-inner-for-swizzle)"
    start = tuple(e.substitute(lambda v: 0 if v in axes else None) for e in load.subscripts)
    extents = (reduce.mma.sizes.k, count) if along_rows else (count, reduce.mma.sizes.k)
    return _told(load, type, start, along_rows, extents)


def _told(
    load: tile.LoadOp,
    type: MemRefType[Attribute],
    start: tuple[Expr, ...],
    along_rows: bool,
    extents: tuple[int, int],
) -> Matrix | str:
    """What a descriptor says of a matrix with so many rows and columns in memory."""
    assert isinstance(type.layout, SwizzleAttr)
    bytes, rows = type.layout.bytes.data, shape_of(type)[-2]
    panel, width = bytes // element_bytes(type.element_type), extents[1]
    whole = width % panel == 0 or panel % width == 0
    row, column = (known_divisor(first) for first in start[-2:])
    if not whole or row % PERIOD or column % min(panel, width):
        return "begins within a panel of the swizzle"
    for first, extent, size in zip(start[-2:], extents, shape_of(type)[-2:], strict=True):
        if within(first, size - extent + 1):
            return "is smaller than the product"
    leading = rows * bytes if along_rows else UNIT
    return Matrix(load, start, along_rows, leading, PERIOD * bytes, bytes)


def _goes_by(subscript: Expr, weights: Weights, axes: set[SSAValue]) -> bool:
    """True if a subscript goes by some of the axes of a matrix so far each, by others not."""
    return all(subscript.coefficient(axis) == weights.get(axis, 0) for axis in axes)
