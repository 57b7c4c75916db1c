"""
How as many blocks as are resident do the work of all blocks of a grid, in turns.

```
scf.for %turn = 0 to 3 {
  %work = kernel.index %turn * 132 + %bid                 // the block whose work it is
  %there = kernel.test where (%work < 352)
  scf.if %there {
    %bi = kernel.index %work floordiv 22
    …
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects import kernel
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.kernel_builder import KernelBuilder


class Turns:
    """The turns of a block: one, which needs no loop, or several."""

    def __init__(self, to: KernelBuilder, grid: int, resident: int) -> None:
        self.to = to
        self.grid, self.resident = grid, resident
        self.count = -(-grid // resident) if resident else 1
        self.index = Expr()
        """The number of the turn, for those that compute."""
        self._loop: scf.ForOp | None = None

    @staticmethod
    def of(to: KernelBuilder) -> Turns:
        """
        Those of a kernel; of several, the loop of those that compute stands at its end, empty.
        """
        func = to.source
        resident = 0 if func.resident is None else func.resident.value.data
        turns = Turns(to, func.grid_size, resident)
        if resident:
            end = to.body.last_op
            assert end is not None
            to.before(end)
            with to.loop(turns.count, "turn", unroll=False) as index:
                turns.index = Expr.of(index)
            loop = end.prev_op
            assert isinstance(loop, scf.ForOp)
            turns._loop = loop
        return turns

    @property
    def loop(self) -> scf.ForOp | None:
        """The loop of those that compute, if there is one."""
        return self._loop

    def finish(self) -> None:
        """No more blocks run than are resident: what was inserted before goes by all numbers."""
        if self._loop is not None:
            func = self.to.source
            func.set_launch_shape(self.resident, func.block_size, func.cluster_size)
            func.resident = None

    @contextmanager
    def each(self, *, computes: bool) -> Iterator[Expr]:
        """Inserts what is done in each turn, and gives its number."""
        if self._loop is None:
            yield Expr()
            return
        to = self.to
        if not computes:
            with to.loop(self.count, "turn", unroll=False) as index:
                with self._work(index):
                    yield Expr.of(index)
            return
        loop = self._loop
        loop.detach()
        to.builder.insert(loop)
        block = loop.body.block
        if (end := block.last_op) is not None:
            Rewriter.erase_op(end)
        with to.inside(block), self._work(block.args[0]):
            yield self.index

    @contextmanager
    def _work(self, turn: SSAValue) -> Iterator[None]:
        """Inserts what is done for the block whose turn it is, if there is one."""
        to = self.to
        top = list(to.source.body.block.ops)
        (block,) = (op for op in top if isinstance(op, kernel.BlockIdOp))
        work = kernel.IndexOp(Expr.of(turn) * self.resident + Expr.of(block.result))
        new: dict[SSAValue, SSAValue] = {block.result: to.insert(work, "work")}
        first = work.parent_op()
        assert first is not None
        there = (
            [Expr((), self.grid - 1) - Expr.of(work.result)] if self.grid % self.resident else []
        )
        with to.only_if(there):
            for op in top:
                if isinstance(op, kernel.IndexOp) and any(v in new for v in op.operands):
                    copy = op.clone(value_mapper=new.copy())
                    new[op.result] = to.insert(copy, op.result.name_hint)
            yield
        for old, value in new.items():
            old.replace_uses_with_if(value, lambda use: _is_inside(use.operation, first, work))


def _is_inside(op: Operation, loop: Operation, work: Operation) -> bool:
    return op is not work and loop.is_ancestor(op)
