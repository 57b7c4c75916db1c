"""The factors of a contraction as matrices in memory, of which slabs can be copied as they lie."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from dlc.analysis.kernel.tensor_maps import tma_obstacle
from dlc.analysis.loop.mma_products import MmaProducts
from dlc.dialects import loop
from dlc.dialects.access import StoreOpBase
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.layouts import PERIOD, UNIT


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
    rows = {lies_along_k(factor, k, row) for factor in products.rows}
    columns = {lies_along_k(factor, k, column) for factor in products.columns}
    if None in rows | columns or max(len(rows), len(columns)) > 1:
        return None, False
    boxes = [has_boxes(factor, k, row) for factor in products.rows]
    boxes += [has_boxes(factor, k, column) for factor in products.columns]
    return (True in rows, True in columns), all(boxes)


def lies_along_k(factor: SSAValue, k: SSAValue, axis: SSAValue) -> bool | None:
    """
    True if the last dimension that a slab has is along K, False if along the axis; None for what is
    no matrix in memory.
    """
    load = factor.owner
    if not isinstance(load, loop.LoadOp) or load.where:
        return None
    walked = [s for s in load.subscripts if {k, axis}.intersection(s.values())]
    if len(walked) != 2 or any(len({k, axis}.intersection(s.values())) > 1 for s in walked):
        return None
    if any(s.coefficient(a) not in (0, 1) for s in walked for a in (k, axis)):
        return None
    return k in walked[-1].values()


def stored_bytes(outer: loop.ForOp, row: SSAValue, column: SSAValue) -> int:
    """
    Bytes of an element of what a kernel stores, if TMA can store boxes along rows and columns of
    it, whose neighbours are along columns; else 0.
    """
    kernel, stores = _kernel_of(outer), [op for op in outer.walk() if _stores(op)]
    match stores:
        case [loop.StoreOp() as store] if len(list(store.ref.uses)) == 1:
            pass
        case _:
            return 0
    type = memref_of(store.ref)
    *rows, row_in_last = (s.coefficient(row) for s in store.subscripts)
    *others, columns = (s.coefficient(column) for s in store.subscripts)
    along_rows = row_in_last == 0 and sorted(map(str, rows)) == ["0"] * (len(rows) - 1) + ["1"]
    if not along_rows or columns != 1 or any(others) or None in others:
        return 0
    if store.where or store.ref in kernel.updated_refs:
        return 0
    boxes = _is_boxes(store, row, column, kernel.alignment(store.ref))
    return element_bytes(type.element_type) if boxes else 0


def _stores(op: Operation) -> bool:
    return isinstance(op, StoreOpBase)


def _kernel_of(op: Operation) -> loop.KernelOp:
    kernel = op.parent_op()
    while kernel is not None and not isinstance(kernel, loop.KernelOp):
        kernel = kernel.parent_op()
    assert kernel is not None
    return kernel


def has_boxes(factor: SSAValue, k: SSAValue, axis: SSAValue) -> bool:
    """True if TMA can copy boxes along K and the axis."""
    load = factor.owner
    assert isinstance(load, loop.LoadOp)
    return _is_boxes(load, k, axis, _kernel_of(load).alignment(load.ref))


def _is_boxes(op: loop.LoadOp | loop.StoreOp, a: SSAValue, b: SSAValue, alignment: int) -> bool:
    """True if TMA can copy boxes along two axes of what is accessed, from the first points on."""
    least = max(PERIOD, UNIT // element_bytes(memref_of(op.ref).element_type))
    box = [least if {a, b}.intersection(s.values()) else 1 for s in op.subscripts]
    begin = [s.substitute(lambda value: 0 if value in (a, b) else None) for s in op.subscripts]
    return tma_obstacle(memref_of(op.ref), box, alignment, begin) is None
