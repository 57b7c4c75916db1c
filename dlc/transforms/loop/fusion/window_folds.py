"""Writing out what a reader folds of windows of a tensor; see `written_out`."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TypeGuard

from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects.axes import loops_around
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.loop import KernelOp, LoadOp, ReduceOp
from dlc.ir.expr import Expr
from dlc.transforms.loop.fusion.inline import materialize
from dlc.transforms.loop.fusion.normal_form import normalize_kernel

MOST_POINTS = 16
"""Points of a window, and of those inside of it, that are written out: what computes one is there
once for each."""


def written_out(kernel: KernelOp, tensor: SSAValue) -> KernelOp | None:
    """
    A copy of a kernel, in normal form and not inserted anywhere, in which what it folds of windows
    of `tensor` is written out, value by value; None where it folds none. The windows have few
    points, and no two of them share one, as those of most pools: so each element is read once, and
    sums in its place are computed once. Side by side, they are one reduce (`join_reduces`),
    which is tiled as a product is, and what folds them is its epilogue.

    ```
    %0 = loop.reduce max %k in 2 -> f32 { %1 = loop.load %x[%i * 2 + %k] … loop.yield %1 : f32 }
    ```
    becomes
    ```
    %1 = loop.load %x[%i * 2]
    %2 = loop.load %x[%i * 2 + 1]
    %0 = arith.maximumf %1, %2 : f32
    ```
    """
    if not any(_folds_windows(op, _refs(kernel, tensor)) for op in kernel.walk()):
        return None
    copy = kernel.clone()
    refs = _refs(copy, tensor)
    for op in reversed(list(copy.walk())):  # those inside of others first
        if _folds_windows(op, refs):
            _write_out(op)
    normalize_kernel(copy, clean=True)
    return copy


def _refs(kernel: KernelOp, tensor: SSAValue) -> set[SSAValue]:
    return {r for r, v in zip(kernel.input_refs, kernel.inputs, strict=True) if v is tensor}


def _folds_windows(op: object, refs: set[SSAValue]) -> TypeGuard[ReduceOp]:
    """True for a reduce of few points, of which each load of a tensor takes one of its own."""
    if not isinstance(op, ReduceOp) or op.monoid.together or op.yielded.where:
        return False
    if any(op.least(a) != op.most(a) for a in op.axes):
        return False
    points = prod(map(op.hint, op.axes))
    loads = [inner for inner in op.walk() if isinstance(inner, LoadOp) and inner.ref in refs]
    if points == 1 or not 0 < points * len(loads) <= MOST_POINTS:
        return False
    return all(_are_apart(load, op) for load in loads)


def _are_apart(load: LoadOp, reduce: ReduceOp) -> bool:
    """
    True if an element is that of one point of a reduce, at one point of the loops around it, and
    windows follow each other along an axis of these.
    """
    subscripts = load.subscripts
    around = {axis for loop in loops_around(load) for axis in loop.axes}
    if not around <= {v for s in subscripts for v in s.values()}:
        return False
    for axis in reduce.axes:
        own = [s for s in subscripts if axis in s.values()]
        if len(own) != 1 or (step := own[0].coefficient(axis)) is None:
            return False
        others = [own[0].coefficient(v) for v in own[0].values() if v is not axis]
        length = abs(step) * reduce.hint(axis)
        if not others or any(other is None or abs(other) < length for other in others):
            return False
    return True


def _write_out(reduce: ReduceOp) -> None:
    """Puts the values of a reduce, and what folds them, in its place."""
    before, folded = Builder(InsertPoint.before(reduce)), list[SSAValue]()
    for point in product(*(range(reduce.hint(axis)) for axis in reduce.axes)):
        place: dict[SSAValue, Expr] = {
            a: Expr.of(n) for a, n in zip(reduce.axes, point, strict=True)
        }
        copies: dict[SSAValue, SSAValue] = {}
        for op in reduce.body.block.ops:
            if op is reduce.yielded:
                continue
            copy = op.clone(copies)
            Rewriter.insert_op(copy, InsertPoint.before(reduce))
            for inner in copy.walk():
                if isinstance(inner, IndexedOp):
                    inner.substitute(place.get)
                elif any(v in place for v in inner.operands):
                    materialize(inner, place)
        values = [copies.get(v, v) for v in reduce.yielded.values]
        folded = reduce.monoid.combine(before, folded, values) if folded else values
    Rewriter.replace_op(reduce, [], folded)
