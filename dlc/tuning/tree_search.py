"""
Single-player Monte-Carlo tree search over the schedules of a kernel.

Schadd, Winands, van den Herik, Chaslot and Uiterwijk, "Single-Player Monte-Carlo Tree Search",
Computers and Games 2008: the child with the largest

    mean + C sqrt(ln visits / n) + sqrt((sum of squares - n mean^2 + D) / n), n its own visits,

is followed, where a value is 1 + ln(g), and at least 0, of a candidate that is g times as fast as
the default schedule: about g near it, and what is many times as fast is still told apart. Values
are in units of the range of all that were found, as schedules may differ by percents or be a
hundred times as fast; a visit that gave no schedule has none. As one bad completion says little of
what else is below a child, a part of all descents choose evenly among the children. A node
has at most `WIDENING sqrt(visits)` children (progressive widening; Chaslot et al., "Progressive
strategies for Monte-Carlo tree search", 2008). A new child, and what completes a schedule below it,
are chosen as in the best schedule so far, or as close to it as can be, from always to never; else
by what was found of a choice anywhere in the tree (`dlc.tuning.move_values`), and in the descents
that choose evenly evenly. The prior says which of some completions is tried; without one there is
one. A child of which all schedules are known is not followed again. In turn with what the tree
proposes come the tilings that the estimate ranks next to the default schedule's, where it ranks
any; what is found of them counts for the nodes on their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log, sqrt

from dlc.tuning.move_values import MoveValues
from dlc.tuning.searches import PATIENCE, Completer, Prior
from dlc.tuning.space import Choice, Place, Refused, Space, State, distance

EXPLORATION = 0.2
"""C of the formula, in units of the range of values."""
UNCERTAINTY = 0.1
"""D of the formula, in units of its square."""
LEAST_RANGE = 0.05
EVENLY = 0.2
"""How often children are chosen evenly."""
WIDENING = 1.5
COMPLETIONS = 6
"""Of a new child, of which the prior chooses one."""
SHORT_LIST = 16
"""Tilings that the estimate ranks, the default schedule's among them."""
HOPELESS = 10
"""How many times the default's estimate a candidate may be predicted to take, to be tried."""


class Node:
    """A state, and what was found below it."""

    def __init__(self, state: State, choices: list[Choice]) -> None:
        self.state = state
        self.untried = list(choices)
        self.children: list[Node] = []
        self.visits = 0
        self.values = 0
        """How many there were; fewer than visits."""
        self.total = 0.0
        self.squares = 0.0
        self.known = not choices
        """True if all schedules below have been tried."""

    def add(self, value: float) -> None:
        self.values += 1
        self.total += value
        self.squares += value * value

    def urgency(self, visits: int, scale: float) -> float:
        """What the formula gives, for a child of a node with so many visits."""
        n = max(self.values, 1)
        mean = self.total / n
        spread = max(self.squares - n * mean * mean, 0.0) + UNCERTAINTY * scale * scale
        unseen = sqrt(log(max(visits, 1)) / max(self.visits, 1))
        return mean + EXPLORATION * scale * unseen + sqrt(spread / n)


class TreeSearch(Completer):
    """See the module's text."""

    def __init__(self, space: Space, seed: int, prior: Prior | None = None) -> None:
        super().__init__(space, seed)
        self.prior = prior
        self.root = Node(space.start, space.choices(space.start))
        self.paths: dict[str, list[Node]] = {}
        self.states: set[tuple[object, ...]] = set()
        """The keys of all nodes: a state is one of them once."""
        self.default_seconds = 0.0
        self.values: list[float] = []
        self.made: dict[str, Mapping[Place, Choice]] = {}
        """The choices of what was proposed."""
        self.best: Mapping[Place, Choice] = {}
        """Those of the best so far."""
        self.moves = MoveValues()
        self.short_list = space.short_list(SHORT_LIST)
        """Schedules that are still to be proposed."""

    def propose(self) -> str | None:
        if not self.paths:
            return self._noted(self.space.default_state, [self.root])
        if len(self.paths) % 2 and (schedule := self._listed()) is not None:
            return schedule
        for _ in range(PATIENCE):
            if self.root.known:
                break
            evenly = self.rng.random() < EVENLY
            path = self._descended(evenly=evenly)
            state = self._completed(path[-1], evenly=evenly)
            if state is not None:
                return self._noted(state, path)
            for node in path:
                node.visits += 1
        return self._listed()

    def _noted(self, state: State, path: list[Node]) -> str:
        """A schedule that is proposed, below the nodes of a path."""
        schedule = state.schedule
        self.paths[schedule], self.made[schedule] = path, state.made
        for node in path:
            node.visits += 1  # until its value is known: others look elsewhere
        return schedule

    def _listed(self) -> str | None:
        """The next one of the short list that is not known."""
        while self.short_list:
            listed = self.short_list.pop(0)
            try:
                choices, last = self.space.followed(listed)
            except Refused as reason:
                self.refusals[listed] = str(reason)
                continue
            if last.schedule not in self.paths:
                return self._noted(last, self._grown({**choices, last.key: None}))
        return None

    def _grown(self, choices: Mapping[tuple[object, ...], Choice | None]) -> list[Node]:
        """
        The nodes on the way that some choices go, by the keys of states, made where they are
        missing; up to one that it leaves by what the tree does not have.
        """
        path = [self.root]
        while True:
            node = path[-1]
            found = [child for child in node.children if child.state.key in choices]
            choice = choices[node.state.key]
            if not found and choice in node.untried:
                node.untried.remove(choice)
                child = self._child(node, self.take(node.state, choice))
                found = [child] if child is not None and child.state.key in choices else []
            if not found:
                node.known = node.known or choice is None
                return path
            path.append(found[0])

    def observe(self, schedule: str, seconds: float | None) -> None:
        if schedule == self.space.default and seconds is not None:
            self.default_seconds = seconds
        value = 0.0
        if seconds and self.default_seconds:
            value = max(0.0, 1 + log(self.default_seconds / seconds))
        if value > max(self.values, default=0.0):
            self.best = self.made[schedule]
        self.values.append(value)
        self.moves.add(self.made[schedule], value)
        for node in self.paths[schedule]:
            node.add(value)

    @property
    def scale(self) -> float:
        """The range of the values so far."""
        found = self.values or [0.0]
        return max(max(found) - min(found), LEAST_RANGE)

    def _descended(self, *, evenly: bool) -> list[Node]:
        """The nodes from the root to a new one, or to one that has no more children."""
        path, scale = [self.root], self.scale
        while not path[-1].known:
            node = path[-1]
            open_children = [child for child in node.children if not child.known]
            if node.untried and self._widens(node, len(open_children), evenly=evenly):
                child = self._expanded(node, evenly=evenly)
                if child is not None:
                    return [*path, child]
                continue
            if not open_children:
                node.known = True
                break
            if evenly:
                path.append(self.rng.choice(open_children))
            else:
                path.append(max(open_children, key=lambda c: c.urgency(node.visits, scale)))
        self._close(path)
        return path

    def _widens(self, node: Node, children: int, *, evenly: bool) -> bool:
        """True if a node is to get a new child, of which it has so many that are not known yet."""
        if evenly:
            return self.rng.randrange(len(node.untried) + children) >= children
        return not children or len(node.children) < WIDENING * sqrt(max(node.visits, 1))

    def _expanded(self, node: Node, *, evenly: bool) -> Node | None:
        """A new child, past all that there is no choice about; None for one that is refused."""
        if evenly:
            choice = self.rng.choice(node.untried)
        else:
            choice = self._drawn(self.rng.random(), node.state, node.untried)
        node.untried = [other for other in node.untried if other is not choice]
        return self._child(node, self.take(node.state, choice))

    def _drawn(self, closeness: float, state: State, choices: list[Choice]) -> Choice:
        """With this probability the choice that is closest to that of the best schedule so far."""
        if self.rng.random() >= closeness:
            return self.moves.draw(self.rng, state, choices, self.scale)
        if (wanted := self.best.get(state.place)) is None:
            return choices[0]
        return min(choices, key=lambda choice: distance(choice, wanted))

    def _child(self, node: Node, state: State | None) -> Node | None:
        """A child with a state, past all that there is no choice about."""
        while state is not None:
            choices = self.space.choices(state)
            if state.key in self.states:  # as where a step has nothing to do
                return None
            self.states.add(state.key)
            if len(choices) != 1:
                child = Node(state, choices)
                child.known = False  # a whole schedule is to be tried once
                node.children.append(child)
                return child
            state = self.take(state, choices[0])
        return None

    def _completed(self, node: Node, *, evenly: bool) -> State | None:
        """A schedule below a node that is not known yet; of several the one of the best prior."""
        found: dict[str, State] = {}
        whole = not self.space.choices(node.state)
        count = 1 if whole or self.prior is None else COMPLETIONS
        for number in range(count):
            as_best = number == 0 and not node.visits and self.prior is not None
            closeness = 1.0 if as_best else self.rng.random()
            choose = None if evenly else partial(self._drawn, closeness)
            state = self.complete(node.state, choose)
            if state is not None and state.schedule not in self.paths:
                found.setdefault(state.schedule, state)
        node.known = whole
        if not found:
            return None
        if self.prior is None:
            return next(iter(found.values()))
        usual = self.prior(self.space.default)
        schedule = min(found, key=self.prior)
        if (seconds := self.prior(schedule)) > HOPELESS * usual:
            times = f"{seconds / usual:.0f} times the default's"
            self.refusals[schedule] = f"not tried: its estimate is {times}"
            return None
        return found[schedule]

    def _close(self, path: list[Node]) -> None:
        """Marks nodes as known below which all are."""
        for node in reversed(path):
            if not node.untried and all(child.known for child in node.children):
                node.known = True
