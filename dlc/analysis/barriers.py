"""
Where threads of a block have to wait for each other: barriers that an order of shared memory
accesses demands, and barriers that it does not.

Two accesses of one shared buffer *conflict* if at least one writes and some path from the first
to the second meets no barrier: different threads may then perform them in either order. The
analysis follows all paths through loops and ifs at once: for each point, it computes the accesses
since the last barrier on any path that leads there. That set is finite and grows monotonically,
so the fixpoint over a loop costs two passes over its body and is exact for two or more iterations.

Buffers count as a whole, but for their slots: where the first subscript of an access is known, it
meets only accesses of the same slot. A loop that picks slots of a ring (`ko mod 3`) is played
through iteration by iteration, until every slot has been in every state. An asynchronous copy
writes when it is issued and again at the wait that completes its group. Two runs of the same
operation do not conflict: an operation that fills a buffer writes each element once between two
barriers.
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
from dlc.ir.expr import Expr, Mod, constant_of


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


def missing_barriers(func: kernel.FuncOp, slots: _Slots | None = None) -> list[Conflict]:
    """The conflicts of a kernel, in the order of their second accesses."""
    return [c for c in _Walk(func, slots=slots).conflicts if c.first.op is not c.second.op]


def place_barriers(func: kernel.FuncOp) -> int:
    """
    Inserts `kernel.barrier`s until no accesses conflict, none of them redundant; returns how many.
    Each stands where all threads of the block come by, in the innermost loop around both accesses
    that allows it. `OpError` if control flow that depends on the thread leaves no such place.
    """
    uniform = _Uniformity()
    slots = _Slots(func)
    placed: list[kernel.BarrierOp] = []
    while conflicts := missing_barriers(func, slots):
        second = conflicts[0].second
        open_ = [c for c in conflicts if c.second.at is second.at]
        placed.append(_separate(func, open_, uniform, slots))
    for barrier in list(placed):
        if not _conflicts_without(func, barrier, slots):
            Rewriter.erase_op(barrier)
            placed.remove(barrier)
    return len(placed)


def redundant_barriers(func: kernel.FuncOp) -> list[kernel.BarrierOp]:
    """
    Barriers without all of which every two accesses that were separated still are, chosen in
    program order. Runs of the same operation count as accesses of different threads here.
    """
    slots = _Slots(func)
    before = set(_Walk(func, slots=slots).conflicts)
    redundant: list[kernel.BarrierOp] = []
    for op in func.walk():
        if isinstance(op, kernel.BarrierOp):
            ignored = frozenset([*redundant, op])
            if set(_Walk(func, ignored, slots).conflicts) <= before:
                redundant.append(op)
    return redundant


def _conflicts_without(func: kernel.FuncOp, barrier: kernel.BarrierOp, slots: _Slots) -> bool:
    conflicts = _Walk(func, frozenset((barrier,)), slots).conflicts
    return any(c.first.op is not c.second.op for c in conflicts)


Copy = tuple[kernel.CpAsyncOp, int | None]
"""An asynchronous copy and the slot that it writes."""

_MAX_GROUPS = 16
"""Groups in flight that are told apart; more than any wait leaves unfinished."""


@dataclass
class _State:
    """What threads may have done since they last met, and the groups of copies in flight."""

    accesses: dict[tuple[Access, int | None], None] = field(default_factory=dict)
    groups: list[dict[Copy, None]] = field(default_factory=list)
    """Closed groups, the oldest first."""
    open: dict[Copy, None] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.accesses), [dict(g) for g in self.groups], dict(self.open))

    @property
    def _size(self) -> int:
        return len(self.accesses) + len(self.open) + sum(len(g) + 1 for g in self.groups)

    def join(self, other: _State) -> bool:
        """Adds what `other` has; was anything new?"""
        before = self._size
        self.accesses.update(other.accesses)
        self.open.update(other.open)
        missing = len(other.groups) - len(self.groups)
        self.groups = [{} for _ in range(missing)] + self.groups
        for mine, theirs in zip(reversed(self.groups), reversed(other.groups), strict=False):
            mine.update(theirs)
        return self._size > before

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = {}
        if len(self.groups) > _MAX_GROUPS:
            oldest, second, *rest = self.groups
            self.groups = [{**oldest, **second}, *rest]

    def complete(self, pending: int) -> list[Copy]:
        """Takes out the copies of all groups but the `pending` newest."""
        count = max(0, len(self.groups) - pending)
        done, self.groups = self.groups[:count], self.groups[count:]
        return [copy for group in done for copy in group]

    def forget_slots(self) -> None:
        """After a loop, what it did counts for all slots of a buffer."""
        self.accesses = {(access, None): None for access, _ in self.accesses}
        self.open = {(op, None): None for op, _ in self.open}
        self.groups = [{(op, None): None for op, _ in group} for group in self.groups]


class _Slots:
    """Which slot of its buffer an access has, and the loops that pick slots."""

    def __init__(self, func: kernel.FuncOp) -> None:
        self.periods: dict[scf.ForOp, int] = {}
        """After how many iterations a loop comes back to the same slot."""
        self.at: dict[SSAValue, int] = {}
        """The iteration of the loops being played through."""
        self._known: dict[object, int | None] = {}
        self._first: dict[Operation, Expr | None] = {}
        for op in func.walk():
            for atom in _remainders(self._first_subscript(op)):
                for value in atom.base.values():
                    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
                    if isinstance(loop, scf.ForOp) and value is loop.body.block.args[0]:
                        self.periods[loop] = max(self.periods.get(loop, 1), atom.divisor)

    def of(self, op: Operation) -> int | None:
        """The slot that `op` accesses in the current iteration, if it is known."""
        first = self._first_subscript(op)
        if first is None:
            return None
        key = (op, tuple(self.at.get(v) for v in first.values()))
        if key not in self._known:
            number = first.substitute(self.at.get)
            self._known[key] = number.constant if number.is_constant else None
        return self._known[key]

    def ends_loop(self, op: Operation) -> bool:
        """
        Is `op` an if in a loop being played through that, once not taken, never is again? Not
        taking it then is like leaving the loop.
        """
        loop = op.parent_op()
        if not isinstance(op, scf.IfOp) or op.results or op.false_region.blocks:
            return False
        if not isinstance(loop, scf.ForOp) or loop.body.block.args[0] not in self.at:
            return False
        test = op.cond.owner
        if not isinstance(test, kernel.TestOp):
            return False
        index = loop.body.block.args[0]
        steps = [_expanded(condition).coefficient(index) for condition in test.where]
        return all(step is not None and step <= 0 for step in steps)

    def _first_subscript(self, op: Operation) -> Expr | None:
        if op not in self._first:
            match op:
                case kernel.LoadOp() | kernel.StoreOp() if kernel.is_shared(op.ref):
                    subscripts = op.subscripts
                case kernel.CpAsyncOp():
                    subscripts = op.target_subscripts
                case _:
                    subscripts = ()
            # In one dimension the subscript is that of an element, and a vector has several.
            self._first[op] = _expanded(subscripts[0]) if len(subscripts) > 1 else None
        return self._first[op]


def _expanded(expr: Expr) -> Expr:
    """An expression with the index values that it mentions written out."""

    def definition(value: SSAValue) -> Expr | None:
        owner = value.owner
        return _expanded(owner.subscripts[0]) if isinstance(owner, kernel.IndexOp) else None

    return expr.substitute(definition)


def _remainders(expr: Expr | None) -> list[Mod]:
    return [] if expr is None else [atom for atom, _ in expr.terms if isinstance(atom, Mod)]


class _Walk:
    """One run of the analysis over a kernel, in which `ignored` barriers do nothing."""

    def __init__(
        self,
        func: kernel.FuncOp,
        ignored: frozenset[kernel.BarrierOp] = frozenset(),
        slots: _Slots | None = None,
    ) -> None:
        self._ignored = ignored
        self._found: dict[Conflict, None] = {}
        self._slots = slots or _Slots(func)
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
            case scf.IfOp() if self._slots.ends_loop(op):
                return self._block(op.true_region.block, state)
            case scf.IfOp():
                taken = self._block(op.true_region.block, state.copy())
                for block in op.false_region.blocks:
                    state = self._block(block, state)
                taken.join(state)
                return taken
            case kernel.BarrierOp() if op not in self._ignored:
                state.accesses.clear()
            case kernel.CommitOp():
                state.commit()
            case kernel.WaitOp():
                for copy, slot in state.complete(op.pending.value.data):
                    self._meet(Access(copy, op, copy.target, True), slot, state)
            case _:
                for access in accesses(op):
                    self._meet(access, self._slots.of(op), state)
                if isinstance(op, kernel.CpAsyncOp):
                    state.open[op, self._slots.of(op)] = None
        return state

    def _loop(self, op: scf.ForOp, state: _State) -> _State:
        trips = trip_count(op)
        if trips == 0:
            return state
        if trips is not None and op in self._slots.periods:
            return self._play(op, trips, state)
        end = self._block(op.body.block, state.copy())
        if trips != 1:
            start = state.copy()
            while start.join(end):
                end = self._block(op.body.block, start.copy())
        if trips is None:
            end.join(state)
        return end

    def _play(self, op: scf.ForOp, trips: int, state: _State) -> _State:
        """Walks through the iterations of a loop that picks slots."""
        index = op.body.block.args[0]
        first, step = constant_of(op.lb), constant_of(op.step)
        assert first is not None
        assert step is not None
        ends = state.copy()
        for iteration in range(min(trips, 2 * self._slots.periods[op] + 2)):
            self._slots.at[index] = first + iteration * step
            state = self._block(op.body.block, state)
            ends.join(state)
        after = ends if any(map(self._slots.ends_loop, op.body.block.ops)) else state
        del self._slots.at[index]
        after.forget_slots()
        return after

    def _meet(self, access: Access, slot: int | None, state: _State) -> None:
        for earlier, other in state.accesses:
            if earlier.ref is not access.ref or not (earlier.writes or access.writes):
                continue
            if slot is not None and other is not None and slot != other:
                continue
            if not (earlier.is_atomic and access.is_atomic):
                self._found[Conflict(earlier, access)] = None
        state.accesses[access, slot] = None


def accesses(op: Operation) -> Iterator[Access]:
    """The accesses of shared memory that an operation performs at once."""
    match op:
        case kernel.LoadOp() if kernel.is_shared(op.ref):
            yield Access(op, op, op.ref, False)
        case kernel.StoreOp() | kernel.AtomicAddOp() if kernel.is_shared(op.ref):
            yield Access(op, op, op.ref, True)
        case kernel.CpAsyncOp():
            yield Access(op, op, op.target, True)
        case kernel.MbarrierInitOp():
            yield Access(op, op, op.barriers, True)
        case kernel.MbarrierOpBase() | kernel.MbarrierWaitOp() | kernel.TmaLoadOp():
            yield Access(op, op, op.barriers, False)  # they order each other, and what is copied
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
    func: kernel.FuncOp, conflicts: list[Conflict], uniform: _Uniformity, slots: _Slots
) -> kernel.BarrierOp:
    """Inserts a barrier before the common second access that resolves one conflict or more."""
    second = conflicts[0].second.at
    for place in _places(func, conflicts, uniform):
        barrier = kernel.BarrierOp()
        barrier.location = place.location
        Rewriter.insert_op(barrier, InsertPoint.before(place))
        left = set(missing_barriers(func, slots))
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
