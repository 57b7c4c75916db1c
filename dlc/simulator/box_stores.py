"""
What the tensor memory accelerator stores: boxes that a thread requests, of which it learns by a
wait for their group that they have been read, or that they are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.dialects.kernel_tma_store import TmaStoreOp
from dlc.simulator.address_space import Memory
from dlc.simulator.clocks import Lanes
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine, Mask, first_of
from dlc.simulator.mbarriers import Mbarriers
from dlc.simulator.shadow import Elements


@dataclass(frozen=True)
class Box:
    """The elements of a slab and those that they are stored to, in the same order."""

    source: Memory
    elements: Elements
    target: Memory
    places: Elements
    inside: Mask
    """True for the elements of the slab that lie inside of the tensor: those have a place."""


@dataclass
class _Request:
    op: Operation
    event: int
    lane: int
    group: int
    box: Box
    writers: NDArray[np.int64]
    """Who had written the slab."""
    values: NDArray[Any] | None = None
    """What has been read; None before."""


class BoxStores:
    """
    The stores in flight. A slab is read when its group has been waited for, and a write to it until
    then, even by a thread that does not know of that wait, is a hazard; what is stored to is
    written when the wait for that is over, and is not to be accessed before, nor stored to again.
    """

    def __init__(self, machine: Machine, mbarriers: Mbarriers, *, lockstep: bool) -> None:
        self.machine, self.mbarriers, self.lockstep = machine, mbarriers, lockstep
        self.committed = np.zeros(machine.lanes, np.int64)
        self.requests: list[_Request] = []
        self.flying: dict[Memory, Mask] = {}

    def request(self, op: Operation, lane: int, box: Box) -> None:
        """A lane asks that a box be stored."""
        assert box.source.shadow is not None
        assert box.target.shadow is not None
        self._read(op, lane, box)
        if not self.lockstep:
            self.mbarriers.check_proxy(op, lane, box.source, box.elements)
            self._check_stored(op, lane, box)
        lanes = np.full(len(box.places), lane)
        if box.target in self.flying:
            self._check(box.target, op, box.places, lanes)
        box.target.shadow.write(op, box.places, lanes)
        box.target.guard = partial(self._check, box.target)
        mask = self.flying.setdefault(box.target, np.zeros(len(box.target.data), np.bool_))
        mask[box.places] = True
        event, group = self.machine.event(op), int(self.committed[lane])
        self.requests.append(_Request(op, event, lane, group, box, self._writers(box).copy()))

    def commit(self) -> None:
        self.committed[self.machine.active] += 1

    def wait(self, op: Operation, pending: int, *, read: bool) -> None:
        """The boxes of all groups of the active threads but the newest are read, or written."""
        active = set(self.machine.active.tolist())
        left: list[_Request] = []
        for request in self.requests:
            done = request.group < self.committed[request.lane] - pending
            if not done or request.lane not in active:
                left.append(request)
                continue
            if request.values is None:
                self._finish_reading(request)
            if read:
                left.append(request)
            else:
                self._land(request)
        self.requests = left

    def _finish_reading(self, request: _Request) -> None:
        box = request.box
        changed = self._writers(box) != request.writers
        if changed.any():
            at = first_of(changed)
            writer = self.machine.past_access(int(self._writers(box)[at]))
            past = self.machine.access_at(request.event, request.lane)
            sentence = (
                f"{box.source.place(int(box.elements[at]))} is written while a store that reads it "
                "is in flight"
            )
            hazard = Hazard("copy in flight", writer.op, sentence, [writer, past])
            self.machine.report(hazard)
        self._read(request.op, request.lane, box)
        request.values = box.source.data[box.elements]

    def _land(self, request: _Request) -> None:
        box, values = request.box, request.values
        assert box.target.shadow is not None
        assert values is not None
        box.target.data[box.places] = values[box.inside]
        self.flying[box.target][box.places] = False
        event = self.machine.again(request.event)
        box.target.shadow.land(event, box.places, np.full(len(box.places), request.lane))

    def _writers(self, box: Box) -> NDArray[np.int64]:
        assert box.source.shadow is not None
        return box.source.shadow.writer[box.elements]

    def _read(self, op: Operation, lane: int, box: Box) -> None:
        assert box.source.shadow is not None
        box.source.shadow.read(op, box.elements, np.full(len(box.elements), lane))

    def _check_stored(self, op: Operation, lane: int, box: Box) -> None:
        """A hazard if a thread has stored to a place: fences are of shared memory."""
        assert box.target.shadow is not None
        writers = box.target.shadow.writer[box.places]
        for writer in np.unique(writers[writers > 0]).tolist():
            past = self.machine.past_access(writer)
            if not isinstance(past.op, TmaStoreOp):
                place = box.target.place(int(box.places[first_of(writers == writer)]))
                sentence = (
                    f"a thread has stored to {place}, and no kernel.fence_proxy_async orders that "
                    "before this, as it is one of shared memory"
                )
                self.machine.report(self.machine.hazard("race", op, sentence, [lane], past))

    def _check(self, memory: Memory, op: Operation, elements: Elements, lanes: Lanes) -> None:
        """A hazard if a lane accesses what is being stored to."""
        hit = self.flying[memory][elements]
        if not hit.any():
            return
        at = first_of(hit)
        element = elements[at]
        request = next(
            r for r in self.requests if r.box.target is memory and element in r.box.places
        )
        past = self.machine.access_at(request.event, request.lane)
        sentence = (
            f"{memory.place(int(element))} is accessed while a store to it is in flight: thread "
            f"{past.thread} requested it and has not waited for its group"
        )
        self.machine.report(self.machine.hazard("copy in flight", op, sentence, [lanes[at]], past))

    def finish(self) -> None:
        """A hazard if a store is in flight when the kernel ends."""
        for request in self.requests:
            past = self.machine.access_at(request.event, request.lane)
            sentence = f"nothing waits for a store to {request.box.target.name}"
            hazard = Hazard("copy never awaited", request.op, sentence, [past])
            self.machine.report(hazard)
