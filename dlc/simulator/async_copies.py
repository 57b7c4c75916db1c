"""cp.async: copies that a thread requests, and that are done when it has waited for their group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.address_space import Memory
from dlc.simulator.clocks import Lanes
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine, first_of
from dlc.simulator.shadow import Elements

Count = NDArray[np.int64]


@dataclass
class _Request:
    """What one execution of a kernel.cp_async asked for; one entry per lane and element."""

    op: Operation
    event: int
    target: Memory
    elements: Elements
    lanes: Lanes
    groups: Count
    values: NDArray[Any]
    reads: NDArray[np.bool_]
    """Where the source is read; elsewhere zeros are written."""

    def part(self, chosen: NDArray[np.bool_]) -> _Request:
        return replace(
            self,
            elements=self.elements[chosen],
            lanes=self.lanes[chosen],
            groups=self.groups[chosen],
            values=self.values[chosen],
            reads=self.reads[chosen],
        )


class AsyncCopies:
    """
    The copies in flight. The values are those at the request and land at the wait, as writes of
    the thread that waits; an access in between of an element that is being copied is a hazard.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.committed: Count = np.zeros(machine.lanes, np.int64)
        self.requests: list[_Request] = []
        self.flying: dict[Memory, NDArray[np.bool_]] = {}

    def request(
        self,
        op: Operation,
        target: Memory,
        elements: Elements,
        lanes: Lanes,
        values: NDArray[Any],
        reads: NDArray[np.bool_],
    ) -> None:
        """Each lane asks for a value of its element, 0 unless it `reads` the source."""
        assert target.shadow is not None
        target.shadow.write(op, elements, lanes)
        target.guard = partial(self._check, target)
        event = self.machine.event(op)
        groups = self.committed[lanes]
        request = _Request(op, event, target, elements, lanes, groups, values, reads)
        self.requests.append(request)
        mask = self.flying.setdefault(target, np.zeros(len(target.data), np.bool_))
        mask[elements] = True

    def commit(self) -> None:
        self.committed[self.machine.active] += 1

    def wait(self, pending: int) -> None:
        """All groups of the active threads land but for the newest `pending`."""
        active = np.zeros(self.machine.lanes, np.bool_)
        active[self.machine.active] = True
        flying: list[_Request] = []
        for request in self.requests:
            done = request.groups < (self.committed - pending)[request.lanes]
            done &= active[request.lanes]
            if done.any():
                self._land(request.part(done))
            if not done.all():
                flying.append(request.part(~done))
        self.requests = flying

    def _land(self, request: _Request) -> None:
        assert request.target.shadow is not None
        self.flying[request.target][request.elements] = False
        request.target.data[request.elements] = request.values
        request.target.shadow.land(request.event, request.elements, request.lanes)

    def _check(self, memory: Memory, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """A hazard if one of these elements, which lanes access, is being copied."""
        mask = self.flying.get(memory)
        if mask is None or not (hit := mask[elements]).any():
            return
        at = first_of(hit)
        element = elements[at]
        request, n = next(
            (r, first_of(r.elements == element)) for r in self.requests if element in r.elements
        )
        past = self.machine.access_at(request.event, int(request.lanes[n]))
        here = self.machine.access(op, int(lanes[at]))
        closed = request.groups[n] < self.committed[request.lanes[n]]
        why = "has not waited for its group" if closed else "has not committed its group"
        sentence = (
            f"{memory.place(int(element))} is accessed while a copy to it is in flight: "
            f"thread {past.thread} requested it and {why}"
        )
        self.machine.report(Hazard("copy in flight", op, sentence, [here, past]))

    def finish(self) -> None:
        """A hazard if a copy is in flight when the kernel ends; zeros may be."""
        for request in self.requests:
            if request.reads.any():
                lane = int(request.lanes[first_of(request.reads)])
                past = self.machine.access_at(request.event, lane)
                sentence = f"nothing waits for a copy to {request.target.name}"
                hazard = Hazard("copy never awaited", request.op, sentence, [past])
                self.machine.report(hazard)
