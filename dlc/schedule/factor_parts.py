"""Products of f32 of which both factors can be laid out in parts that tensor cores multiply."""

from __future__ import annotations

from math import ceil

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32

from dlc.dialects import loop
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.ir.known_numbers import is_number
from dlc.schedule.contraction_tiles import tiled_contraction
from dlc.schedule.packing import Kept, Packing, obstacle
from dlc.target import WIDEST_ACCESS

COUNT = 3
"""Products of parts for one of elements, side by side along K."""


def factors_to_part(kernel: loop.KernelOp) -> tuple[Packing, Packing] | Kept | None:
    """
    The factors of the sole contraction of a kernel, one along rows and one along columns, as they
    are laid out for one of its parts: batches, rows or columns, and K, in multiples of 16 bytes.
    What keeps a factor as it lies: so does what stands for elements that are not read, unless it is
    0 or K such a multiple. None of a kernel that sums no products of elements of f32 along
    one axis, or that has sizes.
    """
    if not all(isinstance(n, int) for ref in kernel.refs for n in shape_of(ref.type)):
        return None
    tiled = tiled_contraction(kernel)
    if tiled is None or not tiled.is_chunked:
        return None
    reduce, columns = tiled.found.reduce, tiled.column
    (value, *others), (k, *folded) = reduce.yielded.values, reduce.axes
    if others or folded or reduce.yielded.where or reduce.monoid_name.data != "add":
        return None
    if not isinstance(value.owner, arith.MulfOp) or loop.PARTS in reduce.attributes:
        return None
    loads = [operand.owner for operand in value.owner.operands]
    factors = [op for op in loads if isinstance(op, loop.LoadOp) and op.result.type == f32]
    if len({*factors}) != 2 or {*factors} != {*tiled.chunked}:
        return None
    if columns in tiled.chunked[factors[0]]:
        factors.reverse()
    found: list[Packing] = []
    extents = {a: op.extent(a) for op in (tiled.outer, reduce) for a in op.axes}
    for load, own, other in zip(factors, (tiled.row, columns), (columns, tiled.row), strict=True):
        varies = tiled.chunked[load]
        points = {axis: n for axis, n in extents.items() if axis in varies}
        if own not in varies or other in varies or k not in varies:
            return None
        written = load.ref not in kernel.constant_refs
        if why := obstacle(load, points, extents.keys(), written=written):
            return Kept(load, why)
        axes = (*(axis for axis in points if axis not in (k, own)), own, k)
        run = WIDEST_ACCESS // element_bytes(load.result.type)
        along = ceil(points[k] / run) * run
        if along > points[k] and load.default is not None and not is_number(load.default, 0):
            return Kept(load, f"is not 0 where it is not read, and so behind its {points[k]} of K")
        found.append(Packing(load, axes, (*(points[axis] for axis in axes[:-1]), along)))
    rows, columns_ = found
    return rows, columns_
