"""How the blocks of a kernel that share something know which of them is the last."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    i32,
    i64,
)
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasAncestor, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import IndexedOp, index_parts
from dlc.dialects.directives import At
from dlc.dialects.kernel_func import FuncOp
from dlc.ir.expr import Expr


@irdl_op_definition
class LastBlockOp(IndexedOp):
    """
    `kernel.last_block %arrived[expr] of 3 : memref<4xi32>`: the last of 3 blocks goes on.

    The threads of a block meet, and the block is counted at an element of a zeroed output. The one
    that comes last of so many goes on and sees all that the others wrote before; these end here.
    The element is zero again then, so that the next kernel that runs may count there, too.
    """

    name = "kernel.last_block"
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    map = prop_def(AffineMapAttr)
    count = prop_def(IntegerAttr.constr(i64))
    custom_directives = (At,)
    assembly_format = (
        "$ref `` custom<At>($indices, $map, $conditions) `of` $count attr-dict `:` type($ref)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), HasAncestor(FuncOp))

    def __init__(self, ref: SSAValue, subscripts: Sequence[Expr], count: int) -> None:
        indices, map, _ = index_parts(subscripts, [])
        super().__init__(
            operands=[ref, indices],
            properties={"map": map, "count": IntegerAttr(count, i64)},
        )

    @property
    def blocks(self) -> int:
        """The blocks that come here, of which one goes on."""
        return self.count.value.data

    def verify_(self) -> None:
        assert isinstance(self.ref.type, MemRefType)
        self.verify_index(self.ref.type.get_num_dims(), self.ref.type)
        if self.conditions is not None:
            raise VerifyException("expected no conditions: all threads of a block meet")
        if self.ref.type.element_type != i32:
            raise VerifyException(f"expected to count in i32, found {self.ref.type.element_type}")
        if self.blocks < 2:
            raise VerifyException(f"expected at least 2 blocks, found {self.blocks}")
        self._verify_place()
        for value in self.indices:
            if not _of_the_block(value):
                raise VerifyException(
                    f"expected subscripts that are the same in all threads of a block, found "
                    f"%{value.name_hint or 'index'}"
                )

    def _verify_place(self) -> None:
        """Checks that all blocks come by, once, and count where nothing else is."""
        around = self.parent_op()
        while around is not None and not isinstance(around, FuncOp):
            if around.dialect_name() == "scf":
                raise VerifyException(f"expected all blocks to come by once, found '{around.name}'")
            around = around.parent_op()
        if around is None:
            return
        if self.ref not in around.zeroed_refs:
            name = self.ref.name_hint or "memory"
            raise VerifyException(f"expected to count in a zeroed output, found %{name}")
        for use in self.ref.uses:
            if use.operation is not self:
                raise VerifyException(
                    f"expected memory that nothing else uses, found '{use.operation.name}'"
                )
        if any(isinstance(op, LastBlockOp) and op is not self for op in around.walk()):
            raise VerifyException(f"expected one '{self.name}' in a kernel, found several")


def _of_the_block(value: SSAValue) -> bool:
    """True for an index that follows from the number of the block alone."""
    if isinstance(value, BlockArgument):
        return False
    owner = value.owner
    assert isinstance(owner, Operation)
    if isinstance(owner, arith.ConstantOp) or owner.name == "kernel.block_id":
        return True
    return isinstance(owner, IndexedOp) and all(map(_of_the_block, owner.operands))


def last_block_of(func: Operation) -> LastBlockOp | None:
    """The place in a kernel where the last of several blocks goes on, if there is one."""
    return next((op for op in func.walk() if isinstance(op, LastBlockOp)), None)


def counters_of(func: FuncOp) -> tuple[SSAValue, ...]:
    """The outputs in which blocks are counted: full of zeros before and after."""
    return tuple(
        ref
        for ref in func.zeroed_refs
        if any(isinstance(use.operation, LastBlockOp) for use in ref.uses)
    )
