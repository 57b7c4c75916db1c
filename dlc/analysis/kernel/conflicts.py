"""
Which accesses of shared memory different threads of a block may perform in either order.

Two accesses of one shared buffer *conflict* if at least one writes and some path from the first
to the second meets no barrier: different threads may then perform them in either order. The
analysis follows all paths through loops and ifs at once: for each point, it computes the accesses
since the last barrier on any path that leads there. That set is finite and grows monotonically,
so the fixpoint over a loop costs two passes over its body and is exact for two or more iterations.
(Where nothing in the body orders accesses, they are just added, one state for all paths; where none
of them writes, either, one pass does.)

Buffers count as a whole, but for their slots: where the first subscript of an access is known, it
meets only accesses of the same slot. A loop that picks slots of a ring (`ko mod 3`) is played
through iteration by iteration, until every slot has been in every state. An asynchronous copy
writes when it is issued and again at the wait that completes its group. What the tensor memory
accelerator writes is left out: mbarriers order it, of which only the initialization counts. Where
two accesses deal the elements of a buffer to the threads alike, a thread meets only its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Block, Operation, SSAValue

from dlc.dialects import kernel
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_memory import is_shared
from dlc.dialects.layouts import shape_of, static_shape
from dlc.ir.bounds import bounds, within
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

    @property
    def is_landing(self) -> bool:
        """Is it the end of an asynchronous copy?"""
        return self.at is not self.op


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


def conflicts(
    func: kernel.FuncOp,
    slots: Slots | None = None,
    ignored: frozenset[kernel.BarrierOp] = frozenset(),
) -> list[Conflict]:
    """
    The conflicts of a kernel if the `ignored` barriers did nothing, in the order of their second
    accesses. Two runs of one operation are two accesses. `slots` saves computing them again.
    """
    return list(_Walk(slots or Slots(func), ignored).over(func))


Copy = tuple[kernel.CpAsyncOp, int | None]
"""An asynchronous copy and the slot that it writes."""

_Order = kernel.BarrierOp | kernel.CommitOp | kernel.WaitOp

_FEW = 4
"""Slots of the deepest ring."""

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

    def forget_slots(self, inside: Container[Operation]) -> None:
        """What the operations `inside` a loop did counts for all slots of a buffer."""

        def forgotten(copies: dict[Copy, None]) -> dict[Copy, None]:
            return {(op, None if op in inside else slot): None for op, slot in copies}

        self.accesses = {
            (access, None if access.op in inside else slot): None for access, slot in self.accesses
        }
        self.open = forgotten(self.open)
        self.groups = [forgotten(group) for group in self.groups]


class Slots:
    """
    What of a kernel's accesses does not depend on its barriers: which slot of its buffer an access
    has, the loops that pick slots, and how often loops and ifs run.
    """

    def __init__(self, func: kernel.FuncOp) -> None:
        self.periods: dict[scf.ForOp, int] = {}
        """After how many iterations a loop comes back to the same slot."""
        self.at: dict[SSAValue, int] = {}
        """The iteration of the loops being played through."""
        self._known: dict[object, int | None] = {}
        self._runs: dict[Operation, int] = {}
        self._first: dict[Operation, Expr | None] = {}
        self._accesses: dict[Operation, tuple[Access, ...]] = {}
        self._matters: dict[Operation, bool] = {}
        self._trips: dict[scf.ForOp, int | None] = {}
        self._falling: dict[scf.IfOp, list[Expr]] = {}
        self._taken: dict[object, bool | None] = {}
        for op in func.walk():
            for value, period in _chosen_slots(self._first_subscript(op)):
                loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
                if isinstance(loop, scf.ForOp) and value is loop.body.block.args[0]:
                    self.periods[loop] = max(self.periods.get(loop, 1), period)

    def matters(self, op: Operation) -> bool:
        """Does `op`, or something in it, access shared memory or order such accesses?"""
        if op not in self._matters:
            own = isinstance(op, _Order)
            blocks = (block for region in op.regions for block in region.blocks)
            inside = any(self.matters(inner) for block in blocks for inner in block.ops)
            self._matters[op] = own or inside or bool(self.accesses(op))
        return self._matters[op]

    def accesses(self, op: Operation) -> tuple[Access, ...]:
        """The accesses of shared memory that an operation performs at once."""
        if op not in self._accesses:
            self._accesses[op] = tuple(accesses(op))
        return self._accesses[op]

    def trips(self, op: scf.ForOp) -> int | None:
        """How often the body of a loop runs, if that is known."""
        if op not in self._trips:
            self._trips[op] = trip_count(op)
        return self._trips[op]

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

    def run(self, op: Operation) -> int:
        """
        How many neighbouring elements a thread has where `op` accesses only elements e with
        `e floordiv run mod threads` the number of the thread, in rows one after the other; else 0.
        """
        if op not in self._runs:
            self._runs[op] = _run_of(op)
        return self._runs[op]

    def taken(self, op: scf.IfOp) -> bool | None:
        """
        Is an if of a loop being played through taken in this iteration? None if that is not known,
        and for ifs that, once not taken, may be taken again.
        """
        conditions = self._played(op)
        key = (op, tuple(self.at.get(v) for c in conditions for v in c.values()))
        if key not in self._taken:
            values = [condition.substitute(self.at.get) for condition in conditions]
            never = any(value.is_constant and value.constant < 0 for value in values)
            known = bool(values) and all(value.is_constant for value in values)
            self._taken[key] = False if never else True if known else None
        return self._taken[key]

    def ends_loop(self, op: Operation) -> bool:
        """
        May `op`, an if in a loop being played through, not be taken from this iteration on? Not
        taking it then is like leaving the loop, if nothing beside it matters there.
        """
        if not isinstance(op, scf.IfOp) or not self._played(op) or self.taken(op) is not None:
            return False
        assert op.parent is not None
        return not any(self.matters(other) for other in op.parent.ops if other is not op)

    def _played(self, op: scf.IfOp) -> list[Expr]:
        """The conditions of an if, if its loop is being played through and they fall."""
        if op not in self._falling:
            self._falling[op] = _falling(op)
        loop = op.parent_op()
        played = isinstance(loop, scf.ForOp) and loop.body.block.args[0] in self.at
        return self._falling[op] if played else []

    def _first_subscript(self, op: Operation) -> Expr | None:
        if op not in self._first:
            subscripts: tuple[Expr, ...] = ()
            wide = False
            match op:
                case kernel.LoadOp() | kernel.StoreOp() if is_shared(op.ref):
                    value = op.result if isinstance(op, kernel.LoadOp) else op.value
                    subscripts, wide = op.subscripts, isinstance(value.type, VectorType)
                case kernel.CpAsyncOp():
                    subscripts, wide = op.target_subscripts, op.elements.value.data > 1
                case _:
                    pass
            # In one dimension the subscript is that of an element, and a vector has several.
            several = wide and len(subscripts) == 1
            self._first[op] = _expanded(subscripts[0]) if subscripts and not several else None
        return self._first[op]


def _run_of(op: Operation) -> int:
    func = kernel.enclosing_func(op)
    match op:
        case kernel.LoadOp() | kernel.StoreOp():
            type = (op.result if isinstance(op, kernel.LoadOp) else op.value).type
            ref, subscripts = op.ref, op.subscripts
            width = prod(static_shape(type)) if isinstance(type, VectorType) else 1
        case kernel.CpAsyncOp():
            ref, subscripts, width = op.target, op.target_subscripts, op.elements.value.data
        case _:
            return 0
    assert func is not None
    assert isinstance(ref.type, MemRefType)
    offset, size = Expr(), 1
    for subscript, extent in zip(reversed(subscripts), reversed(shape_of(ref)), strict=True):
        offset, size = offset + _expanded(subscript) * size, size * extent
    run = sum(f for atom, f in offset.terms if _is_thread(atom))
    if run <= 0:
        return 0
    period = run * func.block_size
    rest = Expr((), offset.constant % period)
    for atom, factor in offset.terms:
        if not _is_thread(atom) and factor % period:
            rest = rest + Expr(((atom, factor),), 0)
    return 0 if within(rest, run - width + 1) else run


def _is_thread(atom: object) -> bool:
    return isinstance(atom, SSAValue) and isinstance(atom.owner, kernel.ThreadIdOp)


def _falling(op: scf.IfOp) -> list[Expr]:
    """The conditions of an if in a loop, if none of them becomes true again later."""
    loop, test = op.parent_op(), op.cond.owner
    if op.results or op.false_region.blocks or not isinstance(loop, scf.ForOp):
        return []
    if not isinstance(test, kernel.TestOp):
        return []
    index = loop.body.block.args[0]
    conditions = [_expanded(condition) for condition in test.where]
    steps = [condition.coefficient(index) for condition in conditions]
    return conditions if all(step is not None and step <= 0 for step in steps) else []


def _expanded(expr: Expr) -> Expr:
    """An expression with the index values that it mentions written out."""

    def definition(value: SSAValue) -> Expr | None:
        owner = value.owner
        return _expanded(owner.subscripts[0]) if isinstance(owner, kernel.IndexOp) else None

    return expr.substitute(definition)


def _chosen_slots(first: Expr | None) -> Iterator[tuple[SSAValue, int]]:
    """The values that pick a slot, and after how many steps of them the slot is the same again."""
    for atom, factor in () if first is None else first.terms:
        if isinstance(atom, Mod):
            yield from ((value, atom.divisor) for value in atom.base.values())
        elif isinstance(atom, SSAValue) and factor == 1:
            low, high = bounds(atom)
            if high - low < _FEW:  # a loop of no more chunks than slots
                yield atom, int(high - low) + 1


class _Walk:
    """One run of the analysis over a kernel, in which `ignored` barriers do nothing."""

    def __init__(self, slots: Slots, ignored: frozenset[kernel.BarrierOp]) -> None:
        self._slots = slots
        self._ignored = ignored
        self._found: dict[Conflict, None] = {}
        self._ops: dict[Block, list[Operation]] = {}
        self._adds: dict[Operation, list[Operation] | None] = {}

    def over(self, func: kernel.FuncOp) -> dict[Conflict, None]:
        """The conflicts, in the order in which they were found."""
        self._block(func.body.block, _State())
        return self._found

    def _block(self, block: Block, state: _State) -> _State:
        for op in self._in(block):
            state = self._op(op, state)
        return state

    def _in(self, block: Block) -> list[Operation]:
        """The operations of a block that matter."""
        if block not in self._ops:
            self._ops[block] = [op for op in block.ops if self._slots.matters(op)]
        return self._ops[block]

    def _added(self, op: Operation) -> list[Operation] | None:
        """
        The accesses of an operation that adds them to those since the last barrier and does nothing
        else, in the order of execution; None for any other.
        """
        if op not in self._adds:
            self._adds[op] = self._find_added(op)
        return self._adds[op]

    def _find_added(self, op: Operation) -> list[Operation] | None:
        if not isinstance(op, scf.ForOp | scf.IfOp):
            return None if isinstance(op, _Order) and op not in self._ignored else [op]
        if op in self._slots.periods or (isinstance(op, scf.IfOp) and op.false_region.blocks):
            return None
        found: list[Operation] = []
        for inner in self._in(op.regions[0].block):
            added = self._added(inner)
            if added is None:
                return None
            found += added
        if not isinstance(op, scf.ForOp):
            return found
        trips = self._slots.trips(op)
        writes = any(access.writes for o in found for access in self._slots.accesses(o))
        return found * min(2 if trips is None else trips, 2 if writes else 1)

    def _op(self, op: Operation, state: _State) -> _State:
        match op:
            case scf.IfOp() if (taken := self._slots.taken(op)) is not None:
                return self._block(op.true_region.block, state) if taken else state
            case scf.IfOp() if self._slots.ends_loop(op):
                return self._block(op.true_region.block, state)
            case _ if (added := self._added(op)) is not None:
                for access in added:
                    self._access(access, state)
            case scf.ForOp():
                return self._loop(op, state)
            case scf.IfOp():
                taken = self._block(op.true_region.block, state.copy())
                for block in op.false_region.blocks:
                    state = self._block(block, state)
                taken.join(state)
                return taken
            case kernel.BarrierOp():
                state.accesses.clear()
            case kernel.CommitOp():
                state.commit()
            case _:
                assert isinstance(op, kernel.WaitOp)
                for copy, slot in state.complete(op.pending.value.data):
                    self._meet(Access(copy, op, copy.target, True), slot, state)
        return state

    def _access(self, op: Operation, state: _State) -> None:
        slot = self._slots.of(op)
        for access in self._slots.accesses(op):
            self._meet(access, slot, state)
        if isinstance(op, kernel.CpAsyncOp):
            state.open[op, slot] = None

    def _loop(self, op: scf.ForOp, state: _State) -> _State:
        trips, body = self._slots.trips(op), op.body.block
        if trips == 0:
            return state
        if trips is not None and op in self._slots.periods:
            return self._play(op, trips, state)
        end = self._block(body, state.copy())
        if trips != 1:
            start = state.copy()
            while start.join(end):
                end = self._block(body, start.copy())
        if trips is None:
            end.join(state)
        return end

    def _play(self, op: scf.ForOp, trips: int, state: _State) -> _State:
        """Walks through the iterations of a loop that picks slots."""
        index = op.body.block.args[0]
        first, step = constant_of(op.lb), constant_of(op.step)
        assert first is not None
        assert step is not None
        left: list[_State] = []
        iterations = list(self._iterations(op, trips))
        for iteration in iterations:
            self._slots.at[index] = first + iteration * step
            if any(map(self._slots.ends_loop, self._in(op.body.block))):
                left.append(state.copy())
            state = self._block(op.body.block, state)
        for earlier in left:
            state.join(earlier)
        del self._slots.at[index]
        if len(iterations) < trips:
            state.forget_slots(set(op.walk()))
        return state

    def _iterations(self, op: scf.ForOp, trips: int) -> Iterator[int]:
        """
        The first iterations, until every slot has been in every state; of a loop that is entered
        again also the last ones, which may request nothing any more, from the same slot on.
        """
        period = self._slots.periods[op]
        few = 2 * period + 2
        yield from range(min(trips, few))
        if any(isinstance(around, scf.ForOp) for around in _around(op)):
            tail = max(few, trips - few)
            yield from range(tail - (tail - few) % period, trips)

    def _meet(self, access: Access, slot: int | None, state: _State) -> None:
        for earlier, other in state.accesses:
            if earlier.ref is not access.ref or not (earlier.writes or access.writes):
                continue
            if slot is not None and other is not None and slot != other:
                continue
            if access.is_landing and earlier.op is access.op:
                continue  # a copy's request and its end are one access
            if (dealt := self._slots.run(access.op)) and dealt == self._slots.run(earlier.op):
                continue
            if not (earlier.is_atomic and access.is_atomic):
                self._found[Conflict(earlier, access)] = None
        state.accesses[access, slot] = None


def accesses(op: Operation) -> Iterator[Access]:
    """The accesses of shared memory that an operation performs at once."""
    match op:
        case kernel.LoadOp() if is_shared(op.ref):
            yield Access(op, op, op.ref, False)
        case kernel.StoreOp() | kernel.AtomicAddOp() if is_shared(op.ref):
            yield Access(op, op, op.ref, True)
        case kernel.CpAsyncOp():
            yield Access(op, op, op.target, True)
        case kernel.MbarrierInitOp():
            yield Access(op, op, op.barriers, True)
        case MbarrierOpBase() | kernel.TmaLoadOp():
            yield Access(op, op, op.barriers, False)  # they order each other, and what is copied
        case _:
            pass


def _around(op: Operation) -> Iterator[Operation]:
    while (parent := op.parent_op()) is not None:
        yield parent
        op = parent


def trip_count(op: scf.ForOp) -> int | None:
    """How often the body of a loop runs; None where its bounds are not constant."""
    first, end, step = (constant_of(v) for v in (op.lb, op.ub, op.step))
    if first is None or end is None or not step:
        return None
    return max(0, -(-(end - first) // step))
