"""
Kernels of too few rows: what a row is reduced to before a loop of reduces is computed again at each
point of the loop, so that there are as many rows as points.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.ir import Block

from dlc.dialects import loop
from dlc.dialects.access import YieldOpBase
from dlc.schedule.contraction_tiles import outer_loop


@contextmanager
def repeated(kernel: loop.KernelOp) -> Iterator[loop.KernelOp | None]:
    """
    A copy of a kernel as `tileify{repeat=true}` sees it, of no module, for as long as the context
    lasts: reduces that stand before the only loop of a row, which holds reduces, stand in it. None
    for any other kernel, and for one that updates in place what it may reduce.
    """
    outer = outer_loop(kernel)
    if kernel.updated_refs or _loop_behind_reduces((outer or kernel).body.block) is None:
        yield None
        return
    copy = kernel.clone()
    outer = outer_loop(copy)
    block = (outer or copy).body.block
    inner = _loop_behind_reduces(block)
    assert inner is not None
    if outer is None:
        _sink(block, inner)
    else:
        _absorb(outer, inner)
    try:
        yield copy
    finally:
        copy.erase()


def reduces_before(kernel: loop.KernelOp) -> int:
    """The number of reduces that `repeated` moves into a loop."""
    outer = outer_loop(kernel)
    ops = list((outer or kernel).body.block.ops)
    return sum(isinstance(op, loop.ReduceOp) for op in ops)


def _loop_behind_reduces(block: Block) -> loop.ForOp | None:
    """The only loop of a row that reduces, and none that scans, behind other reduces of the row."""
    *before, last = [op for op in block.ops if op.regions or isinstance(op, loop.StoreOp)] or [None]
    if not before or not all(isinstance(op, loop.ReduceOp) for op in before):
        return None
    if not isinstance(last, loop.ForOp) or loop.scans_in(last):
        return None
    return last if any(isinstance(op, loop.ReduceOp) for op in last.body.block.ops) else None


def _sink(block: Block, inner: loop.ForOp) -> None:
    """Moves what stands before a loop into it."""
    first = inner.body.block.first_op
    assert first is not None
    for op in list(block.ops):
        if op is inner:
            return
        op.detach()
        inner.body.block.insert_op_before(op, first)


def _absorb(outer: loop.ForOp, inner: loop.ForOp) -> None:
    """Makes one loop of two, at each of whose points all that stands beside the inner one is."""
    block, extents = outer.body.block, [*map(outer.hint, outer.axes), *map(inner.hint, inner.axes)]
    for axis in inner.axes:
        axis.replace_all_uses_with(block.insert_arg(axis.type, len(block.args)))
    for op in list(inner.body.block.ops):
        op.detach()
        if not isinstance(op, YieldOpBase):
            block.insert_op_before(op, inner)
    inner.detach()
    inner.erase()
    outer.set_axes(extents)
