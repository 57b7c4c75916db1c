"""
Shadow memory: who accessed an element last, and whether that came before.

A race is two accesses of an element by different threads, one of them a write, neither of which
happened before the other (`dlc.simulator.clocks`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.clocks import VectorClocks
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import ACTOR_BITS, ACTOR_MASK, Lanes, Machine, first_of

Elements = NDArray[np.int64]
Packed = NDArray[np.int64]
NOBODY = 0
"""No access: of new arrays of zeros, only what is accessed takes memory."""
BEFORE = -1
"""The writer of what holds a value when the kernel begins."""


class Readers(ABC):
    """Who has read each element since it was ordered by what happened then."""

    @abstractmethod
    def note(self, elements: Elements, lanes: Lanes, packed: Packed) -> None:
        """Each lane reads its element."""

    @abstractmethod
    def conflict(self, elements: Elements, lanes: Lanes) -> tuple[int, int] | None:
        """A position whose lane may not write its element yet, and a read that forbids it."""


class FewReaders(Readers):
    """Two different readers at the newest time: enough where times are those of barriers."""

    def __init__(self, size: int, machine: Machine) -> None:
        self.machine = machine
        self.time = np.zeros(size, np.int32)
        self.first = np.zeros(size, np.int64)
        self.second = np.zeros(size, np.int64)

    def note(self, elements: Elements, lanes: Lanes, packed: Packed) -> None:
        now = self.machine.clock.now(lanes)
        stale = self.time[elements] < now
        if stale.any():
            renewed = elements[stale]
            self.time[renewed] = now if isinstance(now, int) else now[stale]
            self.first[renewed] = packed[stale]
            self.second[renewed] = NOBODY
        other = ((self.first[elements] ^ packed) & ACTOR_MASK) != 0
        if other.any():
            self.second[elements[other]] = packed[other]

    def conflict(self, elements: Elements, lanes: Lanes) -> tuple[int, int] | None:
        recent = self.time[elements] >= self.machine.clock.now(lanes)
        if not recent.any():
            return None
        mine = self.machine.actor_of[lanes]
        for readers in (self.first[elements], self.second[elements]):
            bad = recent & (readers != NOBODY) & ((readers & ACTOR_MASK) != mine)
            if bad.any():
                return first_of(bad), int(readers[first_of(bad)])
        return None


class AllReaders(Readers):
    """The last read of each element by each thread of its block."""

    def __init__(self, size: int, machine: Machine) -> None:
        self.machine = machine
        self.time = np.zeros((size, machine.threads), np.int32)
        self.packed = np.zeros((size, machine.threads), np.int64)

    def note(self, elements: Elements, lanes: Lanes, packed: Packed) -> None:
        threads = self.machine.thread_of[lanes]
        self.time[elements, threads] = self.machine.clock.now(lanes)
        self.packed[elements, threads] = packed

    def conflict(self, elements: Elements, lanes: Lanes) -> tuple[int, int] | None:
        clock = self.machine.clock
        assert isinstance(clock, VectorClocks)
        threads = self.machine.threads
        bad = self.time[elements] > clock.rows(lanes)[:, :threads]
        bad[np.arange(len(lanes)), self.machine.thread_of[lanes]] = False
        if not bad.any():
            return None
        position, thread = divmod(first_of(bad.reshape(-1)), threads)
        return position, int(self.packed[elements[position], thread])


class GlobalReaders(Readers):
    """
    Reads of global memory: those of the own block, and two of each element by different blocks,
    which nothing ever orders.
    """

    def __init__(self, size: int, machine: Machine, own: Readers) -> None:
        self.machine = machine
        self.own = own
        self.first = np.zeros(size, np.int64)
        self.second = np.zeros(size, np.int64)

    def _block(self, packed: Packed) -> NDArray[np.int64]:
        return (packed & ACTOR_MASK) // self.machine.actors

    def note(self, elements: Elements, lanes: Lanes, packed: Packed) -> None:
        self.own.note(elements, lanes, packed)
        new = self.first[elements] == NOBODY
        self.first[elements[new]] = packed[new]
        other = self._block(self.first[elements]) != self._block(packed)
        self.second[elements[other]] = packed[other]

    def conflict(self, elements: Elements, lanes: Lanes) -> tuple[int, int] | None:
        mine = self.machine.block_ids[self.machine.block_of[lanes]]
        for readers in (self.first[elements], self.second[elements]):
            bad = (readers != NOBODY) & (self._block(readers) != mine)
            if bad.any():
                return first_of(bad), int(readers[first_of(bad)])
        return self.own.conflict(elements, lanes)


class Shadow:
    """
    The last write of each of `size` elements, the reads and the atomic operations since. Memory of
    blocks is accessed by one block only; global memory by all, which nothing orders.
    """

    def __init__(
        self,
        place: Callable[[int], str],
        size: int,
        machine: Machine,
        *,
        shared: bool,
        zeroed: bool = False,
    ) -> None:
        self.place = place
        """How an element is written."""
        self.machine = machine
        self.shared = shared
        self.writer = np.full(size, BEFORE, np.int64) if zeroed else np.zeros(size, np.int64)
        self.time = np.zeros(size, np.int32)
        self._readers: Readers | None = None
        self._atomics: Readers | None = None
        """Atomic operations, which any number of threads may do together, as readers may read."""

    def _new_readers(self) -> Readers:
        size = len(self.writer)
        kind = AllReaders if self.machine.ordered_by_clocks else FewReaders
        own = kind(size, self.machine)
        return own if self.shared else GlobalReaders(size, self.machine, own)

    def read(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Each lane reads its element."""
        self._after_writes(op, elements, lanes, reads=True)
        self._after(self._atomics, op, elements, lanes, "reads", "added to")
        self._readers = self._readers or self._new_readers()  # most outputs need none
        self._readers.note(elements, lanes, self.machine.packed(op, lanes))

    def write(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Each lane writes its element."""
        packed = self.check_write(op, elements, lanes)
        self.writer[elements] = packed
        clash = self.writer[elements] != packed
        if clash.any():
            at = first_of(clash)
            past = int(self.writer[elements[at]])
            self._race(op, elements[at], lanes[at], past, "writes", "written")
        self.time[elements] = self.machine.clock.now(lanes)

    def check_write(self, op: Operation, elements: Elements, lanes: Lanes) -> Packed:
        """Each lane is going to write its element: the accesses that this will be."""
        self._after_writes(op, elements, lanes, reads=False)
        self._after(self._readers, op, elements, lanes, "writes", "read")
        self._after(self._atomics, op, elements, lanes, "writes", "added to")
        return self.machine.packed(op, lanes)

    def land(self, event: int, elements: Elements, lanes: Lanes) -> None:
        """What these lanes requested at `event` is written now."""
        self.writer[elements] = (event << ACTOR_BITS) | self.machine.actor_of[lanes]
        self.time[elements] = self.machine.clock.now(lanes)

    def atomic_update(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Each lane changes its element, in any order with other atomic operations."""
        self._after_writes(op, elements, lanes, reads=True)
        self._after(self._readers, op, elements, lanes, "adds to", "read")
        self._atomics = self._atomics or self._new_readers()
        self._atomics.note(elements, lanes, self.machine.packed(op, lanes))

    def written(self) -> NDArray[np.bool_]:
        """Which elements have a value."""
        return self.writer != NOBODY

    def _after_writes(
        self, op: Operation, elements: Elements, lanes: Lanes, *, reads: bool
    ) -> None:
        writers, times = self.writer[elements], self.time[elements]
        actors = writers & ACTOR_MASK
        inside = actors % self.machine.actors
        late = self.machine.clock.unordered(lanes, inside, times)
        if not self.shared:
            blocks = actors // self.machine.actors
            late |= blocks != self.machine.block_ids[self.machine.block_of[lanes]]
        unwritten = writers == NOBODY
        late |= unwritten
        late &= writers != BEFORE
        if not late.any():
            return
        if reads and unwritten.any():
            at = first_of(unwritten)
            sentence = f"{self.place(int(elements[at]))} is read, which nothing has written"
            self.machine.report(
                self.machine.hazard("uninitialized", op, sentence, [int(lanes[at])])
            )
        late &= ~unwritten & (actors != self.machine.actor_of[lanes])
        if late.any():
            at = first_of(late)
            verb = "reads" if reads else "writes"
            self._race(op, elements[at], lanes[at], int(writers[at]), verb, "written")

    def _after(
        self,
        past: Readers | None,
        op: Operation,
        elements: Elements,
        lanes: Lanes,
        verb: str,
        other: str,
    ) -> None:
        found = past and past.conflict(elements, lanes)
        if found:
            at, access = found
            self._race(op, elements[at], lanes[at], access, verb, other)

    def _race(
        self, op: Operation, element: int, lane: int, past: int, verb: str, other: str
    ) -> None:
        here, there = self.machine.access(op, int(lane)), self.machine.past_access(past)
        who = f"thread {there.thread}"
        if (past & ACTOR_MASK) % self.machine.actors >= self.machine.threads:
            who = "the tensor memory accelerator"
        elif here.block != there.block:
            who += f" of block {there.block}"
        sentence = (
            f"thread {here.thread} of block {here.block} {verb} {self.place(int(element))}, "
            f"{other} by {who}, and nothing orders the two"
        )
        self.machine.report(Hazard("race", op, sentence, [here, there]))
