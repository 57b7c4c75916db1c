"""How a block adds up in a table of its own what it adds at places that are data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from dlc.analysis.tile.block_tables import table_type
from dlc.dialects import kernel, tile
from dlc.dialects.layouts import static_shape
from dlc.dialects.tile_stores import number_of
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.stage_lowering import StageLowering, decode


def lower_table(to: StageLowering, op: tile.AtomicAddOp) -> None:
    """
    Inserts a table that the threads of a block fill with zeros, add to, and add to the output: all
    before and behind what stands in the kernel itself, so that all threads come by.
    """
    around, zero = _in_body(to, op), to.constant(IntegerAttr(0, i32))
    shape = static_shape(op.ref.type)
    (count,) = static_shape(table_type(op))
    if not count:
        return
    to.before(around)
    table = to.insert(kernel.AllocSharedOp(i32, [count]), f"{op.ref.name_hint}_table")

    def empty(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        to.builder.insert(kernel.StoreOp(zero, table, place, inside))

    def added(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        sum: SSAValue = to.insert(kernel.LoadOp(table, place, inside), "sum")
        if op.value.type != i32:
            sum = to.insert(arith.ExtSIOp(sum, i64))
        at = decode(place[0], shape)
        to.builder.insert(kernel.AtomicAddOp(sum, op.ref, at, inside))

    to.deal([count], 1, empty)
    to.before(op)
    value = op.value
    if value.type != i32:
        value = to.constant(IntegerAttr(int(number_of(value)), i32))
    at = reduce(
        lambda at, side: at * side[0] + side[1], zip(shape, op.subscripts, strict=True), Expr()
    )
    to.builder.insert(tile.AtomicAddOp(value, table, [at], op.across, op.where))
    assert around.next_op is not None
    to.before(around.next_op)
    to.place = op.location
    to.deal([count], 1, added)


def _in_body(to: StageLowering, op: Operation) -> Operation:
    """The operation of the kernel's body that an operation is or stands in."""
    while op.parent is not to.body:
        around = op.parent_op()
        assert around is not None
        op = around
    return op
