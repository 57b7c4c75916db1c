"""
How the grids of launches that follow each other overlap (PTX ISA, "griddepcontrol").

```
kernel.prefetch %w bytes 8192 : memref<2048x2048xbf16>  // of this block's share, into the L2 cache
kernel.grid_wait       // until the launches before have ended; what they wrote is seen then
kernel.grid_release    // the next launch may begin, as far as it can without this one's results
```

A kernel that waits is launched before the one ahead of it has ended. Until it has waited it must
not touch memory that others have: what is loaded early may be stored later, and what is stored
early may still be loaded. What is asked for into the L2 cache is neither: all see that cache alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.kernel_func import FuncOp, verify_chip
from dlc.dialects.kernel_tma import TensorMapOp
from dlc.target import LINE_BYTES


class GridOp(IRDLOperation):
    """Base of the three: all threads of a kernel execute it, once."""

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        func = self.parent_op()
        if not isinstance(func, FuncOp):
            raise VerifyException("expected to stand in no loop and no branch of a kernel")
        if not isinstance(self, PrefetchOp) and _count(func, type(self)) > 1:
            raise VerifyException(f"expected one '{self.name}' in a kernel")
        verify_chip(self, "griddepcontrol")


@irdl_op_definition
class GridWaitOp(GridOp):
    """
    `kernel.grid_wait`: the thread waits until all launches before have ended, and sees what they
    stored. What precedes it touches no memory of the kernel's arguments.
    """

    name = "kernel.grid_wait"
    assembly_format = "attr-dict"

    def verify_(self) -> None:
        super().verify_()
        func = self.parent_op()
        assert isinstance(func, FuncOp)
        for op in takewhile(lambda op: op is not self, func.body.block.ops):
            if touches_arguments(op, func):
                raise VerifyException(
                    f"expected no '{op.name}' of the kernel's arguments before it: launches before "
                    "may still use their memory"
                )


@irdl_op_definition
class GridReleaseOp(GridOp):
    """
    `kernel.grid_release`: the next launch may begin when all blocks have come here or ended. What
    it needs of this one it waits for.
    """

    name = "kernel.grid_release"
    assembly_format = "attr-dict"


@irdl_op_definition
class PrefetchOp(GridOp):
    """
    `kernel.prefetch %w bytes 8192 : memref`: the threads of a block ask for so many first bytes of
    the block's share of a kernel's input into the L2 cache, or all of it if it is less: blocks have
    lines that follow each other, as many each. Nothing waits for them, and nothing else changes.
    """

    name = "kernel.prefetch"
    ref = operand_def(MemRefType)
    bytes = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$ref `bytes` $bytes attr-dict `:` type($ref)"

    def __init__(self, ref: SSAValue, bytes: int) -> None:
        super().__init__(operands=[ref], properties={"bytes": IntegerAttr(bytes, i64)})

    def verify_(self) -> None:
        super().verify_()
        func = self.parent_op()
        assert isinstance(func, FuncOp)
        if self.ref not in func.input_refs:
            raise VerifyException("expected an input of the kernel")
        size = self.bytes.value.data
        if size <= 0 or size % LINE_BYTES:
            raise VerifyException(f"expected a multiple of {LINE_BYTES} bytes, found {size}")


def touches_arguments(op: Operation, func: FuncOp) -> bool:
    """True if an operation, or one within it, reads or writes memory that a kernel is given."""
    return not isinstance(op, PrefetchOp) and any(
        value in func.refs or _is_map(value) for value in _used_by(op)
    )


def waits_for_grids(func: FuncOp) -> bool:
    """True if a kernel waits for the launches before it, so that it may begin before they end."""
    return any(isinstance(op, GridWaitOp) for op in func.body.block.ops)


def _count(func: FuncOp, kind: type[GridOp]) -> int:
    return sum(isinstance(op, kind) for op in func.body.block.ops)


def _used_by(op: Operation) -> Iterator[SSAValue]:
    if not isinstance(op, TensorMapOp):  # which is made by the launch
        for inner in op.walk():
            yield from inner.operands


def _is_map(value: SSAValue) -> bool:
    return isinstance(value.owner, TensorMapOp)
