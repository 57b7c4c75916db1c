"""
Groups of threads that go different ways and wait for each other: actors that block and resume.

Each group runs on a Python thread of its own, one at a time, until it blocks; then another one that
can go on has its turn. What the values of a group are while others run is kept here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Crew, Lanes, Machine, Stuck, first_of

Mask = NDArray[np.bool_]


class _Abandoned(BaseException):
    """Ends the Python thread of a group whose kernel has failed elsewhere."""


@dataclass
class _Meeting:
    """Some lanes of a scope have come to an operation and wait for the others."""

    op: Operation
    iteration: tuple[int, ...]
    missing: Mask
    values: Any = None
    over: bool = False


def _is_over(meeting: _Meeting) -> bool:
    return meeting.over


@dataclass(eq=False)
class Group:
    """Lanes that run in step."""

    lanes: Mask
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    waiting: Stuck | None = None
    """What the group waits for."""
    over: bool = False
    error: BaseException | None = None
    values: list[Any] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)
    mask: Mask | None = None

    def can_go_on(self) -> bool:
        return not self.over and (self.waiting is None or self.waiting.ready())


class Deadlock(Exception):
    """All groups wait or have ended; `waiting` are the lanes of those that wait, and for what."""

    def __init__(self, waiting: Sequence[tuple[Mask, Stuck]]) -> None:
        super().__init__("deadlock")
        self.waiting = waiting


class Groups(Crew):
    """Runs the `steps` of a program in groups of lanes, the first that can go on first."""

    def __init__(self, machine: Machine, steps: Callable[[], None], groups: Sequence[Mask]) -> None:
        self.machine = machine
        self.steps = steps
        self.groups = [Group(lanes, mask=lanes) for lanes in groups]
        self.meetings: dict[int, _Meeting] = {}
        self.running = self.groups[0]
        self.back = threading.Semaphore(0)
        self.abandoned = False

    def run(self) -> None:
        """To the end of all groups. Hazard or Deadlock if one does not get there."""
        threads = [threading.Thread(target=self._live, args=(g,), daemon=True) for g in self.groups]
        for thread in threads:
            thread.start()
        try:
            while group := next(filter(Group.can_go_on, self.groups), None):
                self._give_turn(group)
                if group.error is not None:
                    raise group.error
            if waiting := [(g.lanes, g.waiting) for g in self.groups if g.waiting is not None]:
                raise Deadlock(waiting)
        finally:
            self.abandoned = True
            for group, thread in zip(self.groups, threads, strict=True):
                group.turn.release()
                thread.join()

    def _give_turn(self, group: Group) -> None:
        machine = self.machine
        machine.values[:] = group.values or [None] * len(machine.values)
        machine.iteration = group.iteration
        machine.activate(group.mask)
        self.running = group
        group.turn.release()
        self.back.acquire()
        group.values, group.mask = list(machine.values), machine.mask

    def _live(self, group: Group) -> None:
        group.turn.acquire()
        try:
            if not self.abandoned:
                with np.errstate(all="ignore"):
                    self.steps()
        except _Abandoned:
            pass
        except BaseException as error:
            group.error = error
        group.over = True
        self.back.release()

    def block(self, stuck: Stuck) -> None:
        group = self.running
        group.waiting = stuck
        self.back.release()
        group.turn.acquire()
        group.waiting = None
        if self.abandoned:
            raise _Abandoned

    def meet(
        self, op: Operation, scopes: Lanes, act: Callable[[Lanes], None], value: Any = None
    ) -> Any:
        machine = self.machine
        here = np.zeros(machine.lanes, np.bool_)
        here[machine.active] = True
        joined: list[tuple[_Meeting, Mask]] = []
        for scope in np.unique(scopes[machine.active]).tolist():
            members = scopes == scope
            meeting = self._join(op, scope, members, here & members)
            if np.ndim(value):
                if meeting.values is None:
                    meeting.values = np.zeros_like(value)
                meeting.values[here & members] = value[here & members]
            if not meeting.missing.any():
                meeting.over = True
                del self.meetings[scope]
                act(np.flatnonzero(members))
            joined.append((meeting, members))
        for meeting, _ in joined:
            if not meeting.over:
                alone = partial(self._alone, op, meeting)
                self.block(Stuck(machine.active, partial(_is_over, meeting), alone))
        if np.ndim(value):
            value = value.copy()
            for meeting, members in joined:
                value[members] = meeting.values[members]
        return value

    def _join(self, op: Operation, scope: int, members: Mask, here: Mask) -> _Meeting:
        iteration = tuple(self.machine.iteration)
        meeting = self.meetings.get(scope)
        if meeting is None:
            meeting = self.meetings[scope] = _Meeting(op, iteration, members.copy())
        elif meeting.op is not op or meeting.iteration != iteration:
            there = first_of(members & ~meeting.missing)
            sentence = (
                f"thread {self.machine.thread_of[there]} waits at another {meeting.op.name} or in "
                "another iteration than this one"
            )
            raise self.machine.hazard("divergence", op, sentence, [first_of(here)])
        meeting.missing &= ~here
        return meeting

    def _alone(self, op: Operation, meeting: _Meeting) -> Hazard:
        away = self.machine.thread_of[first_of(meeting.missing)]
        here = first_of(~meeting.missing)
        sentence = f"{op.name} waits for thread {away}, which does not come"
        return self.machine.hazard("divergence", op, sentence, [here])
