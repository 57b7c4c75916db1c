"""How the blocks of a kernel that share something know which of them is the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

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
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasAncestor, MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import At
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_func import FuncOp
from dlc.dialects.kernel_parts import PartOp
from dlc.ir.expr import Expr
from dlc.target import MAX_THREADS, WARP


@irdl_op_definition
class LastBlockOp(IndexedOp):
    """
    `kernel.last_block %arrived[expr] of 3 (threads 64)? : memref<4xi32>`: the last of 3 blocks goes
    on.

    The threads of a block meet, or so many first ones, and the block is counted at an element of a
    zeroed output. The one that comes last of so many goes on and sees all that the others wrote
    before; these end here. The element is zero again then, so that the next kernel that runs may
    count there, too. What only some blocks do may be counted apart from what others do.
    """

    name = "kernel.last_block"
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    map = prop_def(AffineMapAttr)
    count = prop_def(IntegerAttr.constr(i64))
    threads = opt_prop_def(IntegerAttr.constr(i64))
    custom_directives = (At,)
    assembly_format = (
        "$ref `` custom<At>($indices, $map, $conditions) `of` $count (`threads` $threads^)?"
        " attr-dict `:` type($ref)"
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

    @property
    def named_threads(self) -> int | None:
        """How many threads meet; None for all."""
        return self.threads.value.data if self.threads else None

    def verify_(self) -> None:
        verify_first_threads(self.named_threads)
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
        """Checks that blocks come by once, with all that meet, and count where nothing else is."""
        around, top = self.parent_op(), cast(Operation, self)
        while around is not None and not isinstance(around, FuncOp):
            if around.dialect_name() == "scf" and not _divides(around, top, self.named_threads):
                raise VerifyException(f"expected all blocks to come by once, found '{around.name}'")
            around, top = around.parent_op(), around
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
        inside = [o for o in around.walk() if isinstance(o, LastBlockOp) and o is not self]
        if inside and (top is self or any(top.is_ancestor(other) for other in inside)):
            raise VerifyException(f"expected one '{self.name}' in a kernel, found several")


def _divides(op: Operation, inside: Operation, threads: int | None) -> bool:
    """
    True for a branch that all threads of a block take alike, or so many first threads alone, who
    come by what is `inside`.
    """
    test = op.operands[0].owner if op.name == "scf.if" else None
    if not isinstance(test, IndexedOp) or op.results:
        return False
    first = threads is not None and inside.parent_region() is op.regions[0]
    return all(
        first and _first_threads(expr) == threads if _reads_thread(expr) else _for_the_block(expr)
        for expr in test.where
    )


def _reads_thread(expr: Expr) -> bool:
    return any(getattr(v.owner, "name", "") == "kernel.thread_id" for v in expr.values())


def _for_the_block(expr: Expr) -> bool:
    return all(map(_of_the_block, expr.values()))


def _first_threads(expr: Expr) -> int | None:
    """The number of threads for which `threads - 1 - thread` is 0 or more; None for others."""
    return expr.constant + 1 if [factor for _, factor in expr.terms] == [-1] else None


def verify_first_threads(threads: int | None) -> None:
    """Checks how many threads of a block meet, if not all do; VerifyException if no block has so
    many besides others, or if not all of a warp would meet."""
    if threads is not None and not (0 < threads < MAX_THREADS and threads % WARP == 0):
        raise VerifyException(
            f"expected the first threads of a block, of whole warps, found {threads}: without a "
            "number, all threads meet"
        )


def _of_the_block(value: SSAValue) -> bool:
    """True for an index that follows from the number of the block alone."""
    if isinstance(value, BlockArgument):
        return False
    owner = value.owner
    assert isinstance(owner, Operation)
    if isinstance(owner, arith.ConstantOp) or owner.name == "kernel.block_id":
        return True
    made = isinstance(owner, IndexedOp | PartOp)
    return made and all(map(_of_the_block, owner.operands))


def last_blocks_of(func: Operation) -> tuple[LastBlockOp, ...]:
    """The places in a kernel where the last of several blocks goes on."""
    return tuple(op for op in func.walk() if isinstance(op, LastBlockOp))


def counters_of(func: FuncOp) -> tuple[SSAValue, ...]:
    """The outputs in which blocks are counted: full of zeros before and after."""
    return tuple(
        ref
        for ref in func.zeroed_refs
        if any(isinstance(use.operation, LastBlockOp) for use in ref.uses)
    )
