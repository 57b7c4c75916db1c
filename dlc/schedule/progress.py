"""
How far the schedules of kernels in Tile IR were run by hand.

A schedule says what makes a kernel's Tile IR. Where `dlc-opt -p tileify,blockify-launch{…}` runs
some of its steps, `until` on the kernel names the last of these, and steps that were passed over
leave the schedule. What comes next may be run from there; if the kernel goes on to Kernel IR
instead, its schedule is the part that was run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc import registry
from dlc.dialects import loop, tile
from dlc.dialects.kernel_op import KernelSignature, kernels_in
from dlc.passes import steps

UNTIL = "until"


def begun(module: ModuleOp) -> dict[str, str | None]:
    """
    The last step that ran on each kernel that is not done; None for one in Loop IR. Tile IR that
    does not say so is done.
    """
    found: dict[str, str | None] = {}
    for kernel in kernels_in(module, KernelSignature):
        if isinstance(kernel, loop.KernelOp):
            found[kernel.name_] = None
        elif isinstance(kernel, tile.KernelOp) and (until := _until(kernel)) is not None:
            found[kernel.name_] = until
    return found


def note_progress(
    module: ModuleOp, before: Mapping[str, str | None], passes: Sequence[str]
) -> None:
    """States how far kernels are, once these passes ran on kernels that were so far before."""
    order = _order()
    ran = [name for name in passes if name in order]
    if not ran:
        return
    last = max(ran, key=order.__getitem__)
    for kernel in kernels_in(module, tile.KernelOp):
        if kernel.name_ not in before or kernel.schedule is None:
            continue
        texts, start = _texts(kernel.schedule.data), before[kernel.name_]
        begin = -1 if start is None else order.get(start, -1)
        kept = {
            name: text
            for name, text in texts.items()
            if name in ran or not begin < order[name] < order[last]
        }
        kernel.schedule = StringAttr(",".join(kept.values()))
        kernel.attributes.pop(UNTIL, None)
        if any(order[name] > order[last] for name in kept):
            kernel.attributes[UNTIL] = StringAttr(last)


def steps_left(kernel: tile.KernelOp) -> list[str]:
    """The steps of a kernel's schedule that have not run."""
    if (until := _until(kernel)) is None or kernel.schedule is None:
        return []
    order = _order()
    return [n for n in _texts(kernel.schedule.data) if order[n] > order.get(until, len(order))]


def schedule_as_run(kernel: tile.KernelOp) -> str | None:
    """The part of a kernel's schedule that has run: what its Tile IR is made by."""
    if kernel.schedule is None:
        return None
    left: Collection[str] = steps_left(kernel)
    if not left:
        return kernel.schedule.data
    texts = _texts(kernel.schedule.data)
    return ",".join(text for name, text in texts.items() if name not in left)


def _order() -> dict[str, int]:
    names = [step.pass_name for step in steps() if step.is_scheduling]
    return {name: number for number, name in enumerate(names)}


def _texts(schedule: str) -> dict[str, str]:
    """The text of each step of a schedule, by its name."""
    texts = (schedule[start:end].strip() for start, end in registry.pieces(schedule))
    return {text.partition("{")[0].strip(): text for text in texts}


def _until(kernel: tile.KernelOp) -> str | None:
    stated = kernel.attributes.get(UNTIL)
    return stated.data if isinstance(stated, StringAttr) else None
