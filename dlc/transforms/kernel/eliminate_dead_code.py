"""Operations that nobody needs leave the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker

from dlc.analysis.kernel.liveness import live_ops
from dlc.dialects import kernel
from dlc.dialects.access import LoadOpBase, SelectOpBase, StoreOpBase
from dlc.dialects.canonicalization.access_patterns import (
    DropSureDefault,
    DropUnreachableStore,
    FlattenIndex,
    FoldAccess,
    SimplifyIndex,
)
from dlc.dialects.indexed_op import IndexedOp, indexed_ops
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.layouts import strides_of
from dlc.ir.bounds import never, sure
from dlc.remarks import remark
from dlc.text import counted

_SIMPLIFY = PatternRewriteWalker(
    GreedyRewritePatternApplier(
        [FoldAccess(), SimplifyIndex(), FlattenIndex(), DropSureDefault(), DropUnreachableStore()]
    )
)


@dataclass(frozen=True)
class EliminateDeadCodePass(ModulePass):
    """
    Operations without an effect on global memory or on when threads meet are erased, stores to
    shared and local memory that nothing reads among them; so are conditions that are sure.

    *Legal always*: nothing that is erased can be observed.
    *Faster because* shared memory that nobody reads is not taken; and what is printed is what runs.

    ```
    %s = kernel.alloc_shared : memref<64xf32, #kernel.shared>
    %e = kernel.load %x[%t] where (%t >= 0) else %zero : memref<64xf32>
    kernel.store %e, %s[%t] : memref<64xf32, #kernel.shared>
    kernel.store %e, %y[%t] : memref<64xf32>
    ```
    becomes
    ```
    %e = kernel.load %x[%t] : memref<64xf32>
    kernel.store %e, %y[%t] : memref<64xf32>
    ```
    """

    name = "eliminate-dead-code"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in kernels_in(op, kernel.FuncOp):
            if any(map(_is_needless, indexed_ops(func))):
                _SIMPLIFY.rewrite_region(func.body)
            if erased := _erase_dead(func):
                remark(self.name, func.name_, f"erased {counted(erased, 'operation')}")


def _is_needless(op: IndexedOp) -> bool:
    """True if a condition is sure, or never holds, or a subscript makes no difference."""
    if any(sure(c) or never(c) for c in op.where):
        return True
    if not isinstance(op, LoadOpBase | StoreOpBase):
        return isinstance(op, SelectOpBase) and not op.where
    strides = strides_of(memref_of(op.ref))
    return 0 in strides and any(
        not n and e.terms for e, n in zip(op.subscripts, strides, strict=True)
    )


def _erase_dead(func: kernel.FuncOp) -> int:
    """Erases what is dead, users first; returns how many operations."""
    live = live_ops(func)
    dead = [op for op in func.walk(reverse=True) if op is not func and op not in live]
    for op in dead:
        op.detach()
    for op in dead:
        op.erase(safe_erase=False)
    return len(dead)
