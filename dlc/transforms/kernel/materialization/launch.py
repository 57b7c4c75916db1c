"""How block and thread axes become a grid: decoding of block and thread numbers."""

from __future__ import annotations

from math import prod

from xdsl.ir import BlockArgument

from dlc.dialects import kernel, tile
from dlc.dialects.axes import BLOCK, THREAD
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.target import MAX_THREADS
from dlc.transforms.kernel.materialization.emitter import Emitter

DEALT_THREADS = 256
"""Threads of a block where free thread axes are dealt over blocks."""


def decode_axes(e: Emitter, func: kernel.FuncOp) -> None:
    """
    Emits what each block and thread axis of the launch is, and states grid and block of `func`.

    Thread axes that a combine or a stage needs, or that fit in a block beside block axes, stay
    whole, the last one innermost. Others are flattened and dealt over blocks.
    """
    launch = e.source.launch
    blocks, threads = launch.axes_of(BLOCK), launch.axes_of(THREAD)
    block_points = prod(launch.extent(a) for a in blocks)
    thread_points = prod(launch.extent(a) for a in threads)
    together = any(
        isinstance(op, tile.CombineOp | tile.StageOp | tile.ComputeOp | tile.RingOp)
        for op in launch.walk()
    )
    whole = together or (bool(blocks) and thread_points <= MAX_THREADS) or thread_points <= 1
    e.threads = max(thread_points, 1) if whole else max(1, min(DEALT_THREADS, thread_points))
    dealt_blocks = 1 if whole else -(-thread_points // e.threads)
    nothing = all(0 in shape_of(ref) for ref in e.source.output_refs)
    empty = block_points == 0 or thread_points == 0 or nothing
    func.set_launch_shape(0 if empty else block_points * dealt_blocks, e.threads)
    block_id = Expr()
    if func.grid_size > 1:
        name = blocks[0].name_hint if len(blocks) == 1 and dealt_blocks == 1 else "bid"
        block_id = Expr.of(e.insert(kernel.BlockIdOp(), name))
    thread_id = Expr()
    if e.threads > 1:
        name = threads[0].name_hint if len(threads) == 1 and whole else "tid"
        e.thread_id = thread_id = Expr.of(e.insert(kernel.ThreadIdOp(), name))
    _decode(e, blocks, block_id // dealt_blocks, launch)
    if whole:
        _decode(e, threads, thread_id, launch)
    else:
        point = (block_id % dealt_blocks) * e.threads + thread_id
        if len(threads) > 1:
            point = Expr.of(e.insert(kernel.IndexOp(point), "point"))
        last = Expr((), thread_points - 1)
        if (last - point).range[0] < 0:
            e.guard.append(last - point)
        _decode(e, threads, point, launch)
    for axis in (*blocks, *threads):
        e.once[axis] = Expr.of(e.scalars[axis]) if axis in e.scalars else Expr()


def _decode(e: Emitter, axes: list[BlockArgument], point: Expr, launch: tile.LaunchOp) -> None:
    """Gives each axis its part of a running number, the last axis running fastest."""
    rest = prod(max(launch.extent(a), 1) for a in axes)
    for number, axis in enumerate(axes):
        extent = max(launch.extent(axis), 1)  # an empty axis has no points to decode
        rest //= extent
        part = point // rest if number == 0 else (point // rest) % extent
        if part.values() and part == Expr.of(part.values()[0]):
            e.scalars[axis] = part.values()[0]
        elif part.is_constant:
            e.scalars[axis] = e.index_constant(part.constant)
        else:
            e.scalars[axis] = e.insert(kernel.IndexOp(part), axis.name_hint)
