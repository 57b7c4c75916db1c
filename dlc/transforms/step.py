"""
The base of scheduling steps: the kernels that a step acts on, and its options.

A step whose options are given acts on every kernel with these. A bare step takes its options from
the kernel's schedule, a pipeline string on the kernel, and leaves kernels alone whose schedule
does not name it. A kernel that has no schedule yet gets the default one of `heuristics`.

A schedule names some of the steps, each once, in the order of the pipeline. It is obeyed,
or it is an error with its place in the text:

- `Decline`: there is nothing for the step to do in this kernel, as without a contraction there is
  no K to chunk. That is a remark.
- `OptionError`: the step has something to do here, but cannot do it with the value of this option.
- `Misplaced`: another step has to run before, or has run too early. That is an error if the step
  has options, which would be ignored, else a remark.

An option that is None is not decided yet. Some steps decide theirs by the kernel as scheduled so
far, when they are bare in its schedule, and state there what they decided; default schedules state
it from the start. Nothing else changes the text of a schedule: steps with nothing to do stay in it,
as their kernel may become one for which they have. Passes outside of the pipeline never stand in
a schedule, even if they are of this base: what they do is said by the pipeline that runs them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, NoReturn, Self

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass

from dlc import plugins, registry
from dlc.diagnostics import TextError, with_hint
from dlc.dialects import loop, tile
from dlc.dialects.kernel_op import KernelSignature, kernels_in
from dlc.dialects.program_attributes import PLUGINS
from dlc.dialects.size import needing_numbers
from dlc.dialects.size_binding import at_hints
from dlc.passes import CHOOSING, Step, steps
from dlc.registry import OptionError, PipelineError
from dlc.remarks import collect, remark
from dlc.schedule.heuristics import Choice, choose_schedule
from dlc.target import Feature, target_of
from dlc.transforms.step_space import Domain

Kernel = loop.KernelOp | tile.KernelOp

SKIPPED = "skipped, "
"""How the remark of a step that declined begins."""
HOLDS = "a schedule holds the sixteen scheduling steps, tileify to mark-unroll"
"""What is said of other passes in one."""


def scheduling_steps() -> Mapping[str, int]:
    """The names of the steps of schedules, with their places in the pipeline."""
    return _numbered(steps())


def _numbered(pipeline: tuple[Step, ...]) -> Mapping[str, int]:
    known, numbers = _last_numbered[0]
    if known is not pipeline:  # compared by identity, as it is asked for each step of each kernel
        names = [step.pass_name for step in pipeline if step.is_scheduling]
        numbers = {name: number for number, name in enumerate(names)}
        _last_numbered[0] = pipeline, numbers
    return numbers


_last_numbered: list[tuple[tuple[Step, ...], Mapping[str, int]]] = [((), {})]


class Decline(Exception):
    """A step has nothing to do in a kernel; the message says why. Raised before any change."""


class Misplaced(Exception):
    """A step that runs too early or too late, and what to run before or after it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class SchedulingPass(ModulePass, ABC):
    """Base of steps. What no kernel can obey is an `OptionError` when it is made."""

    domains: ClassVar[Mapping[str, Domain]] = {}
    """What each of its options may be."""
    needs: ClassVar[tuple[Feature, ...]] = ()
    """What a target has to have; on others there is nothing to do."""

    def __post_init__(self) -> None:
        for option, domain in self.domains.items():
            domain.check(option, getattr(self, option))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels_of(op):
            with needing_numbers(kernel, f"@{kernel.name_}"):
                self.act(kernel, op)

    def act(self, kernel: Kernel, module: ModuleOp) -> None:
        """
        Applies the step to a kernel of a module, and remarks what was done or why it was not.
        TextError if the kernel's schedule is malformed, or the step cannot be obeyed.
        """
        step, name = self._step_for(kernel, module), kernel.name_
        _name_plugins(kernel, self.name, module)
        if step is None:
            remark(self.name, name, f"{SKIPPED}the kernel's schedule does not name it")
            return
        schedule = kernel.schedule
        try:
            step.check_complete()
            step, done = step.rewrite(kernel, module)
        except Decline as reason:
            done = f"{SKIPPED}{reason}"
        except Misplaced as reason:
            if step.has_options:
                step._refuse(kernel, step is self, None, reason, reason.hint)
            done = f"{SKIPPED}{reason} ({reason.hint})"
        except OptionError as error:
            step._refuse(kernel, step is self, error.option, error, error.hint)
        else:
            if schedule is not None and self.name in scheduling_steps():
                _note(step, name, schedule.data, module)
        remark(self.name, name, done)

    def _step_for(self, kernel: Kernel, module: ModuleOp) -> Self | None:
        if isinstance(kernel, loop.KernelOp) and not self.has_options:
            ensure_schedule(kernel, module)
        stated = _steps_of(kernel)
        if self.has_options:
            return self
        return next((s for s in stated if isinstance(s, type(self))), None)

    def _refuse(
        self, kernel: Kernel, given: bool, option: str | None, error: Exception, hint: str | None
    ) -> NoReturn:
        """Raises the error that this step, given or of the kernel's schedule, is not obeyed."""
        text, start, part = str(self), 0, (0, 0)
        if not given and kernel.schedule is not None:
            text = kernel.schedule.data
            part = _spans(text)[self.name]
            start = part[0]
        start, end = registry.place_of(text, start, self.name)
        if option is not None and registry.place_of(text, end, option)[0] > end:
            start, end = registry.place_of(text, end, option)
        message = f"kernel {kernel.name_}: {self.name}: {error}"
        raise with_hint(TextError(kernel, message, text, (start, end), part), hint) from None

    @property
    def has_options(self) -> bool:
        """True if an option is given."""
        return self != type(self)()

    def check_complete(self) -> None:
        """OptionError for an option that is missing, and that the step does not decide."""
        missing = [option.name for option in fields(self) if getattr(self, option.name) is None]
        decides = type(self).decided is not SchedulingPass.decided
        if missing and (self.has_options or not decides):
            usage = f"write {self.name}{{{missing[0]}=...}}"
            alone = f", or {self.name} alone, which decides by itself" if decides else ""
            raise OptionError(missing[0], f"option '{missing[0]}' is missing", usage + alone)

    def rewrite(self, kernel: Kernel, module: ModuleOp) -> tuple[Self, str]:
        """
        Rewrites a kernel, or raises `Decline`, `OptionError` or `Misplaced`. Returns the step with
        the options that it was done with, and what was done.
        """
        if isinstance(kernel, loop.KernelOp):
            raise Misplaced("tileify has not run", "run tileify first")
        target = target_of(module)
        for feature in self.needs:
            if not target.has(feature):
                raise Decline(target.lacking(feature))
        step, why = self.decided(kernel, module)
        done = step.rewrite_tile(kernel, module)
        return step, why or done

    def decided(self, kernel: tile.KernelOp, module: ModuleOp) -> tuple[Self, str]:
        """
        This step, with its open options decided for the kernel as scheduled so far, and why; or
        raises `Decline`.
        """
        return self, ""

    @abstractmethod
    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        """Rewrites a kernel in the tile dialect and says what was done, or raises as `rewrite`."""

    @property
    def is_open(self) -> bool:
        """True if an option is not decided."""
        return any(getattr(self, option.name) is None for option in fields(self))

    def __str__(self) -> str:
        """The step as a schedule states it."""
        options = (
            f"{name}={','.join(map(written, values))}"
            for name, values in self.spec().parameters.items()
        )
        text = " ".join(options)
        return f"{self.name}{{{text}}}" if text else self.name


def written(value: object) -> str:
    """A value of an option; names need no quotes."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z_][\w-]*", value, re.ASCII) else f'"{value}"'
    return str(value).lower()


@lru_cache(maxsize=1024)
def parse_schedule(schedule: str) -> tuple[SchedulingPass, ...]:
    """
    The steps of a schedule. PipelineError for what is no step, a step that is named twice or comes
    before one that it has to follow, and an option that is unknown, missing, or never obeyed.
    """
    places = scheduling_steps()
    known = {name: registry.pass_factories()[name] for name in places}
    named: list[str] = []
    for start, end in registry.pieces(schedule):
        name = schedule[start:end].partition("{")[0].strip()
        if name in registry.pass_factories() and name not in places:
            message = f"'{name}' is a pass, but no scheduling step"
            registry.refuse(schedule, start, name, message, HOLDS)
        if name in named:
            message = f"step '{name}' is named twice"
            registry.refuse(schedule, start, name, message, "a schedule names a step once")
        later = [other for other in named if places.get(name, len(places)) < places[other]]
        if later:
            message = f"step '{name}' is named after '{later[0]}'"
            hint = f"steps stand in the order of the pipeline: {name} before {later[0]}"
            registry.refuse(schedule, start, name, message, hint)
        named += [name] if name in places else []
    steps = registry.parse_pipeline(schedule, known, HOLDS)
    for step, (start, _) in zip(steps, registry.pieces(schedule), strict=True):
        assert isinstance(step, SchedulingPass)
        try:
            step.check_complete()
        except OptionError as error:
            registry.refuse(schedule, start, step.name, f"{step.name}: {error}", error.hint)
    return tuple(step for step in steps if isinstance(step, SchedulingPass))


def _steps_of(kernel: Kernel) -> tuple[SchedulingPass, ...]:
    """The steps of a kernel's schedule, if it has one; TextError for a malformed one."""
    schedule = "" if kernel.schedule is None else kernel.schedule.data
    try:
        return parse_schedule(schedule)
    except PipelineError as error:
        place = error.span.start, error.span.end
        message = f"schedule of {kernel.name_}: {error.msg}"
        refusal = TextError(kernel, message, schedule, place, (0, len(schedule)))
        if (plugin := _plugin_of(kernel, schedule[slice(*place)])) is not None:
            hint = f"it is a step of the plug-in {plugin}: {plugins.OPTION} loads it"
            raise with_hint(refusal, hint) from None
        for note in getattr(error, "__notes__", ()):
            refusal.add_note(note)
        raise refusal from None


def _name_plugins(kernel: Kernel, running: str, module: ModuleOp) -> None:
    """States on a module which plug-ins bring the steps that the schedule of a kernel names."""
    names = {step.name for step in _steps_of(kernel)} | {running}
    owners = {name: plugins.PASSES.owner(name) for name in sorted(names)}
    brought = {name: StringAttr(owner.label) for name, owner in owners.items() if owner is not None}
    if brought:
        known = module.attributes.get(PLUGINS, DictionaryAttr({}))
        assert isinstance(known, DictionaryAttr)
        module.attributes[PLUGINS] = DictionaryAttr(dict(known.data) | brought)


def _plugin_of(kernel: Kernel, name: str) -> str | None:
    """The plug-in that brings a step, as the module of a kernel states it."""
    above = kernel.parent_op()
    while above is not None and above.parent_op() is not None:
        above = above.parent_op()
    stated = None if above is None else above.attributes.get(PLUGINS)
    found = stated.data.get(name) if isinstance(stated, DictionaryAttr) else None
    return found.data if isinstance(found, StringAttr) else None


def kernels_of(module: ModuleOp) -> list[Kernel]:
    """The kernels of a module that steps act on, in program order."""
    return [k for k in kernels_in(module, KernelSignature) if isinstance(k, Kernel)]


def ensure_schedule(kernel: loop.KernelOp, module: ModuleOp, choice: Choice | None = None) -> None:
    """
    Writes the schedule that was chosen, or the default one, on a kernel that has none, and remarks
    why it is chosen.
    """
    if kernel.schedule is not None:
        return
    choice = choice or choose_schedule(kernel, target_of(module))
    schedule, notes = _decided(kernel, choice.schedule, module)
    kernel.schedule = StringAttr(schedule)
    remark(CHOOSING, kernel.name_, f"gets {schedule}")
    remark(CHOOSING, kernel.name_, f"because {choice.reason}")
    for lost in choice.lost:
        remark(CHOOSING, kernel.name_, f"rather than {lost}")
    for note in notes:
        remark(CHOOSING, kernel.name_, note)


def _decided(kernel: loop.KernelOp, schedule: str, module: ModuleOp) -> tuple[str, list[str]]:
    """
    A schedule with all options decided and without open steps that decline, and what is to be said
    of these decisions. They are made on a copy of the kernel.
    """
    steps = parse_schedule(schedule)
    open_steps = {step.name for step in steps if step.is_open}
    if not open_steps:
        return schedule, []
    last = max(n for n, step in enumerate(steps) if step.is_open)
    with at_hints(kernel) as likely:
        copy = likely.clone()
    copy.schedule = StringAttr(schedule)
    trial = ModuleOp([copy], dict(module.attributes))

    def done() -> Kernel:
        return next(k for k in kernels_of(trial) if k.name_ == kernel.name_)

    with collect() as remarks:
        for step in steps[: last + 1]:
            type(step)().act(done(), trial)
    found = done().schedule
    assert found is not None
    texts = _texts(found.data)
    for step in parse_schedule(found.data):
        if step.is_open:
            del texts[step.name]
    trial.erase()
    notes = [
        f"rather than {r.pass_name}: {r.text.removeprefix(SKIPPED)}"
        if r.text.startswith(SKIPPED)
        else f"with {r.pass_name}: {r.text}"
        for r in remarks
        if r.kernel == kernel.name_ and r.pass_name in open_steps
    ]
    return ",".join(texts.values()), notes


def _texts(schedule: str) -> dict[str, str]:
    """The text of each step of a schedule, by its name."""
    return {name: schedule[start:end] for name, (start, end) in _spans(schedule).items()}


def _spans(schedule: str) -> dict[str, tuple[int, int]]:
    """Where the text of each step of a schedule begins and ends, by its name."""
    found: dict[str, tuple[int, int]] = {}
    pieces = registry.pieces(schedule)
    for step, (start, end) in zip(parse_schedule(schedule), pieces, strict=True):
        text = schedule[start:end]
        start += len(text) - len(text.lstrip())
        found[step.name] = start, start + len(text.strip())
    return found


def _note(step: SchedulingPass, name: str, schedule: str, module: ModuleOp) -> None:
    """States in a kernel's schedule the options that a step was done with."""
    if step in parse_schedule(schedule):
        return
    texts = _texts(schedule) | {step.name: str(step)}
    for kernel in kernels_of(module):
        if isinstance(kernel, tile.KernelOp) and kernel.name_ == name:
            kernel.schedule = StringAttr(
                ",".join(texts[n] for n in sorted(texts, key=scheduling_steps().__getitem__))
            )
