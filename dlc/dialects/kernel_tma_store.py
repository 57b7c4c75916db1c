"""
What the tensor memory accelerator stores: boxes that threads have written to shared memory.

```
kernel.store %v, %slab[%t floordiv 32, 0, %row, %column] : memref<8x2x16x64xbf16, …>
kernel.fence_proxy_async
kernel.sync_warp
scf.if %leads {
  kernel.tma_store %slab[%t floordiv 32, 0, 0, 0] -> %y_map[%i, %j] : memref<8x2x16x64xbf16, …>
  kernel.tma_commit
}
kernel.tma_wait 0 read                                   // the slab may be written again
…
kernel.tma_wait 0                                        // what was stored is in global memory
```

A store reads its slab, and writes, at any time from its request to the end of a wait for its group:
by the thread that has requested it. It reads through the asynchronous proxy, as `kernel.wgmma`
does. See the PTX ISA, "cp.async.bulk.tensor" and "cp.async.bulk.wait_group".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OperandVariable,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import Conditions
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.kernel_mbarriers import verify_unconditional
from dlc.dialects.kernel_memory import is_shared, memref_of
from dlc.dialects.kernel_tma import TensorMapOp, TensorMapType, holds_box, verify_coordinates
from dlc.dialects.places import parse_places, print_places
from dlc.dialects.type_directives import MemRef
from dlc.ir.expr import Expr


@irdl_custom_directive
class Stored(CustomDirective):
    """`%slab[expr, …] -> %y_map[expr, …]`: all subscripts in one map."""

    source: OperandVariable
    tensor_map: OperandVariable
    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        places = ("", self.source), ("->", self.tensor_map)
        parse_places(parser, state, places, self.indices, self.map)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        source = self.source.get(op)
        rank = memref_of(source).get_num_dims()
        places = ("", source, rank), ("->", self.tensor_map.get(op), None)
        print_places(printer, state, op, places, self.indices, self.map)


@irdl_op_definition
class TmaStoreOp(IndexedOp):
    """
    `kernel.tma_store %slab[expr, …] -> %y_map[expr, …] : memref`

    Requests that the box from the given element of the slab on, which lies there as `kernel.
    tma_load` would write it, be stored from these subscripts of the map's memref on; they may lie
    outside: what does is not stored. It joins the open group of the thread that executes it.
    """

    name = "kernel.tma_store"
    source = operand_def(MemRefType)
    tensor_map = operand_def(TensorMapType)
    indices = var_operand_def(IndexType())
    custom_directives = (Stored, Conditions, MemRef)
    assembly_format = (
        "custom<Stored>($source, $tensor_map, $indices, $map)"
        " custom<Conditions>(ref($indices), $conditions) attr-dict"
        " `:` custom<MemRef>(type($source))"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        source: SSAValue,
        source_subscripts: Sequence[Expr],
        tensor_map: SSAValue,
        coordinates: Sequence[Expr],
    ) -> None:
        indices, map, _ = index_parts([*source_subscripts, *coordinates], ())
        super().__init__(operands=[source, tensor_map, indices], properties={"map": map})

    @property
    def map_op(self) -> TensorMapOp:
        """The definition of the tensor map."""
        assert isinstance(self.tensor_map.owner, TensorMapOp)
        return self.tensor_map.owner

    @property
    def _rank(self) -> int:
        return memref_of(self.source).get_num_dims()

    @property
    def source_subscripts(self) -> tuple[Expr, ...]:
        """The element of the slab that the box's first element is."""
        return self.subscripts[: self._rank]

    @property
    def coordinates(self) -> tuple[Expr, ...]:
        """The subscripts in the tensor at which the box begins, outermost dimension first."""
        return self.subscripts[self._rank :]

    def verify_(self) -> None:
        if not isinstance(self.tensor_map.owner, TensorMapOp):
            raise VerifyException("expected the map of a kernel.tensor_map")
        target, source, box = self.map_op.type, memref_of(self.source), self.map_op.box_sizes
        verify_unconditional(self, self._rank + target.get_num_dims(), f"{source} and {target}")
        func = enclosing_func(self)
        if func is not None and self.map_op.ref not in func.output_refs:
            raise VerifyException("expected the map of an output of the kernel")
        if not is_shared(self.source) or source.element_type != target.element_type:
            raise VerifyException(
                f"expected a source of {target.element_type} in shared memory, found {source}"
            )
        if not holds_box(source, [n for n in box if n != 1], self.map_op.swizzle_bytes):
            raise VerifyException(
                f"expected a source whose last dimensions are the box {list(box)}, dense or with "
                f"the map's swizzle, found {source}"
            )
        verify_coordinates(self.map_op, self.coordinates)


@irdl_op_definition
class TmaCommitOp(IRDLOperation):
    """`kernel.tma_commit`: closes the thread's open group of stores, which may be empty."""

    name = "kernel.tma_commit"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class TmaWaitOp(IRDLOperation):
    """
    `kernel.tma_wait 1 read?`

    Until at most that many of the thread's newest groups of stores are unfinished; with `read`,
    until all others have read what they store.
    """

    name = "kernel.tma_wait"
    pending = prop_def(IntegerAttr.constr(i64))
    read = opt_prop_def(UnitAttr)
    assembly_format = "$pending (`read` $read^)? attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, pending: int, *, read: bool = False) -> None:
        super().__init__(
            properties={
                "pending": IntegerAttr(pending, i64),
                "read": UnitAttr() if read else None,
            }
        )

    def verify_(self) -> None:
        if self.pending.value.data < 0:
            raise VerifyException(f"expected a count >= 0, found {self.pending.value.data}")
