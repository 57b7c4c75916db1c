"""The factors of a contraction as matrices in memory, of which slabs can be copied as they lie."""

from __future__ import annotations

from xdsl.ir import SSAValue

from dlc.analysis.kernel.tensor_maps import tma_obstacle
from dlc.analysis.loop.mma_products import MmaProducts
from dlc.dialects import loop
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.layouts import PERIOD


def matrices_in_memory(
    reduce: loop.ReduceOp, products: MmaProducts, row: SSAValue, column: SSAValue
) -> tuple[tuple[bool, bool] | None, bool]:
    """
    Whether factors along rows, and those along columns, have neighbours along K in memory, and
    whether TMA can copy boxes of all of them. None, and False, unless each is an element of an
    input, of which one subscript goes along K by one and another along rows, or columns.
    """
    k, *others = reduce.axes
    if others:
        return None, False
    rows = {_side(factor, k, row) for factor in products.rows}
    columns = {_side(factor, k, column) for factor in products.columns}
    if None in rows | columns or max(len(rows), len(columns)) > 1:
        return None, False
    boxes = [_has_boxes(factor, k, row) for factor in products.rows]
    boxes += [_has_boxes(factor, k, column) for factor in products.columns]
    return (True in rows, True in columns), all(boxes)


def _side(factor: SSAValue, k: SSAValue, axis: SSAValue) -> bool | None:
    """True if the last dimension that a slab has is along K, False if along the axis."""
    load = factor.owner
    if not isinstance(load, loop.LoadOp) or load.where:
        return None
    walked = [s for s in load.subscripts if {k, axis}.intersection(s.values())]
    if len(walked) != 2 or any(len({k, axis}.intersection(s.values())) > 1 for s in walked):
        return None
    if any(s.coefficient(a) not in (0, 1) for s in walked for a in (k, axis)):
        return None
    return k in walked[-1].values()


def _has_boxes(factor: SSAValue, k: SSAValue, axis: SSAValue) -> bool:
    """True if TMA can copy boxes along K and the axis."""
    load = factor.owner
    assert isinstance(load, loop.LoadOp)
    kernel = load.parent_op()
    while kernel is not None and not isinstance(kernel, loop.KernelOp):
        kernel = kernel.parent_op()
    assert kernel is not None
    box = [PERIOD if {k, axis}.intersection(s.values()) else 1 for s in load.subscripts]
    return tma_obstacle(memref_of(load.ref), box, kernel.alignment(load.ref)) is None
