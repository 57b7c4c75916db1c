"""
Barriers in shared memory, which also wait for asynchronous copies.

```
%full = kernel.alloc_mbarriers 3
kernel.mbarrier_init %full[0], 1
kernel.mbarrier_expect_tx %full[%k mod 3], 8192
kernel.mbarrier_wait %full[%k mod 3], parity (%k floordiv 3) mod 2
```

An mbarrier runs through phases 0, 1, 2, …; a phase ends when as many threads have arrived as the
barrier was initialized for and all bytes that were expected in it have been written. Waiting is by
the phase's parity: the phase before the first counts as ended, so a first wait for parity 1 passes.
See the PTX ISA, "mbarrier".
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import At, Conditions, map_of, mentioned, set_map
from dlc.dialects.effects import AllocatesResult
from dlc.dialects.index_syntax import parse_expr, print_expr
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.ir.bounds import bounds, within
from dlc.ir.expr import Expr

Index = Expr | SSAValue | int

MAX_TX = 1 << 20
"""Bytes that a phase of an mbarrier can wait for, and one more (PTX ISA, "tx-count")."""


@irdl_attr_definition
class MbarriersType(ParametrizedAttribute, TypeAttribute):
    """`!kernel.mbarriers`: some mbarriers in shared memory."""

    name = "kernel.mbarriers"


@irdl_op_definition
class AllocMbarriersOp(IRDLOperation):
    """`%full = kernel.alloc_mbarriers 3`: three mbarriers in shared memory, uninitialized."""

    name = "kernel.alloc_mbarriers"
    count = prop_def(IntegerAttr.constr(i64))
    result = result_def(MbarriersType)
    assembly_format = "$count attr-dict"
    traits = traits_def(AllocatesResult())

    def __init__(self, count: int) -> None:
        super().__init__(
            properties={"count": IntegerAttr(count, i64)}, result_types=[MbarriersType()]
        )

    def verify_(self) -> None:
        if self.count.value.data < 1:
            raise VerifyException(f"expected at least one mbarrier, found {self.count.value.data}")


def verify_unconditional(op: IndexedOp, count: int, of: str) -> None:
    """Checks the number of subscripts, and that there are no conditions."""
    op.verify_index(count, of)
    if op.conditions is not None:
        raise VerifyException("expected no conditions: put the operation into an scf.if")


def verify_barrier(barriers: SSAValue, number: Expr) -> None:
    """Checks that mbarriers are known, and a number one of theirs."""
    alloc = barriers.owner
    if not isinstance(alloc, AllocMbarriersOp):
        raise VerifyException("expected mbarriers of a kernel.alloc_mbarriers")
    count = alloc.count.value.data
    if within(number, count):
        low, high = bounds(number)
        raise VerifyException(
            f"expected the number of one of {count} mbarriers, found one of {low:g} to {high:g}"
        )


class MbarrierOpBase(IndexedOp, ABC):
    """An operation on one mbarrier."""

    barriers = operand_def(MbarriersType)
    indices = var_operand_def(IndexType())

    custom_directives = (At,)
    assembly_format = "$barriers `` custom<At>($indices, $map, $conditions) attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, barriers: SSAValue, *subscripts: Index, **properties: Attribute) -> None:
        indices, map, _ = index_parts([Expr.of(e) for e in subscripts], ())
        super().__init__(operands=[barriers, indices], properties={"map": map, **properties})

    @property
    def barrier(self) -> Expr:
        """The number of the mbarrier among its neighbours."""
        return self.subscripts[0]

    def verify_(self) -> None:
        verify_unconditional(self, 1, "an mbarrier")
        verify_barrier(self.barriers, self.barrier)


@irdl_op_definition
class MbarrierInitOp(MbarrierOpBase):
    """`kernel.mbarrier_init %full[expr], 8`: starts phase 0; eight arrivals end each phase."""

    name = "kernel.mbarrier_init"
    count = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$barriers `` custom<At>($indices, $map, $conditions) `,` $count attr-dict"

    def __init__(self, barriers: SSAValue, barrier: Index, count: int) -> None:
        super().__init__(barriers, barrier, count=IntegerAttr(count, i64))

    def verify_(self) -> None:
        super().verify_()
        if self.count.value.data < 1:
            raise VerifyException(f"expected a count >= 1, found {self.count.value.data}")


@irdl_op_definition
class MbarrierArriveOp(MbarrierOpBase):
    """`kernel.mbarrier_arrive %empty[expr]`: one arrival; accesses before it are done."""

    name = "kernel.mbarrier_arrive"


@irdl_op_definition
class MbarrierExpectTxOp(MbarrierOpBase):
    """
    `kernel.mbarrier_expect_tx %full[expr], 8192`

    One arrival, and the phase also waits for that many bytes of asynchronous copies (PTX ISA,
    mbarrier.arrive.expect_tx).
    """

    name = "kernel.mbarrier_expect_tx"
    bytes = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$barriers `` custom<At>($indices, $map, $conditions) `,` $bytes attr-dict"

    def __init__(self, barriers: SSAValue, barrier: Index, bytes: int) -> None:
        super().__init__(barriers, barrier, bytes=IntegerAttr(bytes, i64))

    def verify_(self) -> None:
        super().verify_()
        if not 0 <= self.bytes.value.data < MAX_TX:
            raise VerifyException(
                f"expected 0 to {MAX_TX - 1} bytes, found {self.bytes.value.data}"
            )


@irdl_custom_directive
class Phase(CustomDirective):
    """`[expr], parity expr`: the number of an mbarrier and a parity, in one map."""

    indices: VariadicOperandVariable
    map: AttributeVariable
    WORD: ClassVar[str] = "parity"

    def parse(self, parser: Parser, state: ParsingState) -> None:
        indices = mentioned(self.indices, state)
        with parser.in_square_brackets():
            barrier = parse_expr(parser, indices)
        parser.parse_punctuation(",")
        parser.parse_keyword(self.WORD)
        set_map(self.map, state, indices, [barrier, parse_expr(parser, indices)])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        barrier, other = map_of(self.map, op).results
        with printer.in_square_brackets():
            print_expr(printer, barrier, self.indices.get(op))
        printer.print_string(f", {self.WORD} ")
        print_expr(printer, other, self.indices.get(op))


@irdl_op_definition
class MbarrierWaitOp(MbarrierOpBase):
    """
    `kernel.mbarrier_wait %full[expr], parity expr`

    Until the phase of this parity has ended: the current one, or else the one before it. What was
    written before the arrivals and by the copies of that phase is seen after it.
    """

    name = "kernel.mbarrier_wait"
    custom_directives = (Phase, Conditions)
    assembly_format = (
        "$barriers `` custom<Phase>($indices, $map)"
        " custom<Conditions>(ref($indices), $conditions) attr-dict"
    )

    def __init__(self, barriers: SSAValue, barrier: Index, parity: Index) -> None:
        super().__init__(barriers, barrier, parity)

    @property
    def parity(self) -> Expr:
        """0 or 1."""
        return self.subscripts[1]

    def verify_(self) -> None:
        verify_unconditional(self, 2, "an mbarrier and a parity")
        verify_barrier(self.barriers, self.barrier)
        if within(self.parity, 2):
            low, high = bounds(self.parity)
            raise VerifyException(f"expected a parity of 0 or 1, found {low:g} to {high:g}")


@irdl_op_definition
class FenceMbarrierInitOp(IRDLOperation):
    """`kernel.fence_mbarrier_init`: asynchronous copies see the mbarriers initialized before it."""

    name = "kernel.fence_mbarrier_init"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class FenceProxyAsyncOp(IRDLOperation):
    """
    `kernel.fence_proxy_async`: the thread's ordinary accesses of shared memory before it come
    before asynchronous copies that are requested after it.
    """

    name = "kernel.fence_proxy_async"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class SyncWarpOp(IRDLOperation):
    """`kernel.sync_warp`: the lanes of a warp meet; their accesses before it are seen after it."""

    name = "kernel.sync_warp"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
