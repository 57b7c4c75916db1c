"""What the picture of tensor cores is drawn from: which lane holds which element of a product."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.dialects.mma_layouts import Fragment as Layout
from dlc.dialects.mma_layouts import MmaAttr
from dlc.target import WARP
from dlc.trace.model import Fragment, Product


def products_of(func: kernel.FuncOp, line_of: Callable[[Operation], int]) -> list[Product]:
    """The products that the warps of a kernel compute, each kind once."""
    ops: dict[MmaAttr, list[kernel.MmaOp]] = {}
    for op in func.walk():
        if isinstance(op, kernel.MmaOp):
            ops.setdefault(op.shape, []).append(op)
    return [_product(shape, line_of(found[0]), len(found)) for shape, found in ops.items()]


def _product(shape: MmaAttr, line: int, ops: int) -> Product:
    sizes = shape.sizes
    named = {"A": sizes.a, "B": sizes.b, "C": sizes.c}
    fragments = [fragment_of(name, layout) for name, layout in named.items()]
    return Product(f"{shape.shape.data}, {shape.factors.data}", line, ops, fragments)


def fragment_of(name: str, layout: Layout) -> Fragment:
    """The lane and the place of each element of a matrix, by its rows."""
    held = {
        layout.at(lane, place): (lane, place)
        for lane in range(WARP)
        for place in range(layout.width)
    }
    rows = [[held[row, column] for column in range(layout.columns)] for row in range(layout.rows)]
    return Fragment(
        name,
        [[lane for lane, _ in row] for row in rows],
        [[place for _, place in row] for row in rows],
    )
