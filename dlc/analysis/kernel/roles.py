"""Which threads of a block compute, and which only ask for copies."""

from __future__ import annotations

from xdsl.dialects import scf

from dlc.dialects import kernel
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.ir.expr import Expr


def producer_branch(func: kernel.FuncOp) -> tuple[scf.IfOp, int] | None:
    """
    The branch on the number of the thread of which the threads from a number on take the first side
    and do nothing but ask for copies, and this number; None where no threads are apart.
    """
    threads = [op.result for op in func.body.block.ops if isinstance(op, kernel.ThreadIdOp)]
    for op in func.walk():
        if not isinstance(op, scf.IfOp) or not op.false_region.blocks:
            continue
        test = op.cond.owner
        if not isinstance(test, kernel.TestOp) or len(test.where) != 1:
            continue
        rest = [test.where[0] - Expr.of(thread) for thread in threads]
        if rest and rest[0].is_constant and _asks_only(op):
            return op, -rest[0].constant
    return None


def _asks_only(branch: scf.IfOp) -> bool:
    """True if the first side of a branch stores nothing, and asks for boxes."""
    ops = list(branch.true_region.walk())
    return any(isinstance(op, TmaLoadOpBase) for op in ops) and not any(
        isinstance(op, kernel.StoreOp | kernel.BarrierOp) for op in ops
    )


def computing_threads(func: kernel.FuncOp) -> int:
    """Threads of a block without those that only ask for copies."""
    found = producer_branch(func)
    return func.block_size if found is None else found[1]


def registers_set(func: kernel.FuncOp) -> int:
    """The most registers that threads of a kernel set themselves; 0 if none does."""
    counts = [op.counts[1] for op in func.walk() if isinstance(op, kernel.SetMaxRegistersOp)]
    return max(counts, default=0)
