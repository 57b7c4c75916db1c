"""How computed slabs become loops over their elements, dealt over all threads of the block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from dlc.analysis.tile.fragments import run_width
from dlc.dialects import kernel, tile
from dlc.ir.expr import Expr
from dlc.ir.monoid import MONOIDS
from dlc.transforms.kernel.materialization.emitter import Emitter, LocalArray


def emit_computed_slab(
    e: Emitter, op: tile.ComputeOp, emit: Callable[[Sequence[Operation]], None]
) -> None:
    """
    Emits the computation of a slab: each thread computes runs of neighbouring elements, whose loads
    and stores are wide. Within a run, the slab's last axis is a register axis. `emit` emits
    operations.
    """
    width, (value,) = run_width(op.result_type), op.yielded.values
    buffer = e.scratch(value.type, op.sizes, op.result.name_hint, op.result_type.layout)
    e.scalars[op.result] = buffer
    lanes = op.axes[-1:] if width > 1 else ()
    e.extents.update(dict.fromkeys(lanes, width))
    zero = MONOIDS["add"].identity([value.type])[0]

    def one(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        meanings: dict[SSAValue, Expr] = dict(zip(op.axes, place, strict=True))
        with e.along_registers(lanes, meanings), e.only_if(inside):
            emit(list(op.body.block.ops))
            if op.yielded.where:
                kept = e.local(value.type, lanes, value.name_hint)
                e.over(lanes, lambda: select(kept))
                e.arrays[value] = kept
            e.over(lanes, store)

    def select(kept: LocalArray) -> None:
        where = e.exprs(op.yielded.where)
        element = e.insert(kernel.SelectOp(e.value(value), where, e.constant(zero)))
        e.builder.insert(kernel.StoreOp(element, kept.ref, e.at(kept)))

    def store() -> None:
        subscripts = e.exprs([Expr.of(axis) for axis in op.axes])
        e.builder.insert(kernel.StoreOp(e.value(value), buffer, subscripts))

    e.deal(op.sizes, width, one)
