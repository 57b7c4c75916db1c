"""
The slots of shared buffers that a kernel accesses, iteration by iteration, barriers aside.

Where the first subscript of an access is known, it is that of a slot. A loop that picks slots of a
ring (`ko mod 3`) comes back to the same slot after some iterations; in each, what an access
touches and whether an if is taken may be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.kernel.index_values import expanded
from dlc.analysis.kernel.thread_places import ThreadPlaces
from dlc.dialects import kernel
from dlc.dialects.kernel_clusters import buffer_of
from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_memory import is_of_cluster, is_shared
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.kernel_wgmma import WgmmaOpBase
from dlc.dialects.layouts import shape_of, static_shape
from dlc.ir.analyses import Analyses
from dlc.ir.bounds import bounds, within
from dlc.ir.expr import Expr, Mod, constant_of
from dlc.target import WARP

Barrier = kernel.BarrierOp | kernel.LastBlockOp | kernel.ClusterBarrierOp
"""Where all threads of a block meet."""
Order = Barrier | kernel.CommitOp | kernel.WaitOp | kernel.WgmmaCommitOp | kernel.WgmmaWaitOp
"""The operations that order accesses."""

_FEW = 4
"""Slots of the deepest ring."""


@dataclass(frozen=True)
class Access:
    """
    `op` reads or writes `ref` at `at`: itself, or the wait that completes an async copy or product.
    """

    op: Operation
    at: Operation
    ref: SSAValue
    writes: bool

    @property
    def is_atomic(self) -> bool:
        return isinstance(self.op, kernel.AtomicAddOp)

    @property
    def is_landing(self) -> bool:
        """True if it is the end of an asynchronous copy or product."""
        return self.at is not self.op


class Slots:
    """
    The part of a kernel's accesses that does not depend on barriers: the slot of its buffer that an
    access has, the loops that pick slots, and the trips of loops and ifs.
    """

    def __init__(self, func: kernel.FuncOp) -> None:
        self.periods: dict[scf.ForOp, int] = {}
        """After how many iterations a loop comes back to the same slot."""
        self.at: dict[SSAValue, int] = {}
        """The iteration of the loops being played through."""
        self._asked = Analyses()  # barriers may come and go
        self._places = ThreadPlaces()
        self._known: dict[object, int | None] = {}
        self._taken: dict[object, bool | None] = {}
        for op in func.walk():
            for value, period in _chosen_slots(self._asked.get(_slot_values, op)[0]):
                loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
                if isinstance(loop, scf.ForOp) and value is loop.body.block.args[0]:
                    self.periods[loop] = max(self.periods.get(loop, 1), period)

    def matters(self, op: Operation) -> bool:
        """True if `op`, or something in it, accesses shared memory or orders such accesses."""
        return self._asked.get(self._matters, op)

    def _matters(self, op: Operation) -> bool:
        blocks = (block for region in op.regions for block in region.blocks)
        inside = any(self.matters(inner) for block in blocks for inner in block.ops)
        return inside or isinstance(op, Order) or bool(self.accesses(op))

    def accesses(self, op: Operation) -> tuple[Access, ...]:
        """The accesses of shared memory that an operation performs at once."""
        return self._asked.get(_accesses, op)

    def trips(self, op: scf.ForOp) -> int | None:
        """The trip count of a loop; None if it is not known."""
        return self._asked.get(trip_count, op)

    def of(self, op: Operation) -> int | None:
        """The slot that `op` accesses in the current iteration, if it is known."""
        first, values = self._asked.get(_slot_values, op)
        if first is None or not values:
            return None if first is None else first.constant
        key = (op, *map(self.at.get, values))
        if key not in self._known:
            number = first.substitute(self.at.get)
            self._known[key] = number.constant if number.is_constant else None
        return self._known[key]

    def run(self, op: Operation) -> int:
        """
        The number of neighbouring elements that a thread has where `op` accesses only elements e
        with `e floordiv run mod threads` the number of the thread, in rows one after the other;
        else 0.
        """
        return self._asked.get(_run_of, op)

    def each_its_own(self, first: Operation, second: Operation) -> bool:
        """True if it is known of two accesses that no thread meets another's elements."""
        return self._places.alike(first, second)

    def is_of_warp(self, op: Operation) -> bool:
        """
        True if what `op` accesses is its warp's alone, by the first subscript: what stands in such
        a place is ordered by who has put it there (`kernel.sync_warp`).
        """
        return self._asked.get(_is_of_warp, op)

    def taken(self, op: scf.IfOp) -> bool | None:
        """
        True if an if of a loop being played through is taken now; None if that is not known,
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
        True if `op`, an if in a loop being played through, may not be taken from this iteration
        on: that is like leaving the loop, if nothing beside it matters there.
        """
        if not isinstance(op, scf.IfOp) or not self._played(op) or self.taken(op) is not None:
            return False
        assert op.parent is not None
        return not any(self.matters(other) for other in op.parent.ops if other is not op)

    def _played(self, op: scf.IfOp) -> list[Expr]:
        """The conditions of an if, if its loop is being played through and they fall."""
        loop = op.parent_op()
        played = isinstance(loop, scf.ForOp) and loop.body.block.args[0] in self.at
        return self._asked.get(_falling, op) if played else []


def _first_subscript(op: Operation) -> Expr | None:
    """The subscript that picks the slot of an access of shared memory, if one may do so."""
    subscripts: tuple[Expr, ...] = ()
    wide = False
    match op:
        case kernel.LoadOp() | kernel.StoreOp() if is_shared(op.ref):
            value = op.result if isinstance(op, kernel.LoadOp) else op.value
            subscripts, wide = op.subscripts, isinstance(value.type, VectorType)
        case kernel.CpAsyncOp():
            subscripts, wide = op.target_subscripts, op.elements.value.data > 1
        case kernel.LdmatrixOp() | kernel.StmatrixOp():
            subscripts, wide = op.subscripts, True
        case WgmmaOpBase():
            return _common_slot(op)
        case _:
            pass
    # In one dimension the subscript is that of an element, and a vector has several.
    several = wide and len(subscripts) == 1
    return expanded(subscripts[0]) if subscripts and not several else None


def _slot_values(op: Operation) -> tuple[Expr | None, tuple[SSAValue, ...]]:
    """The subscript that picks the slot of an access, and the values in it."""
    first = _first_subscript(op)
    return first, () if first is None else first.values()


def _common_slot(op: WgmmaOpBase) -> Expr | None:
    """The slot of a product's factors, if all are matrices of rings and it is the same."""
    found = [factor.subscripts for factor in op.factors]
    if min(map(len, found)) < 3:
        return None
    first, *others = (expanded(subscripts[0]) for subscripts in found)
    return first if all(other == first for other in others) else None


def _run_of(op: Operation) -> int:
    func = enclosing_func(op)
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
        offset, size = offset + expanded(subscript) * size, size * extent
    run = sum(f for atom, f in offset.terms if _is_thread(atom))
    if run <= 0:
        return 0
    period = run * func.block_size
    rest = Expr((), offset.constant % period)
    for atom, factor in offset.terms:
        if not _is_thread(atom) and factor % period:
            rest = rest + Expr(((atom, factor),), 0)
    return 0 if within(rest, run - width + 1) else run


def _is_of_warp(op: Operation) -> bool:
    match op:
        case kernel.LoadOp() | kernel.StoreOp():
            ref, subscripts = op.ref, op.subscripts
        case kernel.TmaStoreOp():
            ref, subscripts = op.source, op.source_subscripts
        case _:
            return False
    if not any(isinstance(use.operation, kernel.TmaStoreOp) for use in ref.uses):
        return False
    func, first = enclosing_func(op), expanded(subscripts[0])
    assert func is not None
    threads = [o.result for o in func.body.block.ops if isinstance(o, kernel.ThreadIdOp)]
    return any(first == Expr.of(thread) // WARP for thread in threads)


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
    conditions = [expanded(condition) for condition in test.where]
    steps = [condition.coefficient(index) for condition in conditions]
    return conditions if all(step is not None and step <= 0 for step in steps) else []


def _chosen_slots(first: Expr | None) -> Iterator[tuple[SSAValue, int]]:
    """The values that pick a slot, and after how many steps of them the slot is the same again."""
    for atom, factor in () if first is None else first.terms:
        if isinstance(atom, Mod):
            yield from ((value, atom.divisor) for value in atom.base.values())
        elif isinstance(atom, SSAValue) and factor == 1:
            low, high = bounds(atom)
            if high - low < _FEW:  # a loop of no more chunks than slots
                yield atom, int(high - low) + 1


def _accesses(op: Operation) -> tuple[Access, ...]:
    match op:
        case kernel.LoadOp() if is_of_cluster(op.ref):
            return (Access(op, op, buffer_of(op.ref), False),)
        case kernel.LoadOp() | kernel.LdmatrixOp() if is_shared(op.ref):
            return (Access(op, op, op.ref, False),)
        case kernel.StoreOp() | kernel.AtomicAddOp() | kernel.StmatrixOp() if is_shared(op.ref):
            return (Access(op, op, op.ref, True),)
        case kernel.CpAsyncOp():
            return (Access(op, op, op.target, True),)
        case kernel.TmaStoreOp():
            return (Access(op, op, op.source, False),)
        case WgmmaOpBase():
            return tuple(Access(op, op, factor.ref, False) for factor in op.factors)
        case kernel.MbarrierInitOp():
            return (Access(op, op, op.barriers, True),)
        case MbarrierOpBase() | TmaLoadOpBase():
            # These order each other, and what is copied.
            return (Access(op, op, op.barriers, False),)
        case _:
            return ()


def trip_count(op: scf.ForOp) -> int | None:
    """The trip count of a loop; None where its bounds are not constant."""
    first, end, step = (constant_of(v) for v in (op.lb, op.ub, op.step))
    if first is None or end is None or not step:
        return None
    return max(0, -(-(end - first) // step))
