"""
Where threads of a block have to wait for each other: barriers that an order of shared memory
accesses demands, and barriers that it does not.

Two accesses of one shared buffer *conflict* if at least one writes and some path from the first
to the second meets no barrier: different threads may then perform them in either order. The
analysis follows all paths through loops and ifs at once: for each point, it computes the accesses
since the last barrier on any path that leads there. That set is finite and grows monotonically,
so the fixpoint over a loop costs two passes over its body and is exact for two or more iterations.

Buffers count as a whole. An asynchronous copy writes when it is issued and again at each wait
that may complete it. Two runs of the same operation do not conflict: an operation that fills a
buffer writes each element once between two barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.ir.expr import constant_of


@dataclass(frozen=True)
class Access:
    """`op` reads or writes `ref` at `at`: itself, or the wait that completes an async copy."""

    op: Operation
    at: Operation
    ref: SSAValue
    writes: bool

    @property
    def is_atomic(self) -> bool:
        return isinstance(self.op, kernel.AtomicAddOp)


@dataclass(frozen=True)
class Conflict:
    """Accesses that no barrier separates on some path from the first to the second."""

    first: Access
    second: Access

    def __str__(self) -> str:
        verbs = ("writes" if a.writes else "reads" for a in (self.first, self.second))
        name = self.first.ref.name_hint or "a buffer"
        first, second = verbs
        return f"'{self.first.op.name}' {first} {name} before '{self.second.op.name}' {second} it"


def missing_barriers(func: kernel.FuncOp) -> list[Conflict]:
    """The conflicts of a kernel, in the order of their second accesses."""
    return [c for c in _Walk(func).conflicts if c.first.op is not c.second.op]


def place_barriers(func: kernel.FuncOp) -> int:
    """
    Inserts `kernel.barrier`s until no accesses conflict, none of them redundant; returns how many.
    Each stands where all threads of the block come by, in the innermost loop around both accesses
    that allows it. `OpError` if control flow that depends on the thread leaves no such place.
    """
    uniform = _Uniformity()
    placed: list[kernel.BarrierOp] = []
    while conflicts := missing_barriers(func):
        second = conflicts[0].second
        open_ = [c for c in conflicts if c.second.at is second.at]
        placed.append(_separate(func, open_, uniform))
    for barrier in list(placed):
        if not _conflicts_without(func, barrier):
            Rewriter.erase_op(barrier)
            placed.remove(barrier)
    return len(placed)


def redundant_barriers(func: kernel.FuncOp) -> list[kernel.BarrierOp]:
    """
    Barriers without all of which every two accesses that were separated still are, chosen in
    program order. Runs of the same operation count as accesses of different threads here.
    """
    before = set(_Walk(func).conflicts)
    redundant: list[kernel.BarrierOp] = []
    for op in func.walk():
        if isinstance(op, kernel.BarrierOp):
            ignored = frozenset([*redundant, op])
            if set(_Walk(func, ignored).conflicts) <= before:
                redundant.append(op)
    return redundant


def _conflicts_without(func: kernel.FuncOp, barrier: kernel.BarrierOp) -> bool:
    conflicts = _Walk(func, frozenset((barrier,))).conflicts
    return any(c.first.op is not c.second.op for c in conflicts)


@dataclass
class _State:
    """What threads may have done since they last met, and which copies they may wait for."""

    accesses: dict[Access, None] = field(default_factory=dict)
    in_flight: dict[kernel.CpAsyncOp, None] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.accesses), dict(self.in_flight))

    def join(self, other: _State) -> bool:
        """Adds what `other` has; was anything new?"""
        before = len(self.accesses) + len(self.in_flight)
        self.accesses.update(other.accesses)
        self.in_flight.update(other.in_flight)
        return len(self.accesses) + len(self.in_flight) > before


class _Walk:
    """One run of the analysis over a kernel, in which `ignored` barriers do nothing."""

    def __init__(
        self, func: kernel.FuncOp, ignored: frozenset[kernel.BarrierOp] = frozenset()
    ) -> None:
        self._ignored = ignored
        self._found: dict[Conflict, None] = {}
        self._block(func.body.block, _State())

    @property
    def conflicts(self) -> list[Conflict]:
        return list(self._found)

    def _block(self, block: Block, state: _State) -> _State:
        for op in block.ops:
            state = self._op(op, state)
        return state

    def _op(self, op: Operation, state: _State) -> _State:
        match op:
            case scf.ForOp():
                return self._loop(op, state)
            case scf.IfOp():
                taken = self._block(op.true_region.block, state.copy())
                for block in op.false_region.blocks:
                    state = self._block(block, state)
                taken.join(state)
                return taken
            case kernel.BarrierOp() if op not in self._ignored:
                state.accesses.clear()
            case _:
                for access in accesses(op, state.in_flight):
                    self._meet(access, state)
                if isinstance(op, kernel.CpAsyncOp):
                    state.in_flight[op] = None
                if isinstance(op, kernel.WaitOp) and op.pending.value.data == 0:
                    state.in_flight.clear()
        return state

    def _loop(self, op: scf.ForOp, state: _State) -> _State:
        trips = trip_count(op)
        if trips == 0:
            return state
        end = self._block(op.body.block, state.copy())
        if trips != 1:
            start = state.copy()
            while start.join(end):
                end = self._block(op.body.block, start.copy())
        if trips is None:
            end.join(state)
        return end

    def _meet(self, access: Access, state: _State) -> None:
        for earlier in state.accesses:
            if earlier.ref is not access.ref or not (earlier.writes or access.writes):
                continue
            if not (earlier.is_atomic and access.is_atomic):
                self._found[Conflict(earlier, access)] = None
        state.accesses[access] = None


def accesses(op: Operation, in_flight: dict[kernel.CpAsyncOp, None]) -> Iterator[Access]:
    """The accesses of shared memory that an operation performs, reads first."""
    match op:
        case kernel.LoadOp() if kernel.is_shared(op.ref):
            yield Access(op, op, op.ref, False)
        case kernel.StoreOp() | kernel.AtomicAddOp() if kernel.is_shared(op.ref):
            yield Access(op, op, op.ref, True)
        case kernel.CpAsyncOp():
            yield Access(op, op, op.target, True)
        case kernel.WaitOp():
            for copy in in_flight:
                yield Access(copy, op, copy.target, True)
        case _:
            pass


def trip_count(op: scf.ForOp) -> int | None:
    """How often the body of a loop runs; None where its bounds are not constant."""
    first, end, step = (constant_of(v) for v in (op.lb, op.ub, op.step))
    if first is None or end is None or not step:
        return None
    return max(0, -(-(end - first) // step))


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
    func: kernel.FuncOp, conflicts: list[Conflict], uniform: _Uniformity
) -> kernel.BarrierOp:
    """Inserts a barrier before the common second access that resolves one conflict or more."""
    second = conflicts[0].second.at
    for place in _places(func, conflicts, uniform):
        barrier = kernel.BarrierOp()
        barrier.location = place.location
        Rewriter.insert_op(barrier, InsertPoint.before(place))
        left = set(missing_barriers(func))
        if any(c not in left for c in conflicts):
            return barrier
        Rewriter.erase_op(barrier)
    fail(
        second,
        f"no barrier can be placed where all threads of a block come by: {conflicts[0]}, and "
        "whether they run depends on the thread",
        "give the accesses a `where` condition instead of an scf.if or a loop",
    )


def _places(
    func: kernel.FuncOp, conflicts: list[Conflict], uniform: _Uniformity
) -> Iterator[Operation]:
    """
    Operations in front of which a barrier may resolve a conflict, best first: in the innermost
    region that holds both accesses, or else further out, never where only some threads come by.
    """
    second = conflicts[0].second.at
    around = list(_ancestors(second, func))
    usable: list[Operation] = []
    for op in reversed(around):
        usable.insert(0, op)
        if not uniform.control(op):
            break
    holders = [set(_ancestors(c.first.at, func)) for c in conflicts]

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
