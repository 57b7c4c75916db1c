"""The memory that a program needs beside its arguments: planned, and at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlc.analysis.kernel.placement import Buffer, live_bytes
from dlc.backend.bound_program import (
    Allocate,
    BoundProgram,
    For,
    If,
    Launch,
    Select,
    Slice,
    Step,
    View,
    While,
    bodies_of,
    flat,
)


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of a planned program, arguments excluded."""

    intermediates: int
    """The sum of all tensors between kernels."""
    live: int
    """The most that hold data at once: no workspace is smaller."""
    workspace: int
    results: int
    kept: int
    """Of what is computed once for all calls, which a call does not allocate."""

    @property
    def peak(self) -> int:
        """Bytes that a call allocates."""
        return self.workspace + self.results

    @staticmethod
    def of(program: BoundProgram) -> MemoryUse:
        """The use of a program whose buffers are planned."""
        found = lifetimes(program)
        steps = list(flat(program.steps))
        lives = [life.buffer for life in found.lives]
        workspaces = {life.slice.memory for life in found.lives}
        made = [s for s in steps if isinstance(s, Allocate)]
        return MemoryUse(
            sum(b.size for b in lives),
            live_bytes(lives),
            sum(a.layout.bytes for a in made if a.number in workspaces),
            sum(a.layout.bytes for a in made if a.number not in workspaces | program.made_once),
            sum(a.layout.bytes for a in made if a.number in program.kept),
        )


@dataclass(frozen=True)
class Life:
    """A buffer in a workspace, and when it is used first and last."""

    slice: Slice
    buffer: Buffer


@dataclass(frozen=True)
class Lifetimes:
    """
    The launches of a planned program, in order, and the buffers between them, all at the times of
    one clock, which goes on with each step of the program.
    """

    launches: list[tuple[int, Launch]]
    lives: list[Life]


def lifetimes(program: BoundProgram) -> Lifetimes:
    used = _Uses()
    used.visit(program.steps)
    lives = [
        Life(s, Buffer(s.layout.bytes, used.first[s.number], used.last[s.number]))
        for s in flat(program.steps)
        if isinstance(s, Slice) and not isinstance(s, View)
    ]
    return Lifetimes(used.launches, lives)


class _Uses:
    """When each buffer is used, in launches and ends of control flow."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.launches: list[tuple[int, Launch]] = []
        self._now = 0
        self._places: dict[int, tuple[int, ...]] = {}
        """The buffers that one is a part of, or another name of."""

    def visit(self, steps: Sequence[Step]) -> list[int]:
        """Follows steps; the buffers that they use."""
        used: list[int] = []
        for step in steps:
            self._now += 1
            match step:
                case Launch():
                    self.launches.append((self._now, step))
                    used += self._use(step.inputs + step.outputs)
                case Select():
                    self._places[step.number] = self._places.get(step.whole, (step.whole,))
                case View():
                    self._places[step.number] = self._places.get(step.memory, (step.memory,))
                case For() | While():
                    used += self._loop(step)
                case If():
                    used += self._use([step.flag])
                    used += [n for body in bodies_of(step) for n in self.visit(body)]
                case _:
                    pass
        return used

    def _use(self, numbers: Sequence[int]) -> list[int]:
        used = [place for n in numbers for place in self._places.get(n, (n,))]
        for number in used:
            self.first.setdefault(number, self._now)
            self.last[number] = self._now
        return used

    def _loop(self, step: For | While) -> list[int]:
        begin, carry = self._now, step.carry
        places = self._use(carry.inits)
        for names in (*carry.names, carry.results):
            self._places.update(dict.fromkeys(names, tuple(places)))
        used = [*places, *(n for body in bodies_of(step) for n in self.visit(body))]
        self._now += 1
        for number in used:
            if self.first[number] <= begin:
                self.last[number] = self._now
        return used
