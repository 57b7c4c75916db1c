"""
What kernels of Loop IR do that nobody means: loads that leave their buffers, outputs that nothing
is stored to.

A load out of bounds gives 0, so that such a kernel runs; but who edits an extent or a subscript by
hand seldom means it. Conditions count, the load's own and those of the reduces around it. Where a
subscript computed in the body leads is not known, and not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from dlc.dialects.access import StoreOpBase, YieldOpBase
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import KernelOp, LoadOp
from dlc.dialects.size_index import extents_at
from dlc.ir.bounds import bounds, within
from dlc.ir.expr import Expr


def oversights(module: ModuleOp) -> Iterator[tuple[Operation, str]]:
    """Each operation with a sentence that says what it does."""
    for op in module.walk():
        if isinstance(op, KernelOp):
            yield from _unwritten(op)
        elif isinstance(op, LoadOp):
            yield from _outside(op)


def _unwritten(kernel: KernelOp) -> Iterator[tuple[Operation, str]]:
    for ref in kernel.output_refs:
        stored = any(isinstance(use.operation, StoreOpBase) for use in ref.uses)
        if not stored and 0 not in shape_of(ref.type):
            yield kernel, f"@{kernel.name_} stores nothing to its output %{ref.name_hint}"


def _outside(op: LoadOp) -> Iterator[tuple[Operation, str]]:
    known = list(_known(op))
    for number, extent in enumerate(extents_at(op.ref, op)):
        subscript = op.subscripts[number]
        low, high = bounds(subscript)
        if isinf(low) or isinf(high) or not within(subscript, extent, known):
            continue
        yield (
            op,
            f"subscript {number} of %{op.ref.name_hint} goes from {int(low)} to {int(high)}, and "
            f"there are {shape_of(op.ref)[number]} elements along it: beyond them it reads 0",
        )


def _known(op: LoadOp) -> Iterator[Expr]:
    """The conditions under which what a load gives is used."""
    yield from op.where
    block = op.parent
    while block is not None:
        if isinstance(block.last_op, YieldOpBase):
            yield from block.last_op.where
        around = block.parent_op()
        block = None if around is None else around.parent
