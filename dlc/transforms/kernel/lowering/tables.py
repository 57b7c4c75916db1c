"""How a block adds up in a table of its own what it adds at places that are data."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from dlc.analysis.tile.tables import table_type
from dlc.dialects import kernel, tile
from dlc.dialects.layouts import static_shape
from dlc.dialects.tile_stores import number_of
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.stage_lowering import StageLowering


def lower_table(to: StageLowering, op: tile.AtomicAddOp) -> None:
    """
    Inserts a table that the threads of a block fill with zeros, add to, and add to the output: all
    before and behind what stands in the kernel itself, so that all threads come by.
    """
    type, shape = table_type(op), static_shape(op.ref.type)
    around, zero = _in_body(to, op), to.constant(IntegerAttr(0, i32))
    to.before(around)
    table = to.insert(kernel.AllocSharedOp(i32, shape, type.layout), f"{op.ref.name_hint}_table")
    to.deal(
        shape,
        1,
        lambda place, inside: _insert(to, kernel.StoreOp(zero, table, place, inside)),
    )
    to.before(op)
    value = op.value
    if value.type != i32:
        value = to.constant(IntegerAttr(int(number_of(value)), i32))
    _insert(to, tile.AtomicAddOp(value, table, op.subscripts, op.across, op.where))
    assert around.next_op is not None
    to.before(around.next_op)
    to.place = op.location

    def added(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        sum: SSAValue = to.insert(kernel.LoadOp(table, place, inside), "sum")
        if op.value.type != i32:
            sum = to.insert(arith.ExtSIOp(sum, i64))
        _insert(to, kernel.AtomicAddOp(sum, op.ref, place, inside))

    to.deal(shape, 1, added)


def _insert(to: StageLowering, op: Operation) -> None:
    to.builder.insert(op)


def _in_body(to: StageLowering, op: Operation) -> Operation:
    """The operation of the kernel's body that an operation is or stands in."""
    while op.parent is not to.body:
        around = op.parent_op()
        assert around is not None
        op = around
    return op
