"""What the picture of tensor cores is drawn from: which lane holds which element of a product."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.dialects.kernel_wgmma import WgmmaOpBase
from dlc.dialects.mma_layouts import HELD_FACTOR, MmaAttr
from dlc.dialects.mma_layouts import Fragment as Layout
from dlc.trace.model import Fragment, Product

MOST_COLUMNS = 32
"""Columns of a matrix that are drawn."""


def products_of(func: kernel.FuncOp, line_of: Callable[[Operation], int]) -> list[Product]:
    """The products that the warps or warpgroups of a kernel compute, each kind once."""
    ops: dict[MmaAttr, list[kernel.MmaOp | WgmmaOpBase]] = {}
    for op in func.walk():
        if isinstance(op, kernel.MmaOp | WgmmaOpBase):
            ops.setdefault(op.shape, []).append(op)
    return [_product(shape, found, line_of(found[0])) for shape, found in ops.items()]


def _product(shape: MmaAttr, ops: list[kernel.MmaOp | WgmmaOpBase], line: int) -> Product:
    sizes, first = shape.sizes, ops[0]
    held, shared = {"A": sizes.a, "B": sizes.b, "C": sizes.c}, list[str]()
    if isinstance(first, WgmmaOpBase):
        held = {"C": sizes.c} if first.held is None else {"A": HELD_FACTOR, "C": sizes.c}
        extents = {"A": (sizes.m, sizes.k), "B": (sizes.k, sizes.n)}
        shared = [
            "{} ({} x {}) in %{}, {}".format(name, *extents[name], d.ref.name_hint, _swizzled(d))
            for name, d in zip(first.described, first.factors, strict=True)
        ]
    fragments = [fragment_of(name, layout) for name, layout in held.items()]
    named = f"{shape.shape.data}, {shape.factors.data}"
    return Product(named, line, len(ops), sizes.c.lanes, fragments, shared)


def _swizzled(descriptor: kernel.MatrixDescriptorOp) -> str:
    *_, swizzle = descriptor.fields
    return f"swizzled in rows of {swizzle} bytes" if swizzle else "not swizzled"


def fragment_of(name: str, layout: Layout) -> Fragment:
    """The lane and the place of each element of a matrix, by its rows."""
    held = {
        layout.at(lane, place): (lane, place)
        for lane in range(layout.lanes)
        for place in range(layout.width)
    }
    columns = range(min(layout.columns, MOST_COLUMNS))
    rows = [[held[row, column] for column in columns] for row in range(layout.rows)]
    return Fragment(
        name,
        layout.columns,
        [[lane for lane, _ in row] for row in rows],
        [[place for _, place in row] for row in rows],
    )
