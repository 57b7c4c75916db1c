"""
Threads that go different ways and wait for each other: groups that run in step each, in turns.

A program is an iterator that yields a `Wait` where it cannot go on yet. All threads begin as one
group; one that comes to a deadlock is divided into those that wait and the others, and the kernel
runs again from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.simulator.clocks import Lanes
from dlc.simulator.hazards import Access, Hazard
from dlc.simulator.machine import Machine, Mask, first_of


@dataclass(frozen=True)
class Wait:
    """Some lanes wait for what other threads do."""

    lanes: Lanes
    is_over: Callable[[], bool]
    hazard: Callable[[], Hazard]
    """The hazard that it is if nothing ends it."""


Step: TypeAlias = Callable[[], Iterator[Wait] | None]
"""What an operation does to a machine, at once or, where it may have to wait, by and by."""


def execute(steps: Sequence[Step]) -> Iterator[Wait]:
    """Takes steps in order."""
    for step in steps:
        if (waits := step()) is not None:
            yield from waits


class AllEnd(Exception):
    """None of the lanes that run in step goes on."""


def _until_the_end(steps: Sequence[Step]) -> Iterator[Wait]:
    """Takes the steps of a kernel, until its end or where all lanes do."""
    with suppress(AllEnd):
        yield from execute(steps)


class Deadlock(Exception):
    """All groups wait or have ended; `waits` has for each what it waits for."""

    def __init__(self, waits: Sequence[Wait | None]) -> None:
        super().__init__("deadlock")
        self.waits = waits

    def hazard(self) -> Hazard:
        """That of the first that wait."""
        return next(wait for wait in self.waits if wait is not None).hazard()


@dataclass
class _Group:
    """Lanes that run in step, and their registers while others run."""

    mask: Mask | None
    run: Iterator[Wait]
    wait: Wait | None = None
    is_over: bool = False
    values: list[Any] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)

    def can_go_on(self) -> bool:
        return not self.is_over and (self.wait is None or self.wait.is_over())


def run_groups(machine: Machine, steps: Sequence[Step], masks: Sequence[Mask]) -> None:
    """
    Takes all groups to the end of the steps, the first that can go on first. Deadlock if one does
    not get there.
    """
    whole = len(masks) == 1
    groups = [_Group(None if whole else mask, _until_the_end(steps)) for mask in masks]
    while group := next(filter(_Group.can_go_on, groups), None):
        machine.values[:] = group.values or [None] * len(machine.values)
        machine.iteration = group.iteration
        machine.activate(group.mask)
        group.wait = next(group.run, None)
        group.is_over = group.wait is None
        group.values, group.mask = list(machine.values), machine.mask
    if not all(group.is_over for group in groups):
        raise Deadlock([group.wait for group in groups])


def divided(masks: Sequence[Mask], deadlock: Deadlock) -> list[Mask]:
    """
    Finer groups of the threads of a block, those that wait apart from those that could go on. A
    hazard if all that wait are groups of their own.
    """
    finer: list[Mask] = []
    for mask, wait in zip(masks, deadlock.waits, strict=True):
        stays = np.zeros_like(mask)
        if wait is not None:
            stays[wait.lanes % len(mask)] = True
        finer += [part for part in (mask & stays, mask & ~stays) if part.any()]
    if len(finer) == len(masks):
        raise deadlock.hazard()
    return finer


@dataclass
class _Gathering:
    """Some lanes of a scope have come to an operation and wait for the others."""

    op: Operation
    access: Access
    """The first lane's."""
    missing: Mask
    values: Any = None
    is_over: bool = False


_OF_WARPGROUPS = (
    kernel.WgmmaOp,
    kernel.WgmmaHeldOp,
    kernel.WgmmaFenceOp,
    kernel.WgmmaCommitOp,
    kernel.WgmmaWaitOp,
    kernel.SetMaxRegistersOp,
)


def _who_meets(op: Operation) -> str:
    """Those who must reach an operation, for errors."""
    if isinstance(op, kernel.BarrierOp | kernel.LastBlockOp):
        return "all threads of a block"
    if isinstance(op, kernel.ClusterBarrierOp):
        return "all threads of a cluster"
    if isinstance(op, kernel.ShuffleOp) and op.named_threads is not None:
        return f"all lanes of threads below {op.named_threads}"
    if isinstance(op, _OF_WARPGROUPS):
        return "all threads of a warpgroup"
    return "all lanes of a warp"


class Rendezvous:
    """The points where all lanes of a warp or of a block wait for each other."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._gatherings: dict[int, _Gathering] = {}
        """By the scope."""

    def meet(
        self,
        op: Operation,
        scopes: Lanes,
        act: Callable[[Lanes], None],
        value: Any = None,
    ) -> Generator[Wait, None, Any]:
        """
        The active lanes come to `op`, where all lanes of a scope meet; `scopes` has the number of
        each lane's. When the last lane of a scope has come, `act` is done with the lanes of it,
        once. Returns `value` of all that have met.
        """
        here = scopes[self.machine.active]
        counts, sizes = np.bincount(here, minlength=scopes[-1] + 1), np.bincount(scopes)
        if (counts[here] == sizes[here]).all():
            act(self.machine.active)
            return value
        return (yield from self._gather(op, scopes, act, value))

    def _gather(
        self, op: Operation, scopes: Lanes, act: Callable[[Lanes], None], value: Any
    ) -> Generator[Wait, None, Any]:
        """The same where lanes of a scope come one after another."""
        here = np.zeros(self.machine.lanes, np.bool_)
        here[self.machine.active] = True
        joined: list[tuple[_Gathering, Mask]] = []
        for scope in np.unique(scopes[here]).tolist():
            members = scopes == scope
            gathering = self._join(op, scope, members, here & members)
            if np.ndim(value):
                if gathering.values is None:
                    gathering.values = np.zeros_like(value)
                gathering.values[here & members] = value[here & members]
            if not gathering.missing.any():
                gathering.is_over = True
                del self._gatherings[scope]
                act(np.flatnonzero(members))
            joined.append((gathering, members))
        for gathering, members in joined:
            if not gathering.is_over:
                lanes = np.flatnonzero(here & members)
                is_over = partial(getattr, gathering, "is_over")
                yield Wait(lanes, is_over, partial(self._alone, gathering))
        if np.ndim(value):
            value = value.copy()
            for gathering, members in joined:
                value[members] = gathering.values[members]
        return value

    def _join(self, op: Operation, scope: int, members: Mask, here: Mask) -> _Gathering:
        access = self.machine.access(op, first_of(here))
        gathering = self._gatherings.get(scope)
        if gathering is None:
            gathering = self._gatherings[scope] = _Gathering(op, access, members.copy())
        elif gathering.op is not op or gathering.access.iteration != access.iteration:
            there, name = gathering.access.thread, gathering.op.name
            sentence = (
                f"{_who_meets(gathering.op)} must reach {name}, and thread {access.thread} does "
                f"not: thread {there} waits at another {name} or in another iteration than thread "
                f"{access.thread}"
            )
            raise Hazard("divergence", op, sentence, [access, gathering.access])
        gathering.missing &= ~here
        return gathering

    def _alone(self, gathering: _Gathering) -> Hazard:
        away = int(self.machine.thread_of[first_of(gathering.missing)])
        name = gathering.op.name
        sentence = f"{_who_meets(gathering.op)} must reach {name}, and thread {away} does not"
        return Hazard("divergence", gathering.op, sentence, [gathering.access])
