"""
Searches over the schedules of a kernel: what to try next, given what has been found.

    search = make_search("mcts", space, seed, prior)
    while (schedule := search.propose()) is not None:
        search.observe(schedule, seconds)      # None: refused, or it failed

Each proposes the default schedule first, and no schedule twice. All are deterministic for a seed,
the prior, and what they are told.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from typing import Protocol

from dlc.tuning.space import Choice, Refused, Space, State

Prior = Callable[[str], float]
"""The seconds that a schedule is guessed to take."""
Choose = Callable[[State, list[Choice]], Choice]
"""One of the choices that a state has."""
PATIENCE = 1000
"""Completions in a row that give nothing new after which a search ends."""


class Search(Protocol):
    """See the module's text."""

    refusals: dict[str, str]
    """Schedules so far that could not be completed, with the reasons."""

    def propose(self) -> str | None: ...

    def observe(self, schedule: str, seconds: float | None) -> None: ...


class Completer:
    """Completes schedules at random, and keeps what was refused on the way."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.rng = random.Random(seed)
        self.refusals: dict[str, str] = {}

    def complete(self, state: State, choose: Choose | None = None) -> State | None:
        """A whole schedule, drawn evenly unless it is said how; None where that is refused."""
        choose = choose or (lambda _, choices: self.rng.choice(choices))
        while choices := self.space.choices(state):
            following = self.take(state, choose(state, choices))
            if following is None:
                return None
            state = following
        return state

    def take(self, state: State, choice: Choice) -> State | None:
        """The state after a choice; None where it is refused, for which the reason is kept."""
        try:
            return self.space.take(state, choice)
        except Refused as reason:
            given = " ".join(f"{name}={value}" for name, value in state.given.items())
            step = self.space.classes[state.number].name
            self.refusals[f"{state.schedule},{step}{{{given} … {choice}}}"] = str(reason)
            return None


class RandomSearch(Completer):
    """Every choice is drawn evenly."""

    def __init__(self, space: Space, seed: int, prior: Prior | None = None) -> None:
        super().__init__(space, seed)
        self.tried: set[str] = set()

    def propose(self) -> str | None:
        if not self.tried:
            self.tried.add(self.space.default)
            return self.space.default
        for _ in range(PATIENCE):
            state = self.complete(self.space.start)
            if state is not None and state.schedule not in self.tried:
                self.tried.add(state.schedule)
                return state.schedule
        return None

    def observe(self, schedule: str, seconds: float | None) -> None:
        pass


class GreedySearch(Completer):
    """
    From the best so far, one choice is made otherwise, those closest to the default first; what
    follows is chosen as in the best wherever that can be.
    """

    def __init__(self, space: Space, seed: int, prior: Prior | None = None) -> None:
        super().__init__(space, seed)
        self.best: tuple[float, list[Choice]] = (inf, [])
        self.paths: dict[str, list[Choice]] = {}
        self.queue = self._neighbours()

    def _neighbours(self) -> list[tuple[int, int]]:
        """The places of a path, and the number of the choice to be made there."""
        state, found = self.space.start, list[tuple[int, int]]()
        for place, choice in enumerate(self.best[1]):
            found += [(place, n) for n in range(len(self.space.choices(state)))]
            state = self.space.take(state, choice)
        return found

    def propose(self) -> str | None:
        if not self.paths:
            return self._followed([], None)
        while self.queue:
            place, number = self.queue.pop(0)
            schedule = self._followed(self.best[1][:place], number)
            if schedule is not None:
                return schedule
        return None

    def _followed(self, path: list[Choice], number: int | None) -> str | None:
        """The schedule that goes on from a path; None if it is refused, or known."""
        state, taken = self.space.start, list[Choice]()
        while choices := self.space.choices(state):
            place = len(taken)
            as_best = [c for c in self.best[1][place : place + 1] if c in choices]
            choice = as_best[0] if as_best else choices[0]
            if place == len(path) and number is not None and number < len(choices):
                choice = choices[number]
            following = self.take(state, choice)
            if following is None:
                return None
            state = following
            taken.append(choice)
        if state.schedule in self.paths:
            return None
        self.paths[state.schedule] = taken
        return state.schedule

    def observe(self, schedule: str, seconds: float | None) -> None:
        if seconds is not None and seconds < self.best[0]:
            self.best = seconds, self.paths[schedule]
            self.queue = self._neighbours()
