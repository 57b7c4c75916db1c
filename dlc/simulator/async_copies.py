"""cp.async: copies that a thread requests, and that are done when it has waited for their group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.address_space import Memory
from dlc.simulator.clocks import Lanes
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine, Mask, first_of
from dlc.simulator.shadow import Elements

Count = NDArray[np.int64]


@dataclass
class _Request:
    """The copies of one execution of a kernel.cp_async; one entry per lane and element."""

    op: Operation
    event: int
    target: Memory
    elements: Elements
    lanes: Lanes
    groups: Count
    values: NDArray[Any]
    reads: Mask
    """True where the source is read; elsewhere zeros are written."""
    flying: Mask
    """True where the copy has not landed."""


class AsyncCopies:
    """
    The copies in flight. The values are those at the request and land at the wait, as writes of
    the thread that waits; an access in between of an element that is being copied is a hazard.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.committed: Count = np.zeros(machine.lanes, np.int64)
        self.requests: list[_Request] = []
        self.flying: dict[Memory, Mask] = {}

    def request(
        self,
        op: Operation,
        target: Memory,
        elements: Elements,
        lanes: Lanes,
        values: NDArray[Any],
        reads: Mask,
    ) -> None:
        """Each lane asks for a value of its element, 0 unless it `reads` the source."""
        assert target.shadow is not None
        target.shadow.write(op, elements, lanes)
        target.guard = partial(self._check, target)
        event = self.machine.event(op)
        groups, flying = self.committed[lanes], np.ones(len(lanes), np.bool_)
        request = _Request(op, event, target, elements, lanes, groups, values, reads, flying)
        self.requests.append(request)
        mask = self.flying.setdefault(target, np.zeros(len(target.data), np.bool_))
        mask[elements] = True

    def commit(self) -> None:
        self.committed[self.machine.active] += 1

    def wait(self, pending: int) -> None:
        """All groups of the active threads land but for the newest `pending`."""
        active = np.zeros(self.machine.lanes, np.bool_)
        active[self.machine.active] = True
        for request in self.requests:
            done = request.groups < (self.committed - pending)[request.lanes]
            done &= active[request.lanes] & request.flying
            if done.any():
                self._land(request, done)
        self.requests = [request for request in self.requests if request.flying.any()]

    def _land(self, request: _Request, done: Mask) -> None:
        assert request.target.shadow is not None
        elements = request.elements[done]
        self.flying[request.target][elements] = request.flying[done] = False
        request.target.data[elements] = request.values[done]
        event = self.machine.again(request.event)
        request.target.shadow.land(event, elements, request.lanes[done])

    def _check(self, memory: Memory, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """A hazard if one of these elements, which lanes access, is being copied."""
        mask = self.flying.get(memory)
        if mask is None or not (hit := mask[elements]).any():
            return
        at = first_of(hit)
        element = elements[at]
        here = (r for r in self.requests if r.target is memory)
        found = ((r, (r.elements == element) & r.flying) for r in here)
        request, n = next((r, first_of(there)) for r, there in found if there.any())
        past = self.machine.access_at(request.event, int(request.lanes[n]))
        closed = request.groups[n] < self.committed[request.lanes[n]]
        why = "has not waited for its group" if closed else "has not committed its group"
        sentence = (
            f"{memory.place(int(element))} is accessed while a copy to it is in flight: "
            f"thread {past.thread} requested it and {why}"
        )
        self.machine.report(self.machine.hazard("copy in flight", op, sentence, [lanes[at]], past))

    def finish(self) -> None:
        """A hazard if a copy is in flight when the kernel ends; zeros may be."""
        for request in self.requests:
            if (late := request.reads & request.flying).any():
                lane = int(request.lanes[first_of(late)])
                past = self.machine.access_at(request.event, lane)
                sentence = f"nothing waits for a copy to {request.target.name}"
                hazard = Hazard("copy never awaited", request.op, sentence, [past])
                self.machine.report(hazard)
