"""
The `kernel` dialect: one operation is one hardware primitive (Kernel IR).

```
kernel.func @rms_norm(%x: memref<32x2048xf32>, %w: memref<2048xf32>) -> (%y: memref<32x2048xf32>)
    grid 32 block 256 {
  %row = kernel.block_id
  %t = kernel.thread_id
  %scratch = kernel.alloc_shared : memref<8xf32, #kernel.shared>
  %acc = kernel.alloc_local : memref<f32, #kernel.local>
  scf.for %o = %c0 to %c8 step %c1 { … kernel.load … kernel.store … } {unroll}
  kernel.barrier
  %other = kernel.shuffle xor %part, 16 width 32 : f32
}
```

Everything runs in every thread. Memory is global (kernel arguments), `#kernel.shared` (one per
block) or `#kernel.local` (one per thread; with constant subscripts after unrolling: registers).
Loops and ifs are `scf`; an `scf.for` marked `unroll` is unrolled. `@main` launches kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    BoolAttr,
    IndexType,
    IntegerAttr,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    i1,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import AtomicAddOpBase, IndexOpBase, LoadOpBase, SelectOpBase, StoreOpBase
from dlc.dialects.canonical import ArithConstants
from dlc.dialects.directives import Where
from dlc.dialects.effects import AllocatesResult
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_async import CommitOp, CpAsyncOp, WaitOp
from dlc.dialects.kernel_blocks import LastBlockOp, verify_first_threads
from dlc.dialects.kernel_clusters import ClusterBarrierOp, MapClusterOp
from dlc.dialects.kernel_func import FuncOp, LaunchOp
from dlc.dialects.kernel_grids import GridReleaseOp, GridWaitOp, PrefetchOp
from dlc.dialects.kernel_mbarriers import (
    AllocMbarriersOp,
    FenceMbarrierInitOp,
    FenceProxyAsyncOp,
    MbarrierArriveOp,
    MbarrierExpectTxOp,
    MbarrierInitOp,
    MbarriersType,
    MbarrierWaitOp,
    SyncWarpOp,
)
from dlc.dialects.kernel_memory import ClusterAttr, LocalAttr, SharedAttr, memref_type, verify_space
from dlc.dialects.kernel_mma import LdmatrixOp, MmaOp, StmatrixOp
from dlc.dialects.kernel_multicast import MbarrierArriveAtOp, TmaMulticastOp
from dlc.dialects.kernel_numbers import BlockIdOp, ThreadIdOp
from dlc.dialects.kernel_parts import QuotientOp, RemainderOp
from dlc.dialects.kernel_registers import SetMaxRegistersOp
from dlc.dialects.kernel_tma import TensorMapOp, TensorMapType, TmaLoadOp
from dlc.dialects.kernel_tma_store import TmaCommitOp, TmaStoreOp, TmaWaitOp
from dlc.dialects.kernel_wgmma import (
    MatrixDescriptorOp,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaHeldOp,
    WgmmaOp,
    WgmmaWaitOp,
)
from dlc.dialects.layouts import PaddedGroupsAttr, SwizzleAttr, verify_layout
from dlc.dialects.mma_layouts import MmaAttr
from dlc.dialects.type_directives import SameType
from dlc.dialects.views import ViewOp, WholeOp
from dlc.ir.bounds import never, sure
from dlc.ir.expr import Expr
from dlc.target import MAX_THREADS, WARP


@irdl_op_definition
class AllocSharedOp(IRDLOperation):
    """`%s = kernel.alloc_shared : memref<16x128xf32, #kernel.shared>`: uninitialized."""

    name = "kernel.alloc_shared"
    result = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(AllocatesResult())

    def __init__(
        self,
        element: Attribute,
        shape: Sequence[int],
        layout: MemRefLayoutAttr | NoneAttr | None = None,
    ) -> None:
        type = memref_type(element, tuple(shape), layout or NoneAttr(), SharedAttr())
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        verify_space(self.result.type, SharedAttr())
        assert isinstance(self.result.type, MemRefType)
        verify_layout(self.result.type)


@irdl_op_definition
class AllocLocalOp(IRDLOperation):
    """`%a = kernel.alloc_local : memref<8x8xf32, #kernel.local>`: uninitialized."""

    name = "kernel.alloc_local"
    result = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($result)"
    traits = traits_def(AllocatesResult())

    def __init__(self, element: Attribute, shape: Sequence[int]) -> None:
        type = memref_type(element, tuple(shape), space=LocalAttr())
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        verify_space(self.result.type, LocalAttr())


@irdl_op_definition
class LoadOp(LoadOpBase):
    """
    `%v = kernel.load %x[expr, …] (where (condition, …) else %d)? : memref (-> vector<4xf32>)?`

    Where a condition is false, gives the default (0 if none is named) and reads nothing. A vector
    is read from consecutive elements along the last dimension, whose address must be aligned.
    """

    name = "kernel.load"


@irdl_op_definition
class StoreOp(StoreOpBase):
    """`kernel.store %v, %y[expr, …] (where (condition, …))? : memref (, vector<4xf32>)?`"""

    name = "kernel.store"


@irdl_op_definition
class IndexOp(IndexOpBase):
    """`%i = kernel.index expr`: an index expression as a value."""

    name = "kernel.index"


@irdl_op_definition
class SelectOp(SelectOpBase):
    """`%v = kernel.select %a where (condition, …) else %b : type`"""

    name = "kernel.select"


@irdl_op_definition
class TestOp(IndexedOp, HasFolderInterface):
    """`%p = kernel.test where (condition, …)`: true if all conditions hold, for `scf.if`."""

    name = "kernel.test"
    IS_TEST: ClassVar = True
    indices = var_operand_def(IndexType())
    result = result_def(i1)
    custom_directives = (Where,)
    assembly_format = "custom<Where>($indices, $map, $conditions) attr-dict"
    traits = traits_def(Pure())

    def __init__(self, where: Sequence[Expr]) -> None:
        indices, map, conditions = index_parts([], where)
        super().__init__(
            operands=[indices],
            properties={"map": map, "conditions": conditions},
            result_types=[i1],
        )

    def fold(self) -> Sequence[Attribute] | None:
        """True or false, where that is known."""
        if any(map(never, self.where)):
            return [BoolAttr.from_bool(False)]
        return [BoolAttr.from_bool(True)] if all(map(sure, self.where)) else None

    def verify_(self) -> None:
        self.verify_index(0, "a test")
        if self.conditions is None:
            raise VerifyException("expected a `where` condition")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """
    `kernel.barrier (threads 64)?`: all threads of the block meet, or so many first ones, of whole
    warps; accesses before it are seen after it.
    """

    name = "kernel.barrier"
    threads = opt_prop_def(IntegerAttr.constr(i64))
    assembly_format = "(`threads` $threads^)? attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @property
    def named_threads(self) -> int | None:
        """How many threads meet; None for all."""
        return self.threads.value.data if self.threads else None

    def verify_(self) -> None:
        verify_first_threads(self.named_threads)


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """
    `%o = kernel.shuffle xor %v, 16 width 32 (threads 40)? : f32`

    The value that the lane `lane xor mask` holds, in groups of `width` lanes of a warp. The lanes
    that it names meet: those of the threads of the block below `threads`, all 32 of each warp
    where it is not stated. Memory is not ordered.
    """

    name = "kernel.shuffle"
    value = operand_def(AnyAttr())
    mask = prop_def(IntegerAttr.constr(i64))
    width = prop_def(IntegerAttr.constr(i64))
    threads = opt_prop_def(IntegerAttr.constr(i64))
    result = result_def(AnyAttr())
    custom_directives = (SameType,)
    assembly_format = (
        "`xor` $value `,` $mask `width` $width (`threads` $threads^)? attr-dict"
        " `:` custom<SameType>(type($value), type($result))"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, value: SSAValue, mask: int, width: int, threads: int) -> None:
        """A shuffle among a block of so many threads."""
        named = IntegerAttr(threads, i64) if threads % WARP else None
        super().__init__(
            operands=[value],
            properties={
                "mask": IntegerAttr(mask, i64),
                "width": IntegerAttr(width, i64),
                "threads": named,
            },
            result_types=[value.type],
        )

    @property
    def named_threads(self) -> int | None:
        """The lanes that it names are those of threads below this number; None for all."""
        return self.threads.value.data if self.threads else None

    def verify_(self) -> None:
        width, mask = self.width.value.data, self.mask.value.data
        if width not in (2, 4, 8, 16, 32) or not 0 < mask < width:
            raise VerifyException(
                "expected a width of 2, 4, 8, 16 or 32 and a mask below it, found "
                f"width {width} and mask {mask}"
            )
        threads = self.named_threads
        if threads is not None and not (0 < threads < MAX_THREADS and threads % WARP):
            raise VerifyException(
                "expected the threads of a block whose last warp is not full, found "
                f"{threads}: without them, all lanes are named"
            )
        if self.result.type != self.value.type:
            raise VerifyException(
                f"expected a result of type {self.value.type}, found {self.result.type}"
            )


@irdl_op_definition
class AtomicAddOp(AtomicAddOpBase):
    """`kernel.atomic_add %v, %y[expr, …] (where (condition, …))? : memref`"""

    name = "kernel.atomic_add"


Kernel = Dialect(
    "kernel",
    [
        FuncOp,
        LaunchOp,
        ViewOp,
        WholeOp,
        BlockIdOp,
        ThreadIdOp,
        AllocSharedOp,
        AllocLocalOp,
        LoadOp,
        StoreOp,
        IndexOp,
        QuotientOp,
        RemainderOp,
        SelectOp,
        TestOp,
        BarrierOp,
        ShuffleOp,
        CpAsyncOp,
        CommitOp,
        WaitOp,
        AtomicAddOp,
        LastBlockOp,
        ClusterBarrierOp,
        MapClusterOp,
        TensorMapOp,
        AllocMbarriersOp,
        MbarrierInitOp,
        MbarrierArriveOp,
        MbarrierArriveAtOp,
        MbarrierExpectTxOp,
        MbarrierWaitOp,
        TmaLoadOp,
        TmaMulticastOp,
        TmaStoreOp,
        TmaCommitOp,
        TmaWaitOp,
        FenceMbarrierInitOp,
        FenceProxyAsyncOp,
        SyncWarpOp,
        SetMaxRegistersOp,
        GridWaitOp,
        GridReleaseOp,
        PrefetchOp,
        MmaOp,
        LdmatrixOp,
        StmatrixOp,
        MatrixDescriptorOp,
        WgmmaOp,
        WgmmaHeldOp,
        WgmmaFenceOp,
        WgmmaCommitOp,
        WgmmaWaitOp,
    ],
    [
        SharedAttr,
        ClusterAttr,
        LocalAttr,
        SwizzleAttr,
        PaddedGroupsAttr,
        TensorMapType,
        MbarriersType,
        MmaAttr,
    ],
    [ArithConstants()],
)
