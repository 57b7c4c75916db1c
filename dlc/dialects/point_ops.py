"""
The part of the `tile` dialect that runs at the points of register axes one after the other.

A value that varies along register axes has an element at each point of them, and memory has not:
what goes through memory of a thread says at which points, and in which order with what else.

```
tile.for register(%i in 4) {
  %a = tile.load %x[%i] : memref<4xf32>
  %kept = kernel.alloc_local : memref<4xf32, #kernel.local>
  tile.each over(%i) {
    kernel.store %a, %kept[%i] : memref<4xf32, #kernel.local>
  }
}
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.axes import REGISTER, AxesOp


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


def extent_of_register(axis: SSAValue) -> int:
    """The number of points of a register axis; VerifyException for any other value."""
    loop = axis.owner.parent_op() if isinstance(axis.owner, Block) else None
    if not isinstance(loop, AxesOp) or not loop.KINDS or loop.kind(axis) != REGISTER:
        raise VerifyException(f"expected register axes, found %{axis.name_hint}")
    return loop.extent(axis)
