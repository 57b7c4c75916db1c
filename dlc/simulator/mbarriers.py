"""
mbarriers, and the tensor memory accelerator, whose copies are done when a phase of one ends.

A phase's number is what a thread's clock knows of the mbarrier: knowing n, it has seen the first n
phases end, and with the n-th all that arrived or was copied in it. A wait teaches the earliest
phase that it can have passed, whatever happened in the order in which threads run here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.dialects.kernel_wgmma import WgmmaOpBase
from dlc.simulator.address_space import Memory
from dlc.simulator.clocks import Lanes, Times
from dlc.simulator.divergence import Wait
from dlc.simulator.expressions import Index
from dlc.simulator.hazards import Access, Hazard
from dlc.simulator.machine import ACTOR_BITS, Machine, first_of


@dataclass
class Mbarrier:
    """One mbarrier of one block, initialized."""

    count: int
    """Arrivals that a phase needs."""
    initializer: int
    """The packed access and, below, its time."""
    initialized: int
    missing: int
    """Arrivals that the current phase still needs."""
    gathered: Times
    """The clock of all that have arrived in the current phase, joined."""
    waited: Times
    """The time at which each thread has last waited; 0 for never."""
    waits: NDArray[np.int64]
    """The events of these waits."""
    bytes: int = 0
    """Bytes that the current phase still expects."""
    copied: tuple[int, int] | None = None
    """The newest request, packed, and the number of the phase that ends with it."""
    reached: tuple[int, int] | None = None
    """The newest arrival from another block, packed, and the barriers of the cluster before it."""
    ended: list[Times] = field(default_factory=list)
    """The joined clock of every phase that has ended."""

    def has_ended(self, phases: int) -> bool:
        """True if so many phases have ended."""
        return len(self.ended) >= phases


class _Fences:
    """The executions of fences of one kind by threads."""

    def __init__(self, blocks: int, threads: int) -> None:
        none = np.zeros((blocks, threads), np.int64)
        self._newest: list[tuple[Times, NDArray[np.int64]]] = [(none.astype(np.int32), none)]
        """After each execution the time of each thread's last one and its event, 0 for none."""

    def note(self, blocks: Lanes, threads: Lanes, now: int | Times, event: int) -> None:
        times, events = self._newest[-1]
        times, events = times.copy(), events.copy()
        times[blocks, threads] = now
        events[blocks, threads] = event
        self._newest.append((times, events))

    def newest(self, block: int, threads: NDArray[np.int64], known: Times) -> NDArray[np.int64]:
        """The event of the last fence of each of these threads up to a time, 0 for none."""
        found = np.zeros(len(threads), np.int64)
        for times, events in self._newest:
            found = np.where(times[block, threads] <= known, events[block, threads], found)
        return found


class Mbarriers:
    """The mbarriers of the blocks that run; `number` counts through all of a block's."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.clock = machine.clock
        self.all: dict[tuple[int, int], Mbarrier] = {}
        shape = machine.blocks, machine.threads
        self.init_fences = _Fences(*shape)
        """The fences of initializations."""
        self.proxy_fences = _Fences(*shape)
        """The fences of ordinary accesses."""

    def initialize(self, op: Operation, number: Index, count: int) -> None:
        lanes = self.machine.active
        event = self.machine.packed(op, lanes)
        for lane, block, n in self._each(number, lanes):
            if (old := self.all.get((block, n))) is not None:
                sentence = "an mbarrier is initialized a second time"
                first = self.machine.past_access(old.initializer)
                raise self.machine.hazard("mbarrier", op, sentence, [lane], first)
            access = int(event[int(np.argmax(lanes == lane))])
            time = int(self.clock.now(np.array([lane]))[0])
            row = np.zeros(self.clock.columns, np.int32)
            waited = np.zeros(self.machine.threads, np.int32)
            waits = np.zeros(self.machine.threads, np.int64)
            self.all[block, n] = Mbarrier(count, access, time, count, row, waited, waits)

    def fence(self, op: Operation, fences: _Fences) -> None:
        """The active threads execute a fence of the kind of these."""
        lanes = self.machine.active
        block, thread = self.machine.block_of[lanes], self.machine.thread_of[lanes]
        fences.note(block, thread, self.clock.now(lanes), self.machine.event(op))

    def arrive(
        self, op: Operation, number: Index, bytes: int, of_cluster: Index | None = None
    ) -> None:
        """
        Each active thread arrives and expects so many bytes, in its block or in the one of that
        number in its cluster.
        """
        lanes = self.machine.active
        rows = self.clock.publish(lanes)
        for row, (lane, block, n) in zip(rows, self._each(number, lanes, of_cluster), strict=True):
            barrier = self._initialized(op, np.array([lane]), block, n)
            if barrier.missing == 0:
                sentence = (
                    f"a phase that waits for {barrier.bytes} bytes gets more than its "
                    f"{barrier.count} arrivals"
                )
                raise self.machine.hazard("mbarrier", op, sentence, [lane])
            barrier.missing -= 1
            barrier.bytes += bytes
            self._check_phase(op, lane, self._column(block, n), row, barrier)
            np.maximum(barrier.gathered, row, out=barrier.gathered)
            if of_cluster is not None and block != self.machine.block_of[lane]:
                packed = self.machine.packed(op, np.array([lane]))
                barrier.reached = int(packed[0]), int(self.machine.met[lane])
            self._end_phase(op, lane, barrier, block, n)

    def _column(self, block: int, n: int) -> int:
        """That of an mbarrier in what threads know."""
        return self.clock.first(block) + self.machine.threads + n

    def _check_phase(
        self, op: Operation, lane: int, column: int, row: Times, barrier: Mbarrier
    ) -> None:
        """An arrival counts in one phase only, whichever thread is fast."""
        if row[column] >= (phases := len(barrier.ended)):
            return
        copied = barrier.copied is not None and barrier.copied[1] == phases
        arrivals = self.clock.threads
        if copied or (row[arrivals] < barrier.ended[-1][arrivals]).any():
            sentence = (
                f"thread {self.machine.thread_of[lane]} does not know that phase "
                f"{len(barrier.ended) - 1} of the mbarrier has ended: this arrival may count in it"
            )
            self.machine.report(self.machine.hazard("mbarrier", op, sentence, [lane]))

    def _end_phase(self, op: Operation, lane: int, barrier: Mbarrier, block: int, n: int) -> None:
        """Ends the phase if what a lane does completes it."""
        if barrier.missing or barrier.bytes:
            return
        first = self.clock.first(block)
        late = barrier.gathered[first : first + self.machine.threads] < barrier.waited
        if late.any():
            thread = first_of(late)
            sentence = (
                f"phase {len(barrier.ended)} of the mbarrier may end before thread {thread} has "
                "seen the end of the one before it, which it then waits for in vain"
            )
            there = block * self.machine.threads + thread
            wait = self.machine.access_at(int(barrier.waits[thread]), int(there))
            self.machine.report(self.machine.hazard("mbarrier", op, sentence, [lane], wait))
        barrier.gathered[self._column(block, n)] = len(barrier.ended) + 1
        barrier.ended.append(barrier.gathered)
        barrier.gathered = np.zeros_like(barrier.gathered)
        barrier.missing = barrier.count

    def wait(self, op: Operation, number: Index, parity: Index) -> Iterator[Wait]:
        """Each active thread waits for the end of the phase of that parity."""
        lanes = self.machine.active
        numbers = np.broadcast_to(number, self.machine.lanes)[lanes]
        parities = np.broadcast_to(parity, self.machine.lanes)[lanes]
        blocks = self.machine.block_of[lanes]
        columns = self.clock.first(blocks) + self.machine.threads + numbers
        known = self.clock.known[blocks, self.machine.thread_of[lanes], columns]
        needed = np.where((known - 1) % 2 == parities, known, known + 1)
        cases = np.stack([blocks, numbers, needed], axis=1)
        for block, n, phases in np.unique(cases, axis=0).tolist():
            same = lanes[(cases == (block, n, phases)).all(axis=1)]
            barrier = self._initialized(op, same, block, n)
            self._check_overtaken(op, int(same[0]), phases, barrier)
            if not barrier.has_ended(phases):
                access = self.machine.access(op, int(same[0]))
                hazard = partial(self._deadlock, op, access, barrier)
                yield Wait(same, partial(barrier.has_ended, phases), hazard)
            if phases:
                self.clock.learn(same, barrier.ended[phases - 1])
            threads = self.machine.thread_of[same]
            barrier.waited[threads] = self.clock.now(same)
            barrier.waits[threads] = self.machine.event(op)

    def _check_overtaken(self, op: Operation, lane: int, phases: int, barrier: Mbarrier) -> None:
        if phases < len(barrier.ended):
            sentence = (
                f"thread {self.machine.thread_of[lane]} waits for a parity of the mbarrier that "
                f"phase {len(barrier.ended) - 1} does not have, which may have ended before"
            )
            self.machine.report(self.machine.hazard("mbarrier", op, sentence, [lane]))

    def _deadlock(self, op: Operation, access: Access, barrier: Mbarrier) -> Hazard:
        faults = [f"{barrier.missing} of {barrier.count} arrivals are missing"]
        faults = faults if barrier.missing else []
        if barrier.bytes > 0:
            faults.append(f"{barrier.bytes} bytes are missing")
        elif barrier.bytes < 0:
            faults.append(f"{-barrier.bytes} bytes were copied that nothing expected")
        sentence = (
            f"phase {len(barrier.ended)} of the mbarrier does not end: when all threads have ended "
            f"or wait, {' and '.join(faults)}"
        )
        return Hazard("deadlock", op, sentence, [access])

    def load(
        self,
        op: Operation,
        lane: int,
        place: tuple[int, int],
        target: Memory,
        elements: NDArray[np.int64],
        values: NDArray[np.generic],
    ) -> None:
        """
        A lane requests a box: values for elements of the target, which count on an mbarrier of a
        block, and are all that block's.
        """
        assert target.shadow is not None
        block, n = place
        barrier = self._initialized(op, np.array([lane]), block, n)
        self._check_fenced(op, lane, block, barrier)
        lanes = np.full(len(elements), lane)
        if target.guard is not None:
            target.guard(op, elements, lanes)
        packed = target.shadow.check_write(op, elements, lanes)
        self.check_proxy(op, lane, target, elements, block)
        self._check_read(op, lane, target, elements, block)
        self.machine.requests[int(packed[0]) >> ACTOR_BITS] = lane
        actor = self.machine.actor(int(self.machine.block_ids[block]), self.machine.threads + n)
        target.shadow.writer[elements] = (packed >> ACTOR_BITS << ACTOR_BITS) | actor
        target.shadow.time[elements] = len(barrier.ended) + 1
        target.data[elements] = values
        barrier.bytes -= len(elements) * target.bytes
        barrier.copied = int(packed[0]), len(barrier.ended) + 1
        if block != self.machine.block_of[lane]:  # its bytes come after what it has waited for
            known = np.where(self.clock.threads, 0, self.clock.rows_of(np.array([lane]))[0])
            np.maximum(barrier.gathered, known, out=barrier.gathered)
        self._end_phase(op, lane, barrier, block, n)

    def finish(self) -> None:
        """
        Hazard if no thread of its block has waited for a copy when the kernel ends, or a block may
        have ended before another one arrived at its mbarrier.
        """
        last = self.machine.met.reshape(self.machine.blocks, self.machine.threads).max(axis=1)
        for (block, n), barrier in self.all.items():
            if barrier.reached is not None and barrier.reached[1] >= last[block]:
                past = self.machine.past_access(barrier.reached[0])
                sentence = (
                    f"thread {past.thread} of block {past.block} arrives at an mbarrier of block "
                    f"{int(self.machine.block_ids[block])}, which may have ended: it meets the "
                    "others at no barrier of the cluster after that"
                )
                self.machine.report(Hazard("race", past.op, sentence, [past]))
            if barrier.copied is None:
                continue
            packed, phase = barrier.copied
            if self.clock.known[block, :, self._column(block, n)].max() < phase:
                past = self.machine.past_access(packed)
                sentence = "no thread waits for the mbarrier on which this copy counts"
                self.machine.report(Hazard("copy never awaited", past.op, sentence, [past]))

    def _check_fenced(self, op: Operation, lane: int, block: int, barrier: Mbarrier) -> None:
        """The accelerator has to see the mbarrier initialized."""
        first = self.machine.past_access(barrier.initializer)
        known = self._known(lane, block, np.array([first.thread]))
        fence = self.init_fences.newest(block, np.array([first.thread]), known)
        if fence[0] < barrier.initializer >> ACTOR_BITS:
            sentence = "no kernel.fence_mbarrier_init stands between this and the initialization"
            self.machine.report(self.machine.hazard("mbarrier", op, sentence, [lane], first))

    def _known(self, lane: int, block: int, others: NDArray[np.int64]) -> Times:
        """
        What a lane knows of threads of a block, its own present included: nothing has to publish
        that.
        """
        row_of, mine = self.clock.row_of, int(self.machine.block_of[lane])
        thread = self.machine.thread_of[lane]
        known = self.clock.known[mine, row_of[thread], self.clock.first(block) + row_of[others]]
        return np.where((others == thread) & (block == mine), known + 1, known)

    def check_proxy(
        self,
        op: Operation,
        lane: int,
        target: Memory,
        elements: NDArray[np.int64],
        block: int | None = None,
    ) -> None:
        """
        Ordinary stores come before what a lane asks the asynchronous proxy for by a fence; the
        elements are those of its block, or of another one.
        """
        block = int(self.machine.block_of[lane]) if block is None else block
        assert target.shadow is not None
        writers = target.shadow.writer[elements]
        threads = self.machine.actor_in(writers)
        ordinary = (writers > 0) & (threads < self.machine.threads)
        if not ordinary.any():
            return
        threads = np.minimum(threads, self.machine.threads - 1)
        fences = self.proxy_fences.newest(block, threads, self._known(lane, block, threads))
        bad = ordinary & (writers >> ACTOR_BITS > fences)
        if bad.any():
            past = self.machine.past_access(int(writers[first_of(bad)]))
            sentence = (
                f"no kernel.fence_proxy_async stands between a store to {target.name} and this"
            )
            self.machine.report(self.machine.hazard("race", op, sentence, [lane], past))

    def _check_read(
        self, op: Operation, lane: int, target: Memory, elements: NDArray[np.int64], block: int
    ) -> None:
        """Ordinary loads come before a box that is written in their place by a fence, too."""
        assert target.shadow is not None
        reads = target.shadow.reads_of(elements)
        reads = reads[reads > 0]
        events = np.unique(reads >> ACTOR_BITS)
        ordinary = [e for e in events.tolist() if not self._is_asynchronous(e)]
        reads = reads[np.isin(reads >> ACTOR_BITS, ordinary)]
        if not len(reads):
            return
        readers = self.machine.actor_in(reads)
        fences = self.proxy_fences.newest(block, readers, self._known(lane, block, readers))
        bad = reads >> ACTOR_BITS > fences
        if bad.any():
            past = self.machine.past_access(int(reads[first_of(bad)]))
            sentence = (
                f"no kernel.fence_proxy_async stands between a load from {target.name} and this, "
                "which writes there"
            )
            self.machine.report(self.machine.hazard("race", op, sentence, [lane], past))

    def _is_asynchronous(self, event: int) -> bool:
        """True for what reads in the asynchronous proxy."""
        op, _ = self.machine.events[event - 1]
        return isinstance(op, WgmmaOpBase | kernel.TmaStoreOp)

    def _initialized(self, op: Operation, lanes: Lanes, block: int, n: int) -> Mbarrier:
        """The mbarrier of a block that these lanes of it use."""
        barrier = self.all.get((block, n))
        if barrier is None:
            sentence = "the mbarrier is not initialized"
            raise self.machine.hazard("uninitialized", op, sentence, [int(lanes[0])])
        first = self.machine.past_access(barrier.initializer)
        threads = self.machine.thread_of[lanes]
        mine = self.machine.block_of[lanes]
        column = self.clock.first(block) + first.thread
        unordered = self.clock.known[mine, threads, column] < barrier.initialized
        unordered &= (threads != first.thread) | (mine != block)
        if unordered.any():
            lane = int(lanes[first_of(unordered)])
            sentence = (
                f"thread {self.machine.thread_of[lane]} uses an mbarrier that thread "
                f"{first.thread} initialized, and nothing orders the two"
            )
            self.machine.report(self.machine.hazard("race", op, sentence, [lane], first))
        return barrier

    def _each(
        self, number: Index, lanes: Lanes, of_cluster: Index | None = None
    ) -> list[tuple[int, int, int]]:
        """
        Lane, block and number of the mbarrier, for each of these lanes; the block is its own, or
        one of its cluster.
        """
        numbers = np.broadcast_to(number, self.machine.lanes)[lanes]
        blocks = self.machine.block_of[lanes]
        if of_cluster is not None:
            others = np.broadcast_to(of_cluster, self.machine.lanes)[lanes]
            blocks = blocks - blocks % self.machine.cluster + others
        return list(zip(lanes.tolist(), blocks.tolist(), numbers.tolist(), strict=True))
