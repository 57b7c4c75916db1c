"""
The part of the `tile` dialect that runs at the points of register axes one after the other.

A value that varies along register axes has an element at each point of them, and memory has not:
what goes through memory of a thread says at which points, and in which order with what else.

```
%acc = tile.accumulator %zero over(%i) : f32 -> memref<4xf32, #kernel.local>
tile.for serial(%k in 8) {
  %a = tile.load %x[%k, %i] : memref<8x4xf32>
  tile.each over(%i) {
    %old = kernel.load %acc[%i] : memref<4xf32, #kernel.local>
    %new = arith.addf %old, %a : f32
    kernel.store %new, %acc[%i] : memref<4xf32, #kernel.local>
  }
}
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.axes import REGISTER, AxesOp
from dlc.dialects.effects import AllocatesResult
from dlc.dialects.kernel_memory import LocalAttr, memref_type


@irdl_op_definition
class EachOp(IRDLOperation):
    """
    `tile.each over(%i, %j) { … }`

    Runs its body, operations of Kernel IR, at each point of register axes around it, one point
    after the other, the last axis fastest. What the body reads of values outside is their element
    at the point.
    """

    name = "tile.each"
    axes = var_operand_def(IndexType())
    body = region_def("single_block")
    assembly_format = "`over` `(` $axes `)` $body attr-dict"
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(self, axes: Sequence[SSAValue], body: Region) -> None:
        super().__init__(operands=[axes], regions=[body])

    def verify_(self) -> None:
        if not self.axes:
            raise VerifyException("expected register axes, found none")
        for axis in self.axes:
            extent_of_register(axis)
        if self.body.block.args:
            raise VerifyException(
                f"expected a body without arguments, found {len(self.body.block.args)}"
            )
        for op in self.body.walk():
            if op.dialect_name() == self.dialect_name():
                raise VerifyException(f"expected a body of Kernel IR, found '{op.name}'")


@irdl_op_definition
class AccumulatorOp(IRDLOperation):
    """
    `%acc = tile.accumulator %zero over(%i, %j) : f32 -> memref<4x8xf32, #kernel.local>`

    Memory of a thread, with an element for each point of register axes; at first, each is the
    value that is named. Several accumulators of the same axes may be made together.
    """

    name = "tile.accumulator"
    values = var_operand_def(AnyAttr())
    axes = var_operand_def(IndexType())
    results_ = var_result_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$values (`over` `(` $axes^ `)`)? attr-dict `:` type($values) `->` type($results_)"
    )
    traits = traits_def(AllocatesResult())

    def __init__(self, values: Sequence[SSAValue], axes: Sequence[SSAValue]) -> None:
        shape = tuple(extent_of_register(axis) for axis in axes)
        types = [memref_type(v.type, shape, space=LocalAttr()) for v in values]
        super().__init__(operands=[values, axes], result_types=[types])

    def verify_(self) -> None:
        shape = tuple(extent_of_register(axis) for axis in self.axes)
        expected = [memref_type(v.type, shape, space=LocalAttr()) for v in self.values]
        if list(self.result_types) != expected:
            raise VerifyException(
                f"expected memory of type {', '.join(map(str, expected))}, found "
                f"{', '.join(map(str, self.result_types))}"
            )


def extent_of_register(axis: SSAValue) -> int:
    """The number of points of a register axis; VerifyException for any other value."""
    loop = axis.owner.parent_op() if isinstance(axis.owner, Block) else None
    if not isinstance(loop, AxesOp) or not loop.KINDS or loop.kind(axis) != REGISTER:
        raise VerifyException(f"expected register axes, found %{axis.name_hint}")
    return loop.extent(axis)
