"""
Shadow memory: who accessed an element last, and whether that came before.

A race is two accesses of an element by different threads, one of them a write, neither of which
happened before the other (`dlc.simulator.clocks`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.clocks import Lanes
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import ACTOR_BITS, ACTOR_MASK, Machine, first_of

Elements = NDArray[np.int64]
Packed = NDArray[np.int64]
NOBODY = 0
"""No access: of new arrays of zeros, only what is accessed takes memory."""
BEFORE = -1
"""The writer of what holds a value when the kernel begins."""


class Readers:
    """
    The readers of each element: of each row of the clock the newest one and another at the same
    time, and of the whole grid the first one and one of another block, which nothing orders but
    that it ended before (`BlockOrder`).
    """

    def __init__(self, size: int, machine: Machine, shared: bool) -> None:
        self.machine = machine
        self.shared = shared
        self._size = size
        self._of_block = max(size // machine.blocks, 1)
        # All elements of a row of the clock, then of the next one: most rows read nothing.
        cells = machine.clock.rows * size
        self.time = np.zeros(cells, np.int32)
        self.newest = np.zeros(cells, np.int64)
        self.other = np.zeros(cells, np.int64)
        self._reads = np.zeros(machine.clock.rows, np.bool_)
        """True for the rows that have read."""
        self.first = np.zeros(size, np.int64)
        self.foreign = np.zeros(size, np.int64)

    def note(self, elements: Elements, lanes: Lanes, packed: Packed) -> None:
        """Each lane reads its element."""
        clock = self.machine.clock
        rows = clock.row_of[lanes]
        self._reads[rows] = True
        cells, now = rows * self._size + elements, clock.now(lanes)
        stale = self.time[cells] < now
        if stale.any():
            renewed = cells[stale]
            self.time[renewed] = now[stale]
            self.newest[renewed] = packed[stale]
            if self.other[renewed].any():
                self.other[renewed] = NOBODY
        other = ((self.newest[cells] ^ packed) & ACTOR_MASK) != 0
        if other.any():
            self.other[cells[other]] = packed[other]
        if self.shared:
            return
        new = self.first[elements] == NOBODY
        self.first[elements[new]] = packed[new]
        foreign = self.machine.block_in(self.first[elements]) != self.machine.block_in(packed)
        self.foreign[elements[foreign]] = packed[foreign]

    def newest_of(self, elements: Elements) -> Packed:
        """The newest of each row that has read, and another one at its time."""
        cells = (elements[:, None] + self._rows() * self._size).reshape(-1)
        return np.concatenate([self.newest[cells], self.other[cells]])

    def _rows(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._reads)

    def conflict(self, elements: Elements, lanes: Lanes) -> tuple[int, int] | None:
        """A position whose lane may not write its element yet, and a read that forbids it."""
        mine = self.machine.block_ids[self.machine.block_of[lanes]]
        for readers in () if self.shared else (self.first[elements], self.foreign[elements]):
            theirs = self.machine.block_in(readers)
            bad = (readers != NOBODY) & (theirs != mine)
            bad &= ~self.machine.order.ended_before(theirs, mine)
            if bad.any():
                return first_of(bad), int(readers[first_of(bad)])
        rows = self._rows()
        cells = elements[:, None] + rows * self._size
        owners = elements // self._of_block if self.shared else self.machine.block_of[lanes]
        recent = self.time[cells] > self.machine.clock.threads_of(owners, lanes, rows)
        if not recent.any():
            return None
        myself = self.machine.actor_of[lanes][:, None]
        for readers in (self.newest[cells], self.other[cells]):
            theirs = self.machine.block_in(readers)
            bad = recent & (readers != NOBODY) & ((readers & ACTOR_MASK) != myself)
            bad &= ~self.machine.order.ended_before(theirs, mine[:, None])
            if bad.any():
                at = divmod(first_of(bad.reshape(-1)), len(rows))
                return at[0], int(readers[at])
        return None


class Shadow:
    """
    The last write of each of `size` elements, the reads and the atomic operations since. Memory of
    blocks is accessed by one block only; global memory by all, which nothing orders but that a
    block ended before another one went on.
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
        """The text for an element, as errors name it."""
        self.machine = machine
        self.shared = shared
        self.writer = np.full(size, BEFORE, np.int64) if zeroed else np.zeros(size, np.int64)
        self.time = np.zeros(size, np.int32)
        self._reads: Readers | None = None
        self._atomics: Readers | None = None
        """Atomic operations, which any number of threads may do together, as readers may read."""

    def read(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Each lane reads its element."""
        self._after_writes(op, elements, lanes, reads=True)
        self._after(self._atomics, op, elements, lanes, "reads", "added to")
        # Most outputs need none.
        self._reads = self._reads or Readers(len(self.writer), self.machine, self.shared)
        self._reads.note(elements, lanes, self.machine.packed(op, lanes))

    def write(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Each lane writes its element."""
        packed = self.check_write(op, elements, lanes)
        self.writer[elements] = packed
        clash = self.writer[elements] != packed
        if clash.any():
            at = first_of(clash)
            past = int(self.writer[elements[at]])
            self.race(op, elements[at], lanes[at], past, "writes", "written")
        self.time[elements] = self.machine.clock.now(lanes)

    def check_write(self, op: Operation, elements: Elements, lanes: Lanes) -> Packed:
        """Each lane is going to write its element: the accesses that this will be."""
        self._after_writes(op, elements, lanes, reads=False)
        self._after(self._reads, op, elements, lanes, "writes", "read")
        self._after(self._atomics, op, elements, lanes, "writes", "added to")
        return self.machine.packed(op, lanes)

    def land(self, event: int, elements: Elements, lanes: Lanes) -> None:
        """Notes that the elements that these lanes requested at `event` are written now."""
        self.writer[elements] = (event << ACTOR_BITS) | self.machine.actor_of[lanes]
        self.time[elements] = self.machine.clock.now(lanes)

    def atomic_update(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Each lane changes its element, in any order with other atomic operations."""
        self._after_writes(op, elements, lanes, reads=True)
        self._after(self._reads, op, elements, lanes, "adds to", "read")
        self._atomics = self._atomics or Readers(len(self.writer), self.machine, self.shared)
        self._atomics.note(elements, lanes, self.machine.packed(op, lanes))

    def reads_of(self, elements: Elements) -> Packed:
        """The newest reads of elements by each row of the clock."""
        return np.zeros(0, np.int64) if self._reads is None else self._reads.newest_of(elements)

    def written(self) -> NDArray[np.bool_]:
        """True for the elements that have a value."""
        return self.writer != NOBODY

    def _after_writes(
        self, op: Operation, elements: Elements, lanes: Lanes, *, reads: bool
    ) -> None:
        writers, machine = self.writer[elements], self.machine
        theirs, actors = machine.block_in(writers), machine.actor_in(writers)
        late = machine.clock.unordered(lanes, theirs, actors, self.time[elements])
        if not self.shared:
            mine = machine.block_ids[machine.block_of[lanes]]
            late |= theirs != mine
            late &= ~machine.order.ended_before(theirs, mine)
        unwritten = writers == NOBODY
        late |= unwritten
        late &= writers != BEFORE
        if not late.any():
            return
        if reads and unwritten.any():
            at = first_of(unwritten)
            sentence = f"{self.place(int(elements[at]))} is read, which nothing has written"
            machine.report(machine.hazard("uninitialized", op, sentence, [lanes[at]]))
        late &= ~unwritten & ((writers & ACTOR_MASK) != machine.actor_of[lanes])
        if late.any():
            at = first_of(late)
            verb = "reads" if reads else "writes"
            self.race(op, elements[at], lanes[at], int(writers[at]), verb, "written")

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
            self.race(op, elements[at], lanes[at], access, verb, other)

    def race(
        self, op: Operation, element: int, lane: int, past: int, verb: str, other: str
    ) -> None:
        """Reports that a lane accesses an element, and that another access may come after it."""
        here, there = self.machine.access(op, int(lane)), self.machine.past_access(past)
        who = f"thread {there.thread}"
        if self.machine.actor_in(past) >= self.machine.threads:
            who = "the tensor memory accelerator"
        elif here.block != there.block:
            who += f" of block {there.block}"
        sentence = (
            f"thread {here.thread} of block {here.block} {verb} {self.place(int(element))}, "
            f"{other} by {who}, and nothing orders the two"
        )
        self.machine.report(Hazard("race", op, sentence, [here, there]))
