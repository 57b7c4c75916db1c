"""
What is known of a choice wherever in a tree it is made: a value for each place and choice, the mean
of all schedules that have it.

Finnsson and Björnsson, "Simulation-based approach to general game playing", AAAI 2008: the
move-average sampling technique, which draws by Gibbs' distribution of these means.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import exp

from dlc.tuning.space import Choice, Place, State

TEMPERATURE = 0.1
"""Of the distribution, in units of the range of values."""
PRIOR_VISITS = 0.5
"""How many schedules of an average value each choice is thought to have been in beside its own."""


class MoveValues:
    """See the module's text."""

    def __init__(self) -> None:
        self.found: dict[tuple[Place, Choice], tuple[int, float]] = {}
        self.count, self.total = 0, 0.0

    def add(self, made: Mapping[Place, Choice], value: float) -> None:
        """Notes the value of a schedule that was made by some choices."""
        self.count += 1
        self.total += value
        for move in made.items():
            count, total = self.found.get(move, (0, 0.0))
            self.found[move] = count + 1, total + value

    def mean(self, place: Place, choice: Choice) -> float:
        """Of a choice."""
        count, total = self.found.get((place, choice), (0, 0.0))
        average = self.total / max(self.count, 1)
        return (total + PRIOR_VISITS * average) / (count + PRIOR_VISITS)

    def draw(
        self, rng: random.Random, state: State, choices: Sequence[Choice], scale: float
    ) -> Choice:
        """One of the choices of a state, the more often the larger its mean is."""
        means = [self.mean(state.place, choice) for choice in choices]
        top = max(means)
        weights = [exp((mean - top) / (TEMPERATURE * scale)) for mean in means]
        return rng.choices(choices, weights)[0]
