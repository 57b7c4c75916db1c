"""What the pictures of a kernel are drawn from: who stores which element, what is in which bank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod

from xdsl.ir import Operation, SSAValue

from dlc.analysis.kernel.banks import ways
from dlc.analysis.kernel.instruction_counts import first_lanes
from dlc.dialects import kernel, tile
from dlc.dialects.axes import BLOCK, THREAD, loops_around
from dlc.dialects.kernel_memory import is_shared
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.trace.model import Bank, Owners

MOST_POINTS = 1 << 16
"""Points of a block's tile that are looked at; of a larger one there is no picture."""
SIDE = 64
"""Rows and columns of a tile that are drawn, from its first corner."""


def owners_of(source: tile.KernelOp) -> Owners | None:
    """
    Which thread of block 0 stores each element of the kernel's first output, in its last two
    dimensions; None where that depends on data, or the tile is too large.
    """
    stores = (op for op in source.launch.walk() if isinstance(op, tile.StoreOp))
    store = next((op for op in stores if op.ref in source.output_refs), None)
    if store is None:
        return None
    extents = _extents(store)
    subscripts = [_expanded(e) for e in store.subscripts]
    values = {value for e in subscripts for value in e.values()}
    if not values <= extents.keys() or 0 in shape_of(store.ref):
        return None
    launch = source.launch
    threads = launch.axes_of(THREAD)
    moving = [a for a in extents if a not in launch.axes_of(BLOCK)]
    moving = [a for a in moving if a in values or a in threads]
    if prod(extents[a] for a in moving) > MOST_POINTS:
        return None
    shape, found = list(shape_of(store.ref)), dict[tuple[int, int], int]()
    blocks = dict.fromkeys(launch.axes_of(BLOCK), 0)
    for at in product(*(range(extents[a]) for a in moving)):
        point: Mapping[SSAValue, int] = {**blocks, **dict(zip(moving, at, strict=True))}
        place = [e.evaluate(point) for e in subscripts]
        if all(0 <= n < size for n, size in zip(place, shape, strict=True)):
            row, column = ([0, 0, *place])[-2:]
            found.setdefault((row, column), _number(threads, extents, point))
    rows = 1 + max((row for row, _ in found), default=-1)
    columns = 1 + max((column for _, column in found), default=-1)
    shown = [
        [found.get((row, column), -1) for column in range(min(columns, SIDE))]
        for row in range(min(rows, SIDE))
    ]
    whole = ([1, 1, *shape])[-2:]
    return Owners(store.ref.name_hint or "", whole, [rows, columns], shown)


def _extents(op: Operation) -> dict[SSAValue, int]:
    """All axes around an operation with their extents, the outermost first."""
    return {axis: loop.extent(axis) for loop in loops_around(op) for axis in loop.axes}


def _number(
    threads: Sequence[SSAValue], extents: Mapping[SSAValue, int], point: Mapping[SSAValue, int]
) -> int:
    """The number of a thread in its block, the last axis running fastest."""
    number = 0
    for axis in threads:
        number = number * max(extents[axis], 1) + point[axis]
    return number


def _expanded(expr: Expr) -> Expr:
    """An expression in axes: `tile.index` values are looked into."""

    def replace(value: SSAValue) -> Expr | None:
        owner = value.owner
        return _expanded(owner.subscripts[0]) if isinstance(owner, tile.IndexOp) else None

    return expr.substitute(replace)


def banks_of(func: kernel.FuncOp, line_of: Callable[[Operation], int]) -> list[Bank]:
    """The accesses of shared memory by the first warp, in its first iteration of all loops."""
    found: list[Bank] = []
    for op in func.walk():
        if isinstance(op, kernel.LoadOp | kernel.StoreOp) and is_shared(op.ref):
            ref, what = op.ref, "read" if isinstance(op, kernel.LoadOp) else "write"
        elif isinstance(op, kernel.CpAsyncOp):
            ref, what = op.target, "copy"
        elif isinstance(op, kernel.LdmatrixOp | kernel.StmatrixOp):
            ref, what = op.ref, "read" if isinstance(op, kernel.LdmatrixOp) else "write"
        else:
            continue
        lanes, width = first_lanes(func, op)
        name = f"{what} of {ref.name_hint}, {width} bytes a lane"
        found.append(Bank(name, line_of(op), ways(lanes, width), list(lanes), width))
    return found
