"""
Asynchronous copies of a thread: cp.async and its groups.

```
kernel.cp_async %x[%t * 4], %s[%t * 4] elements 4 where (%t < 100) : memref<…>, memref<…>
kernel.commit
kernel.wait 0
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import Conditions, Subscripts
from dlc.dialects.indexed_op import IndexedOp, index_parts, verify_maps
from dlc.dialects.kernel_memory import element_bytes, is_local, is_shared
from dlc.dialects.type_directives import MemRef
from dlc.ir.attributes import i64_attr
from dlc.ir.expr import Expr


@irdl_op_definition
class CpAsyncOp(IndexedOp):
    """
    `kernel.cp_async %x[expr, …], %s[expr, …] elements 4 (where (condition, …))? : memref, memref`

    Requests a copy of consecutive elements (4, 8 or 16 bytes) from global to shared memory; it
    joins the thread's open group. Where a condition is false, zeros are written.
    """

    name = "kernel.cp_async"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    target_map = prop_def(AffineMapAttr)
    elements = prop_def(IntegerAttr.constr(i64))
    custom_directives = (Subscripts, Conditions, MemRef)
    assembly_format = (
        "$source `` custom<Subscripts>($indices, $map) `,`"
        " $target `` custom<Subscripts>(ref($indices), $target_map) `elements` $elements"
        " custom<Conditions>(ref($indices), $conditions) attr-dict"
        " `:` custom<MemRef>(type($source)) `,` custom<MemRef>(type($target))"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        source: SSAValue,
        subscripts: Sequence[Expr],
        target: SSAValue,
        target_subscripts: Sequence[Expr],
        elements: int,
        where: Sequence[Expr] = (),
    ) -> None:
        rank = len(subscripts)
        indices, map, conditions = index_parts([*subscripts, *target_subscripts], where)
        super().__init__(
            operands=[source, target, indices],
            properties={
                **_split_map(map.data, rank),
                "conditions": conditions,
                "elements": i64_attr(elements),
            },
        )

    @property
    def target_subscripts(self) -> tuple[Expr, ...]:
        return self.exprs("target_map")

    def index_properties(
        self, subscripts: Sequence[Expr], where: Sequence[Expr]
    ) -> tuple[list[SSAValue], dict[str, Attribute | None]]:
        """The subscripts are those of the source; those of the target stay."""
        indices, map, conditions = index_parts([*subscripts, *self.target_subscripts], where)
        return indices, {**_split_map(map.data, len(subscripts)), "conditions": conditions}

    def verify_(self) -> None:
        source, target = self.source.type, self.target.type
        assert isinstance(source, MemRefType)
        assert isinstance(target, MemRefType)
        if is_shared(self.source) or is_local(self.source):
            raise VerifyException(f"expected a source in global memory, found {source}")
        if not is_shared(self.target):
            raise VerifyException(f"expected a target in shared memory, found {target}")
        verify_maps([self.map, self.target_map, self.conditions], len(self.indices))
        for map, type in ((self.map.data, source), (self.target_map.data, target)):
            if len(map.results) != type.get_num_dims():
                raise VerifyException(
                    f"expected {type.get_num_dims()} subscripts for {type}, found "
                    f"{len(map.results)}"
                )
        if source.element_type != target.element_type:
            raise VerifyException("expected one element type for source and target")
        size = self.elements.value.data * element_bytes(source.element_type)
        if size not in (4, 8, 16):
            raise VerifyException(f"expected a copy of 4, 8 or 16 bytes, found {size}")


def _split_map(map: AffineMap, rank: int) -> dict[str, Attribute | None]:
    source = AffineMap(map.num_dims, 0, map.results[:rank])
    target = AffineMap(map.num_dims, 0, map.results[rank:])
    return {"map": AffineMapAttr(source), "target_map": AffineMapAttr(target)}


@irdl_op_definition
class CommitOp(IRDLOperation):
    """`kernel.commit`: closes the thread's open group of copies, which may be empty."""

    name = "kernel.commit"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class WaitOp(IRDLOperation):
    """`kernel.wait 1`: until at most that many of the thread's newest groups are unfinished."""

    name = "kernel.wait"
    pending = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$pending attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": i64_attr(pending)})

    def verify_(self) -> None:
        if self.pending.value.data < 0:
            raise VerifyException(f"expected a count >= 0, found {self.pending.value.data}")
