"""
Blocks that run at the same time and read each other's shared memory (PTX ISA, "cluster").

```
kernel.func @k(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 8 block 16 cluster 4 {
  %s = kernel.alloc_shared : memref<16xf32, #kernel.shared>
  %all = kernel.map_cluster %s : memref<16xf32, #kernel.shared> -> memref<4x16xf32, #kernel.cluster>
  kernel.store %v, %s[%t] : memref<16xf32, #kernel.shared>
  kernel.cluster_barrier                       // all blocks are there, and have written
  %w = kernel.load %all[3, %t] : memref<4x16xf32, #kernel.cluster>
  kernel.cluster_barrier relaxed               // all have read: a block may end
```

The blocks `4 * n` to `4 * n + 3` are a cluster. A place in another block's memory exists while that
block runs: from the first barrier that all of them have come by, until it ends.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import HasAncestor, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.kernel_blocks import verify_first_threads
from dlc.dialects.kernel_func import FuncOp, enclosing_func
from dlc.dialects.kernel_memory import ClusterAttr, is_shared, memref_of, memref_type, verify_space
from dlc.dialects.layouts import static_shape


@irdl_op_definition
class MapClusterOp(IRDLOperation):
    """
    `%all = kernel.map_cluster %s : memref<16xf32, #kernel.shared> -> memref<4x16xf32,
    #kernel.cluster>`: a shared buffer of each of the blocks of a cluster, by the block's number in
    it; to be read.
    """

    name = "kernel.map_cluster"
    source = operand_def(MemRefType)
    result = result_def(MemRefType)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"
    traits = traits_def(Pure(), HasAncestor(FuncOp))

    def __init__(self, source: SSAValue, cluster: int) -> None:
        of_block = memref_of(source)
        shape = (cluster, *static_shape(of_block))
        super().__init__(
            operands=[source],
            result_types=[memref_type(of_block.element_type, shape, space=ClusterAttr())],
        )

    def verify_(self) -> None:
        own, all_blocks = memref_of(self.source), memref_of(self.result)
        verify_space(all_blocks, ClusterAttr())
        if not is_shared(self.source) or not isinstance(own.layout, NoneAttr):
            raise VerifyException(f"expected a shared buffer that lies row by row, found {own}")
        blocks = cluster_of(self)
        shape = (blocks, *static_shape(own))
        expected = memref_type(own.element_type, shape, space=ClusterAttr())
        if all_blocks != expected:
            raise VerifyException(f"expected {expected} of {blocks} blocks, found {all_blocks}")
        for use in self.result.uses:
            if not isinstance(use.operation, LoadOpBase):
                name = use.operation.name
                raise VerifyException(f"expected what others hold to be read only, found '{name}'")
        for use in self.source.uses:
            if not isinstance(use.operation, LoadOpBase | StoreOpBase | MapClusterOp):
                raise VerifyException(
                    "expected a buffer that threads load and store themselves, found "
                    f"'{use.operation.name}'"
                )


@irdl_op_definition
class ClusterBarrierOp(IRDLOperation):
    """
    `kernel.cluster_barrier (relaxed)? (threads 64)?`: all threads of the blocks of a cluster meet,
    or so many first ones of each, of whole warps, where others end; accesses before it are seen
    after it. A `relaxed` one waits for no writes: what was read before it has been read, so that
    blocks may end, and no more is known after it.
    """

    name = "kernel.cluster_barrier"
    relaxed = opt_prop_def(UnitAttr)
    threads = opt_prop_def(IntegerAttr.constr(i64))
    assembly_format = "(`relaxed` $relaxed^)? (`threads` $threads^)? attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), HasAncestor(FuncOp))

    def __init__(self, *, relaxed: bool = False) -> None:
        super().__init__(properties={"relaxed": UnitAttr() if relaxed else None})

    @property
    def named_threads(self) -> int | None:
        """How many threads of a block meet; None for all."""
        return self.threads.value.data if self.threads else None

    def verify_(self) -> None:
        verify_first_threads(self.named_threads)
        cluster_of(self)


def cluster_of(op: Operation) -> int:
    """The blocks of a cluster of the kernel that an operation stands in."""
    func = enclosing_func(op)
    if func is None or func.cluster_size == 1:
        raise VerifyException("expected a kernel whose blocks run in clusters")
    return func.cluster_size


def buffer_of(ref: SSAValue) -> SSAValue:
    """The buffer of its own block that a memref stands for: itself, or the one of each block."""
    return ref.owner.source if isinstance(ref.owner, MapClusterOp) else ref
