"""
Kernels of too few rows: what a row is reduced to before a loop of reduces is computed again at each
point of the loop, so that there are as many rows as points.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dlc.dialects import loop
from dlc.dialects.access import YieldOpBase
from dlc.schedule.contraction_tiles import outer_loop


@contextmanager
def repeated(kernel: loop.KernelOp) -> Iterator[tuple[loop.KernelOp, int]]:
    """
    A kernel with its reduces repeated, for as long as the context lasts, and how many these are: a
    copy of no module, or the kernel itself and 0 where that is illegal or repeats more than it is
    worth: for a loop that reduces nothing.
    """
    found = _loop_behind_reduces(kernel)
    if found is None or not any(isinstance(op, loop.ReduceOp) for op in found.body.block.ops):
        yield kernel, 0
        return
    copy = kernel.clone()
    try:
        yield copy, repeat_reduces(copy)
    finally:
        copy.erase()


def repeat_reduces(kernel: loop.KernelOp) -> int:
    """
    Moves the reduces that stand before the only loop of a row into that loop, and says how many
    there are: 0 where there is no such loop, or where the kernel updates in place what they read,
    which is left as it is.
    """
    inner = _loop_behind_reduces(kernel)
    if inner is None:
        return 0
    block = inner.parent
    assert block is not None
    count = sum(isinstance(op, loop.ReduceOp) for op in block.ops)
    outer = block.parent_op()
    if isinstance(outer, loop.ForOp):
        _absorb(outer, inner)
    else:
        _sink(inner)
    return count


def _loop_behind_reduces(kernel: loop.KernelOp) -> loop.ForOp | None:
    """The only loop of a row, along which nothing is scanned, behind reduces of the row."""
    block = (outer_loop(kernel) or kernel).body.block
    *before, last = [op for op in block.ops if op.regions or isinstance(op, loop.StoreOp)] or [None]
    if not before or not all(isinstance(op, loop.ReduceOp) for op in before):
        return None
    if reduces_updated(kernel):
        return None
    return last if isinstance(last, loop.ForOp) and not loop.scans_in(last) else None


def reduces_updated(kernel: loop.KernelOp) -> bool:
    """True if reduces of a row read what the kernel updates in place: they run before it does."""
    updated = {*kernel.updated_refs.keys(), *kernel.updated_refs.values()}
    block = (outer_loop(kernel) or kernel).body.block
    reduces = [op for op in block.ops if isinstance(op, loop.ReduceOp)]
    reads = (op.ref for reduce in reduces for op in reduce.walk() if isinstance(op, loop.LoadOp))
    return not updated.isdisjoint(reads)


def _sink(inner: loop.ForOp) -> None:
    """Moves what stands before a loop into it."""
    first = inner.body.block.first_op
    assert first is not None
    while (op := inner.prev_op) is not None:
        op.detach()
        inner.body.block.insert_op_before(op, first)
        first = op


def _absorb(outer: loop.ForOp, inner: loop.ForOp) -> None:
    """Makes one loop of two, at each of whose points all that stands beside the inner one is."""
    block, extents = outer.body.block, [*outer.all_extents, *inner.all_extents]
    for axis in inner.axes:
        new = block.insert_arg(axis.type, len(block.args))
        new.name_hint = axis.name_hint
        axis.replace_all_uses_with(new)
    for op in list(inner.body.block.ops):
        op.detach()
        if not isinstance(op, YieldOpBase):
            block.insert_op_before(op, inner)
    inner.detach()
    inner.erase()
    outer.set_axes(extents)
