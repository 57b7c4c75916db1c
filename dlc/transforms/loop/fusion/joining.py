"""Contractions side by side that share an operand become one; see `join_contractions`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.loop.contraction import Contraction, contractions
from dlc.dialects.loop import KernelOp, ReduceOp, YieldOp
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.expr import Expr


def join_contractions(kernel: KernelOp) -> bool:
    """
    Makes contractions in one block that run over the same rows, columns and points, and share a
    load, one reduce of all their values, which can be tiled and reads the shared operand once;
    says if there are any. In the joined body, what both had is there twice.

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
    if sum(isinstance(op, ReduceOp) for op in kernel.walk()) < 2:
        return None
    for a, b in combinations(contractions(kernel), 2):
        first, second = a.reduce, b.reduce
        assert isinstance(first, ReduceOp)
        assert isinstance(second, ReduceOp)
        if _alike(a, b) and _shares(a, b) and _stands_before(first, second):
            return first, second
    return None


def _alike(a: Contraction, b: Contraction) -> bool:
    """True if two contractions fold alike, over the same points and along the same axes."""
    one, other = a.reduce, b.reduce
    if one.monoid_name != other.monoid_name or one.extents != other.extents:
        return False
    where = [c.substitute(_axes(other, one).get) for c in other.yielded.where]
    along = [(c.batch, c.rows, c.columns) for c in (a, b)]
    return not one.monoid.together and where == [*one.yielded.where] and along[0] == along[1]


def _axes(old: ReduceOpBase, new: ReduceOpBase) -> dict[SSAValue, Expr]:
    """The axes of one reduce in terms of those of another."""
    return {a: Expr.of(b) for a, b in zip(old.axes, new.axes, strict=True)}


def _shares(a: Contraction, b: Contraction) -> bool:
    """True if two contractions load the same elements of a tensor."""

    def elements(c: Contraction, axes: dict[SSAValue, Expr]) -> set[object]:
        def at(exprs: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(e.substitute(axes.get) for e in exprs)

        loads = (*c.row_loads, *c.column_loads)
        return {(op.ref, at(op.subscripts), at(op.where)) for op in loads}

    return not elements(a, {}).isdisjoint(elements(b, _axes(b.reduce, a.reduce)))


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
