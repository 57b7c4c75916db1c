"""
Where threads of a block have to wait for each other: barriers that an order of shared memory
accesses demands, and barriers that it does not.

A kernel lacks a barrier where two accesses conflict (see `dlc.analysis.kernel.conflicts`). Two runs
of the same operation do not: an operation that fills a buffer writes each element once between two
barriers.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from dlc.analysis.kernel.conflicts import Conflict, Slots, conflicts
from dlc.diagnostics import fail
from dlc.dialects import kernel


def missing_barriers(
    func: kernel.FuncOp,
    slots: Slots | None = None,
    ignored: frozenset[kernel.BarrierOp] = frozenset(),
) -> list[Conflict]:
    """The conflicts that demand a barrier, if the `ignored` ones did nothing."""
    found = conflicts(func, slots, ignored)
    return [c for c in found if c.first.op is not c.second.op]


def place_barriers(func: kernel.FuncOp) -> int:
    """
    Inserts `kernel.barrier`s until no accesses conflict, none of them redundant; returns how many.
    Each stands where all threads of the block come by, in the innermost loop around both accesses
    that allows it. `OpError` if control flow that depends on the thread leaves no such place.
    """
    uniform = _Uniformity()
    slots = Slots(func)
    placed: list[kernel.BarrierOp] = []
    missing = missing_barriers(func, slots)
    while missing:
        second = missing[0].second
        open_ = [c for c in missing if c.second.at is second.at]
        barrier, missing = _separate(func, open_, uniform, slots)
        placed.append(barrier)
    for barrier in placed[:-1]:  # without the last one, something conflicted
        if not missing_barriers(func, slots, frozenset((barrier,))):
            Rewriter.erase_op(barrier)
            placed.remove(barrier)
    return len(placed)


def redundant_barriers(func: kernel.FuncOp) -> list[kernel.BarrierOp]:
    """
    Barriers without all of which every two accesses that were separated still are, chosen in
    program order. Runs of the same operation count as accesses of different threads here.
    """
    barriers = [op for op in func.walk() if isinstance(op, kernel.BarrierOp)]
    redundant: list[kernel.BarrierOp] = []
    if not barriers:
        return redundant
    slots = Slots(func)
    before = set(conflicts(func, slots))
    for barrier in barriers:
        ignored = frozenset([*redundant, barrier])
        if set(conflicts(func, slots, ignored)) <= before:
            redundant.append(barrier)
    return redundant


class _Uniformity:
    """Which values are the same in all threads of a block."""

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
        if isinstance(owner, arith.ConstantOp | kernel.BlockIdOp):
            return True
        if isinstance(owner, kernel.ThreadIdOp):
            return False
        if isinstance(owner, kernel.LoadOp):  # inputs do not change while the kernel runs
            func = kernel.enclosing_func(owner)
            if func is None or owner.ref not in func.input_refs:
                return False
        elif not owner.has_trait(Pure) or owner.regions:
            return False
        return all(self.of(operand) for operand in owner.operands)

    def control(self, op: Operation) -> bool:
        """Do all threads that come to a loop or an if run its regions equally often?"""
        if isinstance(op, scf.ForOp):
            return all(self.of(v) for v in (op.lb, op.ub, op.step))
        return isinstance(op, scf.IfOp) and self.of(op.cond)


def _separate(
    func: kernel.FuncOp, missing: list[Conflict], uniform: _Uniformity, slots: Slots
) -> tuple[kernel.BarrierOp, list[Conflict]]:
    """
    Inserts a barrier before the common second access that resolves one conflict or more; the
    conflicts that are left are returned, too.
    """
    second = missing[0].second.at
    for place in _places(func, missing, uniform):
        barrier = kernel.BarrierOp()
        barrier.location = place.location
        Rewriter.insert_op(barrier, InsertPoint.before(place))
        left = missing_barriers(func, slots)
        if not set(missing) <= set(left):
            return barrier, left
        Rewriter.erase_op(barrier)
    fail(
        second,
        f"no barrier can be placed where all threads of a block come by: {missing[0]}, and "
        "whether they run depends on the thread",
        "give the accesses a `where` condition instead of an scf.if or a loop",
    )


def _places(
    func: kernel.FuncOp, missing: list[Conflict], uniform: _Uniformity
) -> Iterator[Operation]:
    """
    Operations in front of which a barrier may resolve a conflict, best first: in the innermost
    region that holds both accesses, or else further out, never where only some threads come by.
    """
    second = missing[0].second.at
    around = list(_ancestors(second, func))
    usable: list[Operation] = []
    for op in reversed(around):
        usable.insert(0, op)
        if not uniform.control(op):
            break
    holders = [set(_ancestors(c.first.at, func)) for c in missing]

    def shared_levels(op: Operation) -> int:
        parent = op.parent_op()
        return max((parent in h) for h in holders)

    inner = [op for op in usable if op.parent_op() is func or shared_levels(op)]
    yield from inner
    yield from (op for op in reversed(usable) if op not in inner)


def _ancestors(op: Operation, func: kernel.FuncOp) -> Iterator[Operation]:
    """`op` and what it stands in, innermost first, without the kernel itself."""
    current: Operation | None = op
    while current is not None and current is not func:
        yield current
        current = current.parent_op()
