"""wgmma: products that a warpgroup requests; they are done when it has waited for their group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.address_space import LocalMemory, Memory
from dlc.simulator.clocks import Lanes
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine, Mask, first_of
from dlc.simulator.mbarriers import Mbarriers
from dlc.simulator.shadow import Elements


@dataclass(frozen=True)
class Operand:
    """The elements of a factor, and what was in them at the request: (row, point of K)."""

    memory: Memory
    elements: Elements
    values: NDArray[Any]


Places = Mapping[LocalMemory, NDArray[np.int64]]
"""The registers of a product, sums and then factors: in each memory, of each lane."""


@dataclass
class _Request:
    """A product of one warpgroup, or what some of its threads have of it; an entry a lane."""

    op: Operation
    event: int
    lanes: Lanes
    groups: NDArray[np.int64]
    operands: Sequence[Operand]
    writers: list[NDArray[np.int64]]
    """Who had written the elements of each operand."""
    places: Places
    flying: Mask


class _Registers:
    """What is known of sums, or of a factor, in one local memory: (element, lane)."""

    def __init__(self, memory: LocalMemory) -> None:
        self.touched = np.ones(memory.data.shape, np.bool_)
        """True for what was accessed and not fenced since."""
        self.flying = np.zeros(memory.data.shape, np.bool_)


class AsyncProducts:
    """
    The products in flight. They are computed at the request; what must not happen until the wait
    is a hazard: an access of their sums, and a write to what they read, even by a thread that has
    waited for them only afterwards.
    """

    def __init__(self, machine: Machine, mbarriers: Mbarriers, *, lockstep: bool) -> None:
        self.machine, self.mbarriers = machine, mbarriers
        self.lockstep = lockstep
        """True if what a thread did is known to all that read, in whatever way."""
        self.committed: NDArray[np.int64] = np.zeros(machine.lanes, np.int64)
        self.requests: list[_Request] = []
        self.known: dict[LocalMemory, _Registers] = {}

    def watch(self, memory: LocalMemory) -> None:
        """From now on, other accesses of a local memory are looked at."""
        self.known[memory] = _Registers(memory)
        memory.guard = partial(self._access, memory)

    def request(
        self,
        op: Operation,
        lanes: Lanes,
        operands: Sequence[Operand],
        places: Places,
        values: NDArray[Any],
    ) -> None:
        """Lanes of one warpgroup ask for values at places of their sums, which are the first."""
        for memory, of_lanes in places.items():
            at = (of_lanes, lanes[:, None])
            known = self.known[memory]
            if (bad := known.touched[at]).any():
                self._report("race", op, memory, lanes[bad.any(axis=1)][0], "was accessed, and no "
                             "kernel.wgmma_fence stands between that and this")  # fmt: skip
            if (bad := ~memory.initialized[at]).any():
                self._report("uninitialized", op, memory, lanes[bad.any(axis=1)][0], "has no value")
            known.flying[at] = True
        sums, *_ = places
        sums.data[places[sums], lanes[:, None]] = values
        for operand in operands:
            self._read(op, operand, lanes)
        writers = [self._writers(operand).copy() for operand in operands]
        self.requests.append(
            _Request(
                op, self.machine.event(op), lanes, self.committed[lanes], operands, writers,
                places, np.ones(len(lanes), np.bool_),
            )
        )  # fmt: skip

    def fence(self, sums: Sequence[LocalMemory]) -> None:
        for memory in sums:
            if memory in self.known:
                self.known[memory].touched[:, self.machine.active] = False

    def commit(self) -> None:
        self.committed[self.machine.active] += 1

    def wait(self, op: Operation, pending: int, sums: Sequence[LocalMemory]) -> None:
        """All groups of the active threads are done but the newest `pending`."""
        active = np.zeros(self.machine.lanes, np.bool_)
        active[self.machine.active] = True
        for request in self.requests:
            done = request.groups < (self.committed - pending)[request.lanes]
            done &= active[request.lanes] & request.flying
            if not done.any():
                continue
            request.flying[done] = False
            self._check_unchanged(op, request)
            for operand in request.operands:
                self._read(request.op, operand, request.lanes[done], again=True)
        self.requests = [request for request in self.requests if request.flying.any()]
        for memory in sums:
            if memory in self.known:
                self._land(memory)

    def _land(self, memory: LocalMemory) -> None:
        """What no product of the active threads adds to any more can be accessed."""
        flying = self.known[memory].flying
        flying[:, self.machine.active] = False
        for request in self.requests:
            if memory in request.places:
                here = request.flying
                flying[request.places[memory][here], request.lanes[here][:, None]] = True

    def _writers(self, operand: Operand) -> NDArray[np.int64]:
        assert operand.memory.shadow is not None
        return operand.memory.shadow.writer[operand.elements]

    def _read(self, op: Operation, operand: Operand, lanes: Lanes, *, again: bool = False) -> None:
        """A lane of each warp reads a factor, in the asynchronous proxy."""
        memory, count = operand.memory, len(operand.elements)
        assert memory.shadow is not None
        together = self.machine.together
        _, first = np.unique(self.machine.warp_of[lanes], return_index=True)
        for lane in lanes[first[:1] if together else first].tolist():
            if not again and memory.guard is not None:
                memory.guard(op, operand.elements, np.full(count, lane))
            memory.shadow.read(op, operand.elements, np.full(count, lane))
            if not again and not self.lockstep:
                self.mbarriers.check_proxy(op, lane, memory, operand.elements)

    def _check_unchanged(self, op: Operation, request: _Request) -> None:
        for operand, writers in zip(request.operands, request.writers, strict=True):
            changed = self._writers(operand) != writers
            if changed.any():
                at = first_of(changed)
                writer = self.machine.past_access(int(self._writers(operand)[at]))
                past = self.machine.access_at(request.event, int(request.lanes[0]))
                sentence = (
                    f"{operand.memory.place(int(operand.elements[at]))} is written while a product "
                    "that reads it is in flight"
                )
                hazard = Hazard("product in flight", writer.op, sentence, [writer, past])
                self.machine.report(hazard)

    def _access(self, memory: LocalMemory, op: Operation, index: Any) -> None:
        """An ordinary access of sums, or of a factor."""
        known = self.known[memory]
        known.touched[index] = True
        if not known.flying[index].any():
            return
        here = np.zeros_like(known.flying)
        here[index] = True
        lane = int(np.argmax((here & known.flying).any(axis=0)))
        past = [
            self.machine.access_at(request.event, lane)
            for request in self.requests
            if memory in request.places and lane in request.lanes
        ]
        does = "reads it" if memory.bytes < 4 else "adds to it"
        sentence = (
            f"{memory.name} is accessed while a product that {does} is in flight: no "
            "kernel.wgmma_wait for it stands between"
        )
        hazard = self.machine.hazard("product in flight", op, sentence, [lane], *past[-1:])
        self.machine.report(hazard)

    def _report(self, kind: Any, op: Operation, memory: LocalMemory, lane: Any, what: str) -> None:
        self.machine.report(self.machine.hazard(kind, op, f"{memory.name} {what}", [int(lane)]))

    def finish(self) -> None:
        """A hazard if a product is in flight when the kernel ends."""
        for request in self.requests:
            lane = int(request.lanes[first_of(request.flying)])
            past = self.machine.access_at(request.event, lane)
            self.machine.report(
                Hazard("product never awaited", request.op, "nothing waits for a product", [past])
            )
