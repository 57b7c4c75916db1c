"""
What the options of a step may be for a kernel as scheduled so far, as its domains declare.

    found = step_choices(kernel, BlockifyLaunchPass, target)   # {"block": [(16, 64), …], …}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.dialects.size_binding import at_hints
from dlc.passes import Step, steps
from dlc.registry import get_pass
from dlc.target import Target, target_of
from dlc.transforms.step import (
    Decline,
    Misplaced,
    SchedulingPass,
    kernels_of,
    parse_schedule,
    written,
)
from dlc.transforms.step_space import Situation, Value

SHOWN = 40
"""Characters of the values of an option that are shown."""


def step_choices(
    kernel: tile.KernelOp, step: type[SchedulingPass], target: Target
) -> dict[str, list[Value]]:
    """
    The values that are worth a try for each option of a step that is about to run, those before it
    as the kernel's schedule states them, or else the first; nothing where the schedule does not
    name the step, or it has nothing to do.
    """
    schedule = "" if kernel.schedule is None else kernel.schedule.data
    stated = next((s for s in parse_schedule(schedule) if isinstance(s, step)), None)
    if stated is None:
        return {}
    found: dict[str, list[Value]] = {}
    given: dict[str, Value] = {}
    for name, domain in step.domains.items():
        try:
            values = domain.legal(Situation(kernel, target, given))
        except (Decline, Misplaced):
            return {}
        if not values:
            return {}
        found[name] = values
        own = getattr(stated, name)
        given[name] = values[0] if own is None else own
    return found


def options_after(module: ModuleOp, step: Step) -> Iterator[tuple[str, str]]:
    """For each kernel what the next step may do with it as text, if there is a choice."""
    order = steps()
    following = order[order.index(step) + 1 :][:1]
    cls = get_pass(following[0].pass_name) if following else None
    if cls is None or not issubclass(cls, SchedulingPass):
        return
    for kernel in kernels_of(module):
        if isinstance(kernel, tile.KernelOp):
            with at_hints(kernel) as likely:
                found = step_choices(likely, cls, target_of(module))
            parts = [
                f"{name} {_shown(values)}" for name, values in found.items() if len(values) > 1
            ]
            if parts:
                yield kernel.name_, f"{cls.name}: {'; '.join(parts)}"


def _shown(values: Sequence[Value]) -> str:
    """The first values, and how many there are."""
    shown: list[str] = []
    for value in values:
        text = "x".join(map(str, value)) if isinstance(value, tuple) else written(value)
        if sum(map(len, shown)) + len(text) > SHOWN:
            break
        shown.append(text)
    if len(shown) == len(values):
        return ", ".join(shown)
    return ", ".join([*shown, f"… {len(values)} values"])
