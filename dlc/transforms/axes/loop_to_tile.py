"""A kernel of the loop dialect as one of the tile dialect, run by a single thread."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import Rewriter

from dlc.dialects import loop, tile
from dlc.dialects.axes import SERIAL, AxesOp, loops_around
from dlc.dialects.size_index import SizeIndexOp
from dlc.ir.expr import Expr

_TILE = {op.name: op for op in tile.Tile.operations}


def as_tile(kernel: loop.KernelOp) -> tile.KernelOp:
    """
    Replaces a kernel by a tile kernel with the same program in a launch without axes. Loops and
    reduces become serial; constants and sizes stay outside the launch.
    """
    body = kernel.body.block
    launch = tile.LaunchOp([], Region(Block()))
    launch.location = kernel.location
    terminator = launch.body.block.last_op
    assert terminator is not None
    for op in [op for op in body.ops if not isinstance(op, arith.ConstantOp | SizeIndexOp)]:
        op.detach()
        launch.body.block.insert_op_before(op, terminator)
    body.add_op(launch)
    for op in list(launch.body.walk()):
        if op.name.startswith("loop."):
            _convert(op)
    new = _convert(kernel)
    assert isinstance(new, tile.KernelOp)
    return new


def _convert(op: Operation) -> Operation:
    """Replaces an operation of the loop dialect by the same one of the tile dialect."""
    if isinstance(op, AxesOp):
        op.set_axes(op.all_extents, [SERIAL] * len(op.axes))
    new = _TILE[op.name.replace("loop.", "tile.")].create(
        operands=op.operands,
        result_types=op.result_types,
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(r) for r in list(op.regions)],
    )
    new.location = op.location
    Rewriter.replace_op(op, new)
    if isinstance(new, tile.AtomicAddOp):
        told = {value for subscript in new.subscripts for value in subscript.values()}
        axes = [axis for around in loops_around(new) for axis in around.axes]
        new.set_across([Expr.of(axis) for axis in axes if axis not in told])
    return new
