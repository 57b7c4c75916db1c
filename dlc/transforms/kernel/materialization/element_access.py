"""How loads and stores become Kernel IR."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, Operation, SSAValue

from dlc.analysis.tile.fragments import fragment_axis
from dlc.dialects import kernel, tile
from dlc.dialects.access import simplify_where
from dlc.dialects.layouts import shape_of
from dlc.ir.bounds import within
from dlc.transforms.kernel.materialization.emitter import Emitter, LocalArray


def fragment_axes(e: Emitter, op: Operation) -> tuple[BlockArgument, ...] | None:
    """
    The register axes of an access that takes neighbouring elements along one of them, that one
    last; None for anything else. It gets loops of its own, for `vectorize-accesses`.
    """
    if not isinstance(op, tile.LoadOp | tile.StoreOp):
        return None
    axes = e.register_axes(op)
    last = fragment_axis(op, axes)
    return None if last is None else (*(a for a in axes if a is not last), last)


def emit_load(e: Emitter, op: tile.LoadOp) -> SSAValue:
    """Emits a load at the current point, guarded where it could leave its memref."""
    assert isinstance(op.ref.type, MemRefType)
    subscripts, where = e.exprs(op.subscripts), e.exprs(op.where)
    for subscript, extent in zip(subscripts, shape_of(op.ref), strict=True):
        where += within(subscript, extent, where)
    where = simplify_where(where)
    default = e.value(op.default) if op.default is not None and where else None
    new = kernel.LoadOp(e.value(op.ref), subscripts, where, default)
    new.location = op.location
    return e.insert(new, op.result.name_hint)


def emit_store(e: Emitter, op: tile.StoreOp | tile.AtomicAddOp) -> None:
    """Emits a store or an atomic add at the current point."""
    subscripts, where = e.exprs(op.subscripts), e.exprs(op.where)
    effect = kernel.AtomicAddOp if isinstance(op, tile.AtomicAddOp) else kernel.StoreOp
    new = effect(e.value(op.value), e.scalars[op.ref], subscripts, simplify_where(where))
    new.location = op.location
    e.builder.insert(new)


def emit_fragment(e: Emitter, op: tile.LoadOp) -> LocalArray:
    """Emits a load at every point of its register axes, into a local array."""
    axes = fragment_axes(e, op) or e.register_axes(op)
    array = e.local(op.result.type, axes, op.result.name_hint)

    def element() -> None:
        e.builder.insert(kernel.StoreOp(emit_load(e, op), array.ref, e.at(array)))

    e.over(axes, element)
    return array
