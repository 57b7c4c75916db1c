"""
The places where threads of a block must wait for each other, and those where they can.

A kernel lacks a barrier where two accesses conflict (see `dlc.analysis.kernel.conflicts`). Two runs
of the same operation do not: an operation that fills a buffer writes each element once between two
barriers. A barrier can stand where all threads of a block come by: in control flow that is uniform.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from dlc.analysis.kernel.conflicts import Conflict, conflicts
from dlc.analysis.kernel.slots import Barrier, Slots
from dlc.dialects import kernel
from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.size_index import SizeIndexOp


def missing_barriers(
    func: kernel.FuncOp,
    slots: Slots | None = None,
    ignored: frozenset[Barrier] = frozenset(),
) -> list[Conflict]:
    """The conflicts that demand a barrier, if the `ignored` ones did nothing."""
    found = conflicts(func, slots, ignored)
    return [c for c in found if c.first.op is not c.second.op]


class Uniformity:
    """The values that are the same in all threads of a block."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, bool] = {}

    def of(self, value: SSAValue) -> bool:
        if value not in self._known:
            self._known[value] = False  # for what is defined through itself
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if isinstance(parent, kernel.FuncOp):
                return True
            return (
                isinstance(parent, scf.ForOp)
                and value is parent.body.block.args[0]
                and self.control(parent)
            )
        assert isinstance(owner, Operation)
        if isinstance(owner, arith.ConstantOp | kernel.BlockIdOp | SizeIndexOp):
            return True
        if isinstance(owner, kernel.ThreadIdOp):
            return False
        if isinstance(owner, kernel.LoadOp):  # they do not change while the kernel runs
            func = enclosing_func(owner)
            if func is None or owner.ref not in func.constant_refs:
                return False
        elif not owner.has_trait(Pure) or owner.regions:
            return False
        return all(self.of(operand) for operand in owner.operands)

    def control(self, op: Operation) -> bool:
        """True if all threads that come to a loop or an if run its regions equally often."""
        if isinstance(op, scf.ForOp):
            return all(self.of(v) for v in (op.lb, op.ub, op.step))
        return isinstance(op, scf.IfOp) and self.of(op.cond)
