"""
Blocks that run at the same time and read each other's shared memory (PTX ISA, "cluster").

```
kernel.func @k(%x: memref<64xf32>) -> (%y: memref<64xf32>) grid 8 block 16 cluster 4 {
  %s = kernel.alloc_shared : memref<16xf32, #kernel.shared>
  %all = kernel.map_cluster %s : memref<16xf32, #kernel.shared> -> memref<4x16xf32, #kernel.cluster>
  kernel.store %v, %s[%t] : memref<16xf32, #kernel.shared>
  kernel.cluster_barrier                       // all blocks are there, and have written
  %w = kernel.load %all[3, %t] : memref<4x16xf32, #kernel.cluster>
  kernel.store %w, %y[%t] : memref<64xf32>     // which waits for what is read
  kernel.cluster_barrier relaxed               // all have read: a block may end
```

The blocks `4 * n` to `4 * n + 3` are a cluster. A place in another block's memory exists while that
block runs: from the first barrier that all of them have come by, until it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from xdsl.traits import (
    HasAncestor,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    OpTrait,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.kernel_blocks import verify_first_threads
from dlc.dialects.kernel_func import FuncOp, enclosing_func
from dlc.dialects.kernel_memory import (
    ClusterAttr,
    is_local,
    is_of_cluster,
    is_shared,
    memref_of,
    memref_type,
    verify_space,
)
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
    after it. A `relaxed` one waits for no writes, and says that blocks may end.

    It orders no access at all (PTX ISA, barrier.cluster: what `.relaxed` leaves out), and ptxas has
    threads arrive while their loads are on the way. So what a thread has asked of others has to be
    done when it comes: what is read of them goes into an effect before, which waits for the value,
    and arrivals at their mbarriers are ordered by a barrier that is not relaxed.
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
        if self.relaxed is not None:
            self._verify_done()

    def _verify_done(self) -> None:
        """That others are asked for nothing when a thread comes."""
        func = enclosing_func(self)
        assert func is not None
        full = [
            op
            for op in func.walk()
            if isinstance(op, ClusterBarrierOp)
            and op.relaxed is None
            and op.parent is not None
            and op.parent.find_ancestor_op_in_block(self) is not None
            and comes_before(op, self)
        ]
        for op in func.walk():
            if not comes_before(op, self) or any(comes_before(op, other) for other in full):
                continue
            if op.has_trait(ReachesOthers):
                raise VerifyException(f"expected a barrier that waits for '{op.name}' before")
            if not isinstance(op, LoadOpBase) or not is_of_cluster(op.ref):
                continue
            if not any(comes_before(effect, self) for effect in effects_of(op.result)):
                raise VerifyException(
                    "expected what is read of other blocks to be used before: it may be on the way "
                    "when the block that holds it ends"
                )


class ReachesOthers(OpTrait):
    """It changes what another block holds, which is not done when it is."""


def comes_before(op: Operation, other: Operation) -> bool:
    """True if it stands before another one, of which neither is in the other."""
    at = other
    while (block := at.parent) is not None:
        above = block.find_ancestor_op_in_block(op)
        if above is not None:
            return above is not at and above.is_before_in_block(at)
        if (outer := block.parent_op()) is None:
            return False
        at = outer
    return False


def effects_of(value: SSAValue) -> Iterator[Operation]:
    """What has an effect that needs a value: beyond arithmetic and what a thread holds."""
    seen, rest = {value}, [value]
    while rest:
        for use in rest.pop().uses:
            op = use.operation
            more: Sequence[SSAValue] = ()
            if isinstance(op, StoreOpBase) and is_local(op.ref):
                more = (op.ref,) if use.index != op.operands.index(op.ref) else ()
            elif op.has_trait(IsTerminator) and (parent := op.parent_op()) is not None:
                inner = [argument for r in parent.regions for b in r.blocks for argument in b.args]
                more = (*parent.results, *inner)
            elif op.has_trait(Pure) or isinstance(op, LoadOpBase):
                more = op.results
            else:
                yield op
            rest += [v for v in more if v not in seen]
            seen.update(more)


def cluster_of(op: Operation) -> int:
    """The blocks of a cluster of the kernel that an operation stands in."""
    func = enclosing_func(op)
    if func is None or func.cluster_size == 1:
        raise VerifyException("expected a kernel whose blocks run in clusters")
    return func.cluster_size


def buffer_of(ref: SSAValue) -> SSAValue:
    """The buffer of its own block that a memref stands for: itself, or the one of each block."""
    return ref.owner.source if isinstance(ref.owner, MapClusterOp) else ref
