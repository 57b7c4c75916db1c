"""
How the warpgroups of a block take turns at the tensor cores.

In a loop that multiplies, computes of the sums and multiplies again, a warpgroup has the tensor
cores for the last products of an iteration and the first ones of the next, which it requests before
it passes them on; while others have them, it computes:

```
wait for its turn
for each chunk {
  request the first products
  kernel.sync_warp
  scf.if %t mod 32 < 1 { kernel.mbarrier_arrive %turn[next] }
  wait for their sums, compute
  kernel.mbarrier_wait %turn[own], parity …              // its turn again
  request the last products and wait for their sums
}
kernel.sync_warp
scf.if %t mod 32 < 1 { kernel.mbarrier_arrive %turn[next] }
```

Each of a warpgroup's warps arrives at the mbarrier of the next one, as often as all wait at theirs.
The first warpgroup's waits are one phase earlier: it has its first turn at once. All lanes of a
warp have seen their turn before one of them passes it on.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.axes import SERIAL
from dlc.ir.expr import Expr
from dlc.target import WARP, WARPGROUP
from dlc.transforms.kernel.lowering.kernel_builder import KernelBuilder


def take_turns(to: KernelBuilder) -> None:
    """Has the warpgroups of a kernel take turns, if it says so; a loop of two products has them."""
    func = to.source
    if func.in_turns is None:
        return
    func.in_turns = None
    loop, (first, last) = _products(func)
    threads = next(op for op in func.walk() if isinstance(op, kernel.ThreadIdOp))
    groups = func.block_size // WARPGROUP - 1  # the last one requests chunks
    own = Expr.of(threads.result) // WARPGROUP % groups
    turns = _make(to, groups)
    (axis,) = loop.axes_of(SERIAL)

    def wait(number: Expr) -> Operation:
        is_later = (own + (groups - 1)) // groups
        return kernel.MbarrierWaitOp(turns, own, (number + is_later + 1) % 2)

    def pass_on(behind: Operation) -> None:
        assert behind.next_op is not None
        to.before(behind.next_op)
        to.builder.insert(kernel.SyncWarpOp())
        with to.only_if([Expr() - Expr.of(threads.result) % WARP]):
            to.builder.insert(kernel.MbarrierArriveOp(turns, (own + 1) % groups))

    Rewriter.insert_op(wait(Expr()), InsertPoint.before(loop))
    pass_on(first)
    Rewriter.insert_op(wait(Expr.of(axis) + 1), InsertPoint.before(last))
    pass_on(loop)


def _products(func: kernel.FuncOp) -> tuple[tile.ForOp, tuple[Operation, Operation]]:
    """The loop, the commit of its first products and the fence in front of its last."""
    for loop in func.walk():
        if isinstance(loop, tile.ForOp) and len(loop.axes_of(SERIAL)) == 1:
            commits = [op for op in loop.walk() if isinstance(op, kernel.WgmmaCommitOp)]
            fences = [op for op in loop.walk() if isinstance(op, kernel.WgmmaFenceOp)]
            if len(commits) > 1:
                return loop, (commits[0], fences[-1])
    raise AssertionError("pipeline-k-outer has seen to that")


def _make(to: KernelBuilder, groups: int) -> SSAValue:
    """Makes the mbarriers, one of each warpgroup, where those of the rings are made."""
    fence = next(op for op in to.source.walk() if isinstance(op, kernel.FenceMbarrierInitOp))
    by_one = fence.parent_op()
    assert by_one is not None
    to.before(by_one)
    turns = to.insert(kernel.AllocMbarriersOp(groups), "turn")
    to.before(fence)
    with to.loop(groups, "of", unroll=True) as group:
        to.builder.insert(kernel.MbarrierInitOp(turns, group, WARPGROUP // WARP))
    return turns
