"""The pass `drop-redundant-barriers`: see `DropRedundantBarriersPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.analysis.kernel.barriers import redundant_barriers
from dlc.dialects import kernel
from dlc.ir.expr import unchanged_ir
from dlc.remarks import remark


@dataclass(frozen=True)
class DropRedundantBarriersPass(ModulePass):
    """
    Barriers that separate no two accesses of shared memory are erased.

    *Legal when* every two accesses, at least one a write, that a barrier separates on all paths
    are still separated by another one: see `dlc.analysis.kernel.barriers`.
    *Why faster*: at a barrier, all warps of a block wait for the slowest.

    ```
    kernel.barrier                 kernel.barrier
    kernel.store %v, %s[%t]    →   kernel.store %v, %s[%t]
    kernel.barrier                 kernel.barrier
    kernel.barrier                 %w = kernel.load %s[0]
    %w = kernel.load %s[0]
    ```
    """

    name = "drop-redundant-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in [f for f in op.walk() if isinstance(f, kernel.FuncOp)]:
            with unchanged_ir():
                redundant = redundant_barriers(func)
            for barrier in redundant:
                Rewriter.erase_op(barrier)
            if redundant:
                kept = sum(isinstance(o, kernel.BarrierOp) for o in func.walk())
                remark(self.name, func.name_, f"dropped {len(redundant)}, kept {kept}")
