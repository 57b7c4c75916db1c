"""
Conflicts: accesses of shared memory that threads of a block may perform in either order.

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
writes when it is issued and again at the wait that completes its group; likewise a product of a
warpgroup reads until its wait. What the tensor memory accelerator writes is left out: mbarriers
order it, of which only the initialization counts. Where two accesses deal the elements of a buffer
to the threads alike, or threads' numbers alone say what they touch and it is nothing of another's,
a thread meets only its own; where both are of places that each warp has for itself, those who put
them there order them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.kernel.slots import Access, Barrier, Order, Slots
from dlc.dialects import kernel
from dlc.dialects.kernel_wgmma import WgmmaOpBase
from dlc.ir.expr import constant_of


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
    ignored: frozenset[Barrier] = frozenset(),
) -> list[Conflict]:
    """
    The conflicts of a kernel if the `ignored` barriers did nothing, in the order of their second
    accesses. Two runs of one operation are two accesses. `slots` saves computing them again.
    """
    return list(_Walk(slots or Slots(func), ignored).over(func))


Request = tuple[Operation, int | None]
"""An asynchronous copy and the slot that it writes, or a product and the slot that it reads."""

_MAX_GROUPS = 16
"""Groups in flight that are told apart; more than any wait leaves unfinished."""


@dataclass
class _Flights:
    """Copies, or products, in flight."""

    groups: list[dict[Request, None]] = field(default_factory=list)
    """Closed groups, the oldest first."""
    open: dict[Request, None] = field(default_factory=dict)

    def copy(self) -> _Flights:
        return _Flights([dict(g) for g in self.groups], dict(self.open))

    @property
    def size(self) -> int:
        return len(self.open) + sum(len(g) + 1 for g in self.groups)

    def join(self, other: _Flights) -> None:
        """Adds those of `other`."""
        self.open.update(other.open)
        missing = len(other.groups) - len(self.groups)
        self.groups = [{} for _ in range(missing)] + self.groups
        for mine, theirs in zip(reversed(self.groups), reversed(other.groups), strict=False):
            mine.update(theirs)

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = {}
        if len(self.groups) > _MAX_GROUPS:
            oldest, second, *rest = self.groups
            self.groups = [{**oldest, **second}, *rest]

    def complete(self, pending: int) -> list[Request]:
        """Takes out those of all groups but the `pending` newest."""
        count = max(0, len(self.groups) - pending)
        done, self.groups = self.groups[:count], self.groups[count:]
        return [request for group in done for request in group]

    def forget_slots(self, inside: Container[Operation]) -> None:
        """Makes requests by operations `inside` a loop count for all slots."""

        def forgotten(requests: dict[Request, None]) -> dict[Request, None]:
            return {(op, None if op in inside else slot): None for op, slot in requests}

        self.open = forgotten(self.open)
        self.groups = [forgotten(group) for group in self.groups]


@dataclass
class _State:
    """Accesses that threads may have made since the last barrier, and what is in flight."""

    accesses: dict[SSAValue, dict[tuple[Access, int | None], None]] = field(default_factory=dict)
    """Those of each buffer, with their slots, in the order in which they were first made."""
    copies: _Flights = field(default_factory=_Flights)
    products: _Flights = field(default_factory=_Flights)

    def copy(self) -> _State:
        accesses = {ref: dict(made) for ref, made in self.accesses.items()}
        return _State(accesses, self.copies.copy(), self.products.copy())

    def of(self, ref: SSAValue) -> dict[tuple[Access, int | None], None]:
        """The accesses of a buffer, to be added to."""
        return self.accesses.setdefault(ref, {})

    @property
    def _size(self) -> int:
        return sum(map(len, self.accesses.values())) + self.copies.size + self.products.size

    def join(self, other: _State) -> bool:
        """Adds the accesses and requests of `other`; True if any was new."""
        before = self._size
        for ref, made in other.accesses.items():
            self.of(ref).update(made)
        self.copies.join(other.copies)
        self.products.join(other.products)
        return self._size > before

    def forget_slots(self, inside: Container[Operation]) -> None:
        """Makes the accesses by operations `inside` a loop count for all slots of their buffers."""
        for ref, made in self.accesses.items():
            self.accesses[ref] = {
                (access, None if access.op in inside else slot): None for access, slot in made
            }
        self.copies.forget_slots(inside)
        self.products.forget_slots(inside)


class _Walk:
    """One run of the analysis over a kernel, in which `ignored` barriers do nothing."""

    def __init__(self, slots: Slots, ignored: frozenset[Barrier]) -> None:
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
            return None if isinstance(op, Order) and op not in self._ignored else [op]
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
        if isinstance(op, scf.IfOp):
            if (taken := self._slots.taken(op)) is not None:
                return self._block(op.true_region.block, state) if taken else state
            if self._slots.ends_loop(op):
                return self._block(op.true_region.block, state)
        if (added := self._added(op)) is not None:
            for access in added:
                self._access(access, state)
            return state
        match op:
            case scf.ForOp():
                return self._loop(op, state)
            case scf.IfOp():
                taken = self._block(op.true_region.block, state.copy())
                for block in op.false_region.blocks:
                    state = self._block(block, state)
                taken.join(state)
                return taken
            case kernel.ClusterBarrierOp() if op.relaxed is not None:
                pass
            case kernel.BarrierOp() | kernel.LastBlockOp() | kernel.ClusterBarrierOp():
                state.accesses.clear()
            case kernel.CommitOp():
                state.copies.commit()
            case kernel.WgmmaCommitOp():
                state.products.commit()
            case _:
                assert isinstance(op, kernel.WaitOp | kernel.WgmmaWaitOp)
                self._wait(op, state)
        return state

    def _wait(self, op: kernel.WaitOp | kernel.WgmmaWaitOp, state: _State) -> None:
        is_copy = isinstance(op, kernel.WaitOp)
        flights = state.copies if is_copy else state.products
        for request, slot in flights.complete(op.pending.value.data):
            for access in self._slots.accesses(request):
                landing = Access(request, op, access.ref, access.writes)
                if is_copy:
                    self._meet(landing, slot, state)
                else:  # no barrier mends a write while a product is in flight
                    state.of(landing.ref)[landing, slot] = None

    def _access(self, op: Operation, state: _State) -> None:
        slot = self._slots.of(op)
        for access in self._slots.accesses(op):
            self._meet(access, slot, state)
        if isinstance(op, kernel.CpAsyncOp):
            state.copies.open[op, slot] = None
        elif isinstance(op, WgmmaOpBase):
            state.products.open[op, slot] = None

    def _loop(self, op: scf.ForOp, state: _State) -> _State:
        trips, body = self._slots.trips(op), op.body.block
        if trips == 0:
            return state
        if op in self._slots.periods and _is_counted(op):
            return self._play(op, trips, state)
        end = self._block(body, state.copy())
        if trips != 1:
            start = state.copy()
            while start.join(end):
                end = self._block(body, start.copy())
        if trips is None:
            end.join(state)
        return end

    def _play(self, op: scf.ForOp, trips: int | None, state: _State) -> _State:
        """
        Walks through the iterations of a loop that picks slots; one that may run any number of
        times may be left before each of them.
        """
        index = op.body.block.args[0]
        first, step = constant_of(op.lb), constant_of(op.step)
        assert first is not None
        assert step is not None
        left: list[_State] = []
        iterations = list(self._iterations(op, trips))
        for iteration in iterations:
            self._slots.at[index] = first + iteration * step
            if trips is None or any(map(self._slots.ends_loop, self._in(op.body.block))):
                left.append(state.copy())
            state = self._block(op.body.block, state)
        for earlier in left:
            state.join(earlier)
        del self._slots.at[index]
        if trips is None or len(iterations) < trips:
            state.forget_slots(set(op.walk()))
        return state

    def _iterations(self, op: scf.ForOp, trips: int | None) -> Iterator[int]:
        """
        The first iterations, until every slot has been in every state; of a loop that is entered
        again also the last ones, which may request nothing any more, from the same slot on.
        """
        period = self._slots.periods[op]
        few = 2 * period + 2
        yield from range(few if trips is None else min(trips, few))
        if trips is not None and any(isinstance(around, scf.ForOp) for around in _around(op)):
            tail = max(few, trips - few)
            yield from range(tail - (tail - few) % period, trips)

    def _meet(self, access: Access, slot: int | None, state: _State) -> None:
        made = state.of(access.ref)
        met = [
            earlier
            for earlier, other in made
            if (earlier.writes or access.writes)
            and (slot is None or other is None or slot == other)
            # A copy's request and its end are one access.
            and not (access.is_landing and earlier.op is access.op)
        ]
        made[access, slot] = None
        if not met:
            return
        dealt, is_of_warp = self._slots.run(access.op), self._slots.is_of_warp(access.op)
        for earlier in met:
            if dealt and dealt == self._slots.run(earlier.op):
                continue
            if is_of_warp and self._slots.is_of_warp(earlier.op):
                continue
            if self._slots.each_its_own(earlier.op, access.op):
                continue
            if not (earlier.is_atomic and access.is_atomic):
                self._found[Conflict(earlier, access)] = None


def _is_counted(op: scf.ForOp) -> bool:
    """True if the numbers of a loop's iterations are known, if not how many there are."""
    return constant_of(op.lb) is not None and constant_of(op.step) is not None


def _around(op: Operation) -> Iterator[Operation]:
    while (parent := op.parent_op()) is not None:
        yield parent
        op = parent
