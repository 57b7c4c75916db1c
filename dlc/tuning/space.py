"""
The schedules of one kernel as a tree of decisions: step by step, and of a step option by option.

    space = Space(loop_ir, "matmul")
    state = space.start
    while (choices := space.choices(state)):
        state = space.take(state, choices[0])   # Refused, with a sentence
    state.schedule

A choice is the value of an option, among those that the step declares to be worth a try for the
kernel as scheduled so far, or to leave the step out. Choices close to that of the default schedule
come first, so that taking the first of them each time gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import zip_longest
from math import log2

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.diagnostics import TextError
from dlc.dialects import loop, tile
from dlc.registry import OptionError, get_pass
from dlc.schedule.heuristics import ranked_schedules
from dlc.schedule.repeats import repeated
from dlc.target import target_of
from dlc.transforms.step import (
    Decline,
    Kernel,
    Misplaced,
    SchedulingPass,
    ensure_schedule,
    kernels_of,
    parse_schedule,
    scheduling_steps,
)
from dlc.transforms.step_space import Situation, Value


@dataclass(frozen=True)
class LeaveOut:
    """The choice not to name a step."""

    def __str__(self) -> str:
        return "-"


@dataclass(frozen=True)
class Take:
    """The choice to name a step that has no options."""

    def __str__(self) -> str:
        return "+"


LEAVE_OUT, TAKE = LeaveOut(), Take()
Choice = Value | LeaveOut | Take
Place = tuple[int, int]
"""Where a choice is made: the number of its step, and how many options of it were given before."""


class Refused(Exception):
    """A schedule that cannot be: the message says why."""


@dataclass(frozen=True)
class State:
    """A schedule so far: whole steps, and of the next one the options that are chosen."""

    steps: tuple[SchedulingPass, ...]
    number: int
    """How many steps have been decided about."""
    given: Mapping[str, Value]
    module: ModuleOp = field(repr=False, compare=False)
    """The kernel after the whole steps."""
    is_default: bool = True
    """True if all choices were those of the default schedule."""
    made: Mapping[Place, Choice] = field(default_factory=dict, repr=False, compare=False)
    """The choices that led to it."""

    @property
    def place(self) -> Place:
        """Where the next choice is made."""
        return self.number, len(self.given)

    @property
    def schedule(self) -> str:
        """The text."""
        return ",".join(map(str, self.steps))

    @property
    def key(self) -> tuple[object, ...]:
        """What tells states apart."""
        return self.schedule, self.number, tuple(self.given.items()), self.is_default


class Space:
    """
    The schedules of the kernel `name` of a module of Loop IR that runs it alone. `first` is one to
    begin with, in the place of the default one.
    """

    def __init__(self, module: ModuleOp, name: str, first: str | None = None) -> None:
        self.module, self.name, self.first = module, name, first
        self.target = target_of(module)
        found = [get_pass(step) for step in scheduling_steps()]
        self.classes = [cls for cls in found if issubclass(cls, SchedulingPass) and _is_open(cls)]
        self._choices: dict[tuple[object, ...], list[Choice]] = {}

    @cached_property
    def default(self) -> str:
        """The schedule to begin with, without steps that have nothing to do."""
        return self.default_state.schedule

    @cached_property
    def default_state(self) -> State:
        """The state at its end."""
        state = self.start
        while choices := self.choices(state):
            state = self.take(state, choices[0])
        return state

    @cached_property
    def _defaults(self) -> dict[str, SchedulingPass]:
        """The steps of the schedule that the kernel gets without a search, or of the given one."""
        if self.first is not None:
            return {step.name: step for step in parse_schedule(self.first)}
        module = self.module.clone()
        kernel = _named(module, self.name)
        assert isinstance(kernel, loop.KernelOp)
        kernel.schedule = None
        ensure_schedule(kernel, module)
        assert kernel.schedule is not None
        return {step.name: step for step in parse_schedule(kernel.schedule.data)}

    @cached_property
    def start(self) -> State:
        """Nothing decided, not even `tileify`, which is in every schedule, if it has a choice."""
        module = self.module.clone()
        kernel = _named(module, self.name)
        assert isinstance(kernel, loop.KernelOp)
        kernel.schedule = StringAttr("")
        state = State((), 0, {}, module)
        with repeated(kernel) as (_, count):
            if count:
                return state
        return self._done(state, self._defaults.get("tileify", self.classes[0]()), True, {})

    def choices(self, state: State) -> list[Choice]:
        """What can be decided next, the closest to the default schedule first; none at the end."""
        if state.number == len(self.classes):
            return []
        if (known := self._choices.get(state.key)) is None:
            known = self._choices[state.key] = self._found(state)
        return known

    def _found(self, state: State) -> list[Choice]:
        cls = self.classes[state.number]
        names = [option.name for option in fields(cls)]
        usual = self._usual(state)
        if len(names) == len(state.given):  # a step without options
            return sorted((LEAVE_OUT, TAKE), key=lambda c: c != usual)
        name = names[len(state.given)]
        kernel = _named(state.module, self.name)
        if not isinstance(kernel, tile.KernelOp):  # tileify is next
            return sorted(cls.domains[name].values, key=lambda choice: distance(choice, usual))
        found: list[Choice] = [] if state.given else [LEAVE_OUT]
        try:
            found += cls.domains[name].legal(Situation(kernel, self.target, state.given))
        except (Decline, Misplaced):
            return [LEAVE_OUT]
        if state.is_default and not any(same(c, usual) for c in found):
            found = [usual, *found]
        return sorted(found, key=lambda choice: distance(choice, usual))

    def _usual(self, state: State) -> Choice:
        """The choice of the default schedule."""
        return self._choice(state, self._defaults)

    def _choice(self, state: State, steps: Mapping[str, SchedulingPass]) -> Choice:
        """The choice of the schedule of some steps."""
        cls = self.classes[state.number]
        step = steps.get(cls.name)
        names = [option.name for option in fields(cls)]
        if len(names) == len(state.given):
            return TAKE if step is not None else LEAVE_OUT
        return LEAVE_OUT if step is None else getattr(step, names[len(state.given)])

    def short_list(self, most: int) -> list[str]:
        """Of so many of the kernel's tilings that the estimate ranks first, the schedules."""
        if self.first is not None:
            return []
        kernel = _named(self.module, self.name)
        assert isinstance(kernel, loop.KernelOp)
        return ranked_schedules(kernel, self.target, most)

    def followed(self, schedule: str) -> tuple[dict[tuple[object, ...], Choice], State]:
        """The choices of a schedule by the keys of their states, and the state at its end."""
        steps = {step.name: step for step in parse_schedule(schedule)}
        state, choices = self.start, dict[tuple[object, ...], Choice]()
        while state.number < len(self.classes):
            choices[state.key] = self._choice(state, steps)
            state = self.take(state, choices[state.key])
        return choices, state

    def schedules(self, state: State | None = None) -> Iterator[str]:
        """All schedules that can be completed, each once; refused choices are passed over."""
        states = [self.start if state is None else state]
        seen, done = {states[0].key}, set[str]()
        while states:
            here = states.pop()
            if not (choices := self.choices(here)) and here.schedule not in done:
                done.add(here.schedule)
                yield here.schedule
            for choice in choices[::-1]:
                with suppress(Refused):
                    following = self.take(here, choice)
                    if following.key not in seen:
                        seen.add(following.key)
                        states.append(following)

    def take(self, state: State, choice: Choice) -> State:
        """
        The state after a choice; a step that has nothing to do is left out. Refused where it cannot
        be obeyed.
        """
        cls = self.classes[state.number]
        as_usual = state.is_default and same(choice, self._usual(state))
        made = {**state.made, state.place: choice}
        if isinstance(choice, LeaveOut):
            return State(state.steps, state.number + 1, {}, state.module, as_usual, made)
        names = [option.name for option in fields(cls)]
        given = dict(state.given)
        if not isinstance(choice, Take):
            given[names[len(given)]] = choice
        if len(given) < len(names):
            return State(state.steps, state.number, given, state.module, as_usual, made)
        try:
            step = cls(**given)
        except OptionError as error:
            raise Refused(f"{cls.name}: {error}") from None
        return self._done(state, step, as_usual, made)

    def _done(
        self, state: State, step: SchedulingPass, as_usual: bool, made: Mapping[Place, Choice]
    ) -> State:
        """The state after a whole step."""
        module = state.module.clone()
        kernel = _named(module, self.name)
        try:
            step.check_complete()
            step, _ = step.rewrite(kernel, module)
        except Decline:
            return State(state.steps, state.number + 1, {}, state.module, as_usual, made)
        except (Misplaced, OptionError, TextError) as reason:
            raise Refused(f"{step.name}: {reason}") from None
        return State((*state.steps, step), state.number + 1, {}, module, as_usual, made)


def _is_open(cls: type[SchedulingPass]) -> bool:
    """True if a step says of each of its options what is worth a try, as a plug-in's may not."""
    return all(option.name in cls.domains for option in fields(cls))


def same(a: Choice, b: Choice) -> bool:
    """True if two choices are the same; `True` is another one than 1."""
    return type(a) is type(b) and a == b


def distance(choice: Choice, usual: Choice) -> float:
    """How many times a choice has to be doubled or halved to be another; most where it cannot."""
    if same(choice, usual):
        return 0
    match choice, usual:
        case bool(), _:
            return 1
        case int(), int():
            return abs(log2(max(choice, 0.5) / max(usual, 0.5)))
        case tuple(), tuple():
            pairs = zip_longest(reversed(choice), reversed(usual), fillvalue=1)
            return sum(1 if isinstance(a, str) else distance(a, b) for a, b in pairs) + 0.1
        case (LeaveOut(), _) | (_, LeaveOut()):
            return 12
        case _:
            return 6


def _named(module: ModuleOp, name: str) -> Kernel:
    return next(kernel for kernel in kernels_of(module) if kernel.name_ == name)
