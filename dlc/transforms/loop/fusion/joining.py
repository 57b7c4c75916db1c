"""Reduces side by side that load the same elements become one; see `join_reduces`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.loop.contraction import Contraction, contraction_of
from dlc.dialects.axes import AxesOp
from dlc.dialects.loop import KernelOp, LoadOp, ReduceOp, YieldOp
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.expr import Expr
from dlc.ir.variance import variance


def join_reduces(kernel: KernelOp) -> bool:
    """
    Makes reduces in one block that fold alike over the same points, and share a load, one reduce of
    all their values, which sweeps what they share once; says if there are any. Contractions are
    joined that have the same rows and columns: they are tiled as one. In the joined body, what both
    had is there twice.

    ```
    %a = loop.reduce add %k in 64 -> f32 { … loop.load %x[%i, %k] … }
    %b = loop.reduce add %k in 64 -> f32 { … loop.load %x[%i, %k] … }
    ```
    becomes
    ```
    %a, %b = loop.reduce add %k in 64 -> (f32, f32) { … loop.yield %u, %v : f32, f32 }
    ```
    """
    joined = False
    while (pair := _pair(kernel)) is not None:
        _join(*pair)
        joined = True
    return joined


def _pair(kernel: KernelOp) -> tuple[ReduceOp, ReduceOp] | None:
    """The first two reduces that can be one."""
    reduces = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    if len(reduces) < 2:
        return None
    along = variance(kernel)
    found = {reduce: contraction_of(reduce, along) for reduce in reduces}
    for first, second in combinations(reduces, 2):
        a, b = found[first], found[second]
        alike = _alike(first, second) and _side_by_side(a, b)
        if alike and _shares(first, second) and _stands_before(first, second):
            return first, second
    return None


def _alike(one: ReduceOp, other: ReduceOp) -> bool:
    """True if two reduces fold alike, over the same points."""
    if one.monoid_name != other.monoid_name or one.extents != other.extents:
        return False
    where = [c.substitute(_axes(other, one).get) for c in other.yielded.where]
    nested = any(isinstance(op, AxesOp) for r in (one, other) for op in r.body.walk())
    return not one.monoid.together and not nested and where == [*one.yielded.where]


def _side_by_side(a: Contraction | None, b: Contraction | None) -> bool:
    """True if two reduces are contractions of the same rows and columns, or both are none."""
    if a is None or b is None:
        return a is b
    return (a.batch, a.rows, a.columns) == (b.batch, b.rows, b.columns)


def _axes(old: ReduceOpBase, new: ReduceOpBase) -> dict[SSAValue, Expr]:
    """The axes of one reduce in terms of those of another."""
    return {a: Expr.of(b) for a, b in zip(old.axes, new.axes, strict=True)}


def _shares(a: ReduceOp, b: ReduceOp) -> bool:
    """True if two reduces load the same elements of a tensor, others at each of their points."""

    def elements(reduce: ReduceOp, axes: dict[SSAValue, Expr]) -> set[object]:
        def at(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(e.substitute(axes.get) for e in exprs)

        loads = (op for op in reduce.body.walk() if isinstance(op, LoadOp))
        return {(op.ref, at(op.subscripts), at(op.where)) for op in loads}

    return not elements(a, {}).isdisjoint(elements(b, _axes(b, a)))


def _stands_before(first: Operation, second: Operation) -> bool:
    """True if `first` comes before `second` in one block and `second` can be computed before it."""
    if first.parent is None or second.parent is not first.parent:
        return False
    between = set[Operation]()
    op: Operation | None = first
    while op is not None and op is not second:
        between.add(op)
        op = op.next_op
    used = {v.owner for inner in second.walk() for v in inner.operands}
    return op is second and between.isdisjoint(used)


def _join(first: ReduceOp, second: ReduceOp) -> None:
    """Puts one reduce in the place of the first of two."""
    results = [*first.results, *second.results]
    values = [*first.yielded.values, *second.yielded.values]
    joined = YieldOp(values, first.yielded.where)
    for old, new in zip(second.axes, first.axes, strict=True):
        old.replace_all_uses_with(new)
    block = first.body.block
    for op in list(second.body.block.ops):
        op.detach()
        block.add_op(op)
    for op in [op for op in block.ops if isinstance(op, YieldOp)]:
        Rewriter.erase_op(op)
    block.add_op(joined)
    types = [r.type for r in results]
    reduce = ReduceOp(
        first.monoid_name.data, first.all_extents, types, first.detach_region(first.body)
    )
    reduce.location = first.location
    for old, new in zip(results, reduce.results, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(first, reduce, reduce.results[: len(first.results)])
    Rewriter.replace_op(second, [], reduce.results[len(first.results) :])
