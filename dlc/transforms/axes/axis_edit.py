"""The one primitive behind every split of an axis: replace the axes of an operation by others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.axes import AxesOp
from dlc.dialects.indexed_op import indexed_ops
from dlc.dialects.kernel_op import KernelOpBase
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.dialects.size_index import size_expr
from dlc.dialects.tile import LaunchOp
from dlc.ir.attributes import INDEX
from dlc.ir.bounds import sure
from dlc.ir.expr import Expr


@dataclass(frozen=True, eq=False)
class Axis:
    """A new axis, itself and no other: its name in the text, its number of points, its kind."""

    name: str | None
    extent: int
    kind: str


Meaning = Callable[[Mapping[Axis, Expr]], dict[BlockArgument, Expr]]
"""What each of the old axes is, given where the new ones stand."""


def replace_axes(op: AxesOp, new: Sequence[Axis], meaning: Meaning) -> dict[Axis, BlockArgument]:
    """
    Gives `op` the axes `new`, each old axis becoming the expression that `meaning` states.

    Where such an expression can pass the old extent, the effects that mention the axis (stores,
    and the fold of a reduce whose own axis it is) get the condition that it does not; so do loads
    of what the kernel updates, which other points may be storing there. Axes of extent 1 are left
    out. Returns the block arguments of the others. A launch whose blocks run in the order of an
    axis keeps that, while it has the axis.
    """
    old, order = op.axes, op.order if isinstance(op, LaunchOp) else None
    old_extents = [op.extent(a) for a in old]
    block = op.body.block
    kept = [axis for axis in new if axis.extent != 1]
    arguments: dict[Axis, BlockArgument] = {}
    for axis in kept:
        arguments[axis] = block.insert_arg(INDEX, len(block.args))
        arguments[axis].name_hint = axis.name
    op.set_axes(
        [*old_extents, *(a.extent for a in kept)],
        [*([kept[0].kind if kept else "serial"] * len(old)), *(a.kind for a in kept)],
    )
    exprs = {a: Expr(((arguments[a], 1),)) if a in arguments else Expr() for a in new}
    meanings: dict[SSAValue, Expr] = {**meaning(exprs)}
    bounds: dict[SSAValue, Expr] = {}
    for axis, extent in zip(old, old_extents, strict=True):
        beyond = size_expr(extent, op) - 1 - meanings[axis]
        if not sure(beyond):
            bounds[axis] = beyond

    updated = _updated(op)
    own_yield = block.last_op if isinstance(op, ReduceOpBase) else None
    for inner in indexed_ops(op):
        indices = inner.indices
        mentioned = [a for a in old if a in indices]
        extra: list[Expr] = []
        if inner is own_yield:
            extra = list(bounds.values())
        elif isinstance(inner, StoreOpBase) or (
            isinstance(inner, LoadOpBase) and inner.ref in updated
        ):
            extra = [bounds[a] for a in mentioned if a in bounds]
        if mentioned or extra:
            inner.substitute(meanings.get, extra)
    for axis in old:
        for use in list(axis.uses):  # a combine names the axes that it folds across
            (value,) = meanings[axis].values()
            use.operation.operands[use.index] = value
        block.erase_arg(axis)
    op.set_axes([a.extent for a in kept], [a.kind for a in kept])
    if isinstance(op, LaunchOp) and order is not None:
        slowest, waves = order
        op.last_first = None
        for axis in arguments.values():
            if meanings[slowest] == Expr.of(axis):
                op.set_order(axis, waves)
    return arguments


def _updated(op: Operation) -> Collection[SSAValue]:
    """The inputs that the kernel around an operation updates in place."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, KernelOpBase):
        parent = parent.parent_op()
    return () if parent is None else list(parent.updated_refs.values())


def keep(axis: BlockArgument, op: AxesOp, kind: str | None = None) -> Axis:
    """An axis like an old one, of another kind if one is given."""
    return Axis(axis.name_hint, op.extent(axis), kind or op.kind(axis))
