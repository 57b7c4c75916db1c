"""How loads and stores become Kernel IR."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.analysis.tile.fragments import fragment_axis
from dlc.dialects import kernel, tile
from dlc.dialects.access import LoadOpBase
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.kernel_memory import is_local
from dlc.dialects.layouts import shape_of
from dlc.dialects.point_ops import extent_of_register
from dlc.dialects.size_index import extents_at
from dlc.ir.bounds import within
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.register_lowering import LocalArray, RegisterLowering


def fragment_axes(to: RegisterLowering, op: Operation) -> tuple[BlockArgument, ...] | None:
    """
    The register axes of an access that takes neighbouring elements along one of them, that one
    last; None for anything else. It gets loops of its own, for `vectorize-accesses`.
    """
    if not isinstance(op, tile.LoadOp | tile.StoreOp):
        return None
    axes = to.register_axes(op)
    last = fragment_axis(op, axes)
    return None if last is None else (*(a for a in axes if a is not last), last)


def lower_load(to: RegisterLowering, op: tile.LoadOp) -> SSAValue:
    """Inserts a load at the current point, guarded where it could leave its memref."""
    assert isinstance(op.ref.type, MemRefType)
    subscripts, where = to.exprs(op.subscripts), to.exprs(op.where)
    for subscript, extent in zip(subscripts, to.exprs(extents_at(op.ref, op)), strict=True):
        where += within(subscript, extent, where)
    where = simplify_where(where)
    default = to.value(op.default) if op.default is not None and where else None
    new = kernel.LoadOp(to.value(op.ref), subscripts, where, default)
    new.location = op.location
    return to.insert(new, op.result.name_hint)


def lower_store(to: RegisterLowering, op: tile.StoreOp | tile.AtomicAddOp) -> None:
    """Inserts a store or an atomic add at the current point."""
    subscripts, where = to.exprs(op.subscripts), to.exprs(op.where)
    effect = kernel.AtomicAddOp if isinstance(op, tile.AtomicAddOp) else kernel.StoreOp
    new = effect(to.value(op.value), to.scalars[op.ref], subscripts, simplify_where(where))
    new.location = op.location
    to.builder.insert(new)


def lower_fragment(to: RegisterLowering, op: tile.LoadOp) -> LocalArray:
    """Inserts a load at every point of its register axes, into a local array."""
    axes = fragment_axes(to, op) or to.register_axes(op)
    array = to.local(op.result.type, axes, op.result.name_hint)
    to.over(axes, lambda: to.store(lower_load(to, op), array))
    return array


def array_of(to: RegisterLowering, op: tile.LoadOp) -> LocalArray | None:
    """
    The local array that a load gives all elements of, one at each point of its register axes, and
    that nothing writes afterwards; None if it gives less or something else.
    """
    if not is_local(op.ref) or not op.subscripts or op.where:
        return None
    axes = tuple(a for a in op.indices if a in to.registers)
    whole = tuple(map(extent_of_register, axes)) == shape_of(op.ref)
    if not whole or op.subscripts != tuple(map(Expr.of, axes)):
        return None
    for use in op.ref.uses:
        other = None if isinstance(use.operation, LoadOpBase) else beside(use.operation, op)
        if other is not None and op.is_before_in_block(other):
            return None
    return LocalArray(to.scalars[op.ref], axes)


def beside(op: Operation, sibling: Operation) -> Operation | None:
    """The op of `sibling`'s block that `op` stands in."""
    current: Operation | None = op
    while current is not None and current.parent is not sibling.parent:
        current = current.parent_op()
    return current
