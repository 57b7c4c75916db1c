"""
Boxes that the tensor memory accelerator writes to several blocks of a cluster at once.

```
kernel.func @k(…) -> (…) grid 264 block 384 cluster 2 {
  %rank = kernel.index %b mod 2
  kernel.mbarrier_init %full[0], 1
  kernel.mbarrier_init %empty[0], 16                     // of the warps of both blocks
  kernel.fence_mbarrier_init
  kernel.cluster_barrier                                 // all have initialized theirs
  kernel.mbarrier_wait %empty[0], parity …               // both blocks have read what was there
  kernel.mbarrier_expect_tx %full[0], 16384              // with what the other block requests
  kernel.tma_multicast %A_map[%rank * 64, %k] -> %A_ring[0, %rank * 64, 0], %full[0] from [0]
    to [0, 1] : …
  kernel.mbarrier_wait %full[0], parity …
  …
  kernel.mbarrier_arrive_at %empty[0], block %lane       // one lane for each block
  kernel.cluster_barrier                                 // nobody arrives at who has ended
```

Each block of those that read the same requests a part of it for all. See the PTX ISA,
"cp.async.bulk.tensor", ".multicast::cluster".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def
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
from xdsl.traits import HasAncestor, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import Conditions, map_of
from dlc.dialects.indexed_op import index_parts
from dlc.dialects.kernel_clusters import ReachesOthers, cluster_of
from dlc.dialects.kernel_func import FuncOp, verify_chip
from dlc.dialects.kernel_mbarriers import (
    Index,
    MbarrierOpBase,
    Phase,
    verify_barrier,
    verify_unconditional,
)
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.places import parse_places, print_places
from dlc.dialects.type_directives import MemRef
from dlc.ir.bounds import bounds
from dlc.ir.expr import Expr


@irdl_custom_directive
class CopyToBlocks(CustomDirective):
    """`%A_map[expr, …] -> %A_ring[expr, …], %full[expr] from [expr]`: subscripts in one map."""

    tensor_map: OperandVariable
    target: OperandVariable
    barriers: OperandVariable
    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        places = (
            ("", self.tensor_map),
            ("->", self.target),
            (",", self.barriers),
            ("from", None),
        )
        parse_places(parser, state, places, self.indices, self.map)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        target = self.target.get(op)
        rank = memref_of(target).get_num_dims()
        places = (
            ("", self.tensor_map.get(op), len(map_of(self.map, op).results) - 2 - rank),
            ("->", target, rank),
            (",", self.barriers.get(op), 1),
            ("from", None, None),
        )
        print_places(printer, state, op, places, self.indices, self.map)


@irdl_op_definition
class TmaMulticastOp(TmaLoadOpBase):
    """
    `kernel.tma_multicast %A_map[expr, …] -> %A_ring[expr, …], %full[expr] from [first] to [0, 1] :
    memref`

    As `kernel.tma_load`, for the blocks first + 0, first + 1, … of the cluster: the box is written
    to the same place of each one's shared memory, and its bytes count on each one's mbarrier.
    """

    name = "kernel.tma_multicast"
    blocks = prop_def(DenseArrayBase.constr(i64))
    custom_directives = (CopyToBlocks, Conditions, MemRef)
    assembly_format = (
        "custom<CopyToBlocks>($tensor_map, $target, $barriers, $indices, $map) `to` $blocks"
        " custom<Conditions>(ref($indices), $conditions) attr-dict"
        " `:` custom<MemRef>(type($target))"
    )
    traits = traits_def(HasAncestor(FuncOp))
    MORE: ClassVar[int] = 1

    def __init__(
        self,
        tensor_map: SSAValue,
        coordinates: Sequence[Expr],
        target: SSAValue,
        target_subscripts: Sequence[Expr],
        barriers: SSAValue,
        barrier: Index,
        first: Index,
        blocks: Sequence[int],
    ) -> None:
        exprs = [*coordinates, *target_subscripts, Expr.of(barrier), Expr.of(first)]
        indices, map, _ = index_parts(exprs, ())
        super().__init__(
            operands=[tensor_map, target, barriers, indices],
            properties={"map": map, "blocks": DenseArrayBase.from_list(i64, list(blocks))},
        )

    @property
    def first(self) -> Expr:
        """The number in the cluster of the first block that is written to."""
        return self.subscripts[-1]

    @property
    def offsets(self) -> tuple[int, ...]:
        """The numbers of all blocks that are written to, from the first one's on."""
        return tuple(int(n) for n in self.blocks.get_values())

    def verify_(self) -> None:
        super().verify_()
        verify_chip(self, "multicast")
        found = list(self.offsets)
        if not found or found[0] != 0 or found != sorted(set(found)):
            raise VerifyException(f"expected ascending blocks from 0 on, found {found}")
        _verify_block(self, self.first, self.first + found[-1])


@irdl_custom_directive
class OfBlock(Phase):
    """`[expr], block expr`: the number of an mbarrier and that of a block, in one map."""

    indices: VariadicOperandVariable
    map: AttributeVariable
    WORD: ClassVar[str] = "block"


@irdl_op_definition
class MbarrierArriveAtOp(MbarrierOpBase):
    """
    `kernel.mbarrier_arrive_at %empty[expr], block expr`: one arrival at the mbarrier of a block of
    the cluster, which may be another one; accesses before it are done.
    """

    name = "kernel.mbarrier_arrive_at"
    custom_directives = (OfBlock, Conditions)
    assembly_format = (
        "$barriers `` custom<OfBlock>($indices, $map)"
        " custom<Conditions>(ref($indices), $conditions) attr-dict"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), ReachesOthers())

    def __init__(self, barriers: SSAValue, barrier: Index, block: Index) -> None:
        super().__init__(barriers, barrier, block)

    @property
    def block(self) -> Expr:
        """The number of the block in the cluster."""
        return self.subscripts[1]

    def verify_(self) -> None:
        verify_unconditional(self, 2, "an mbarrier and a block")
        verify_barrier(self.barriers, self.barrier)
        _verify_block(self, self.block, self.block)


def _verify_block(op: IRDLOperation, first: Expr, last: Expr) -> None:
    """Checks that blocks are of the cluster."""
    count, low, high = cluster_of(op), bounds(first)[0], bounds(last)[1]
    if low < 0 or high >= count:
        raise VerifyException(f"expected blocks of a cluster of {count}, found {low:g} to {high:g}")
