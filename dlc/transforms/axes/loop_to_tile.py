"""A kernel of the loop dialect as one of the tile dialect, run by a single thread."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import loop, tile
from dlc.dialects.axes import SERIAL, AxesOp

_TILE_OF: dict[type[Operation], type[Operation]] = {
    loop.ForOp: tile.ForOp,
    loop.ReduceOp: tile.ReduceOp,
    loop.YieldOp: tile.YieldOp,
    loop.LoadOp: tile.LoadOp,
    loop.StoreOp: tile.StoreOp,
    loop.IndexOp: tile.IndexOp,
    loop.SelectOp: tile.SelectOp,
}


def as_tile(kernel: loop.KernelOp) -> tile.KernelOp:
    """
    Replaces a kernel by a tile kernel with the same program in a launch without axes. Loops and
    reduces become serial; constants stay outside the launch.
    """
    body = kernel.body.block
    launch = tile.LaunchOp([], Region(Block()))
    terminator = launch.body.block.last_op
    assert terminator is not None
    for op in [op for op in body.ops if not isinstance(op, arith.ConstantOp)]:
        op.detach()
        launch.body.block.insert_op_before(op, terminator)
    body.add_op(launch)
    for op in list(kernel.body.walk()):
        if type(op) in _TILE_OF:
            _convert(op)
    new = tile.KernelOp.create(
        operands=kernel.operands,
        result_types=kernel.result_types,
        properties=kernel.properties,
        attributes=kernel.attributes,
        regions=[kernel.detach_region(0)],
    )
    new.location = kernel.location
    Rewriter.replace_op(kernel, new)
    return new


def _convert(op: Operation) -> None:
    """Replaces an op of the loop dialect by the same op of the tile dialect."""
    properties = dict(op.properties)
    if isinstance(op, AxesOp):
        properties["kinds"] = ArrayAttr([StringAttr(SERIAL)] * len(op.axes))
    new = _TILE_OF[type(op)].create(
        operands=op.operands,
        result_types=op.result_types,
        properties=properties,
        attributes=op.attributes,
        regions=[op.detach_region(r) for r in list(op.regions)],
    )
    new.location = op.location
    for old_result, result in zip(op.results, new.results, strict=True):
        result.name_hint = old_result.name_hint
        old_result.replace_all_uses_with(result)
    block = op.parent
    assert block is not None
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.detach()
    op.erase()
