"""
Shared memory that other blocks read: whether that is before it is written, or after it is gone.

Only barriers of the cluster order what its blocks do. Each thread counts those that it has met: two
accesses by different blocks of a cluster are ordered if their counts differ, of those that are not
relaxed; a read comes before the end of a block if any is between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from dlc.dialects.access import StoreOpBase
from dlc.simulator.address_space import Buffer, Memory
from dlc.simulator.clocks import Lanes
from dlc.simulator.expressions import Index
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine, Mask, first_of
from dlc.simulator.scalars import Value
from dlc.simulator.shadow import NOBODY, Elements, Packed
from dlc.target import TMA_ALIGNMENT


class ClusterMemory(Buffer):
    """A shared buffer of each block of a cluster, as one that has a dimension more."""

    def __init__(self, ref: SSAValue, op: Operation, own: Memory, machine: Machine) -> None:
        super().__init__(ref, op, TMA_ALIGNMENT, machine)
        self.own = own
        self.allocate()

    def allocate(self) -> None:
        """Nothing is written or read yet; the buffers themselves are allocated before."""
        count = len(self.own.data)
        self.written, self.written_at = np.zeros(count, np.int64), np.zeros(count, np.int32)
        self.read, self.read_at = np.zeros(count, np.int64), np.zeros(count, np.int32)
        self.read_after = np.zeros(count, np.int32)
        self.own.guard = self._access_own

    def _access_own(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Threads access the buffer of their own block."""
        if not isinstance(op, StoreOpBase):
            return
        now = self.machine.met[lanes]
        late = (self.read[elements] != NOBODY) & (self.read_at[elements] >= now)
        self._check(op, elements, lanes, self.read, late, "writes", "read")
        self.written[elements], self.written_at[elements] = self.machine.packed(op, lanes), now

    def load(self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int) -> Value:
        """Each lane's element: a vector along the last dimension if `width` is more than 1."""
        machine, size = self.machine, self.own.size
        first = self.offset(op, subscripts, lanes, width)
        cluster = machine.block_of[lanes] // machine.cluster * machine.cluster
        elements = (first + cluster * size).reshape(-1, 1) + np.arange(width)
        elements, readers = elements.reshape(-1), lanes.repeat(width)
        self._note(op, elements, readers)
        values = self.own.data[elements]
        return values if width == 1 else values.reshape(-1, width)

    def _note(self, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """Checks that what is read has been written, and notes who reads it."""
        shadow = self.own.shadow
        assert shadow is not None
        foreign = elements // max(self.own.size, 1) != self.machine.block_of[lanes]
        shadow.read(op, elements[~foreign], lanes[~foreign])
        elements, lanes = elements[foreign], lanes[foreign]
        now = self.machine.met[lanes]
        if (unwritten := self.written[elements] == NOBODY).any():
            at = first_of(unwritten)
            sentence = f"{self._place(int(elements[at]))} is read, which nothing has written"
            hazard = self.machine.hazard("uninitialized", op, sentence, [lanes[at]])
            self.machine.report(hazard)
        late = ~unwritten & (self.written_at[elements] >= now)
        self._check(op, elements, lanes, self.written, late, "reads", "written")
        self.read[elements], self.read_at[elements] = self.machine.packed(op, lanes), now
        self.read_after[elements] = self.machine.come[lanes]

    def _check(
        self,
        op: Operation,
        elements: Elements,
        lanes: Lanes,
        past: Packed,
        late: Mask,
        verb: str,
        other: str,
    ) -> None:
        """Reports a race where an access is too late to come before what is done now."""
        shadow = self.own.shadow
        assert shadow is not None
        if late.any():
            at = first_of(late)
            element = int(elements[at])
            shadow.race(op, element, int(lanes[at]), int(past[element]), verb, other)

    def _place(self, element: int) -> str:
        block, inside = divmod(element, max(self.own.size, 1))
        return f"{self.own.place(inside)} of block {int(self.machine.block_ids[block])}"

    def finish(self) -> None:
        """A hazard if a block may have ended while others read what it holds."""
        machine = self.machine
        last = machine.come.reshape(machine.blocks, machine.threads).max(axis=1)
        owner = np.arange(len(self.read)) // max(self.own.size, 1)
        late = (self.read != NOBODY) & (self.read_after >= last[owner])
        if late.any():
            element = first_of(late)
            past = machine.past_access(int(self.read[element]))
            sentence = (
                f"thread {past.thread} of block {past.block} reads {self._place(element)}, which "
                "may have ended: it meets the others at no barrier of the cluster after that"
            )
            machine.report(Hazard("race", past.op, sentence, [past]))
