"""The table that `dlc compile --explain` begins with: a row for each kernel, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region

from dlc.analysis.once import once_in
from dlc.dialects import flow, host_flow, tile
from dlc.dialects.kernel import LaunchOp
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.dialects.size import symbols_around
from dlc.ir.provenance import ops_of
from dlc.ir.sizes import Size
from dlc.schedule.estimate import estimate
from dlc.target import Target
from dlc.text import counted, table

HEADER = ("kernel", "launches", "us", "MB", "MFLOP", "operations")
FLOW_HEADER = ("control flow", "turns", "launches")
OPS = 8
"""The operations that a row names; how many more there are is said."""


def kernel_table(module: ModuleOp, target: Target) -> str:
    """
    For each kernel of the Loop IR how often it is launched and, for one launch, the microseconds
    and megabytes of memory traffic that are predicted, its arithmetic, and the operations of the
    program that it does; then the sum over the launches of a call, without what is computed once
    for all calls, and what control flow does. Empty if there is no such kernel. A while counts as
    one turn, and an if as both of its bodies.
    """
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    if not kernels:
        return ""
    again, once = _launched_again(module), once_in(module)
    rows: list[list[str]] = []
    launches, seconds = 0, 0.0
    for kernel in kernels:
        cost, times = estimate(kernel, target), turns_around(kernel) + again[kernel]
        size = (cost.seconds * 1e6, cost.memory_bytes / 1e6, cost.flops / 1e6)
        often = "once" if kernel in once else str(times)
        rows.append([kernel.name_, often, *map(_figure, size), _operations(kernel)])
        if kernel not in once:
            launches, seconds = launches + times, seconds + times * cost.seconds
    total = f"{counted(len(kernels), 'kernel')}, launched {counted(launches, 'time')}"
    total += f": {_figure(seconds * 1e6)} us predicted on {target.name}"
    bodies = [[_name(op), _turns(op), _inside(op)] for op in module.walk() if _is_flow(op)]
    more = ["", table(FLOW_HEADER, bodies)] if bodies else []
    return "\n".join([table(HEADER, rows), total, *more])


def combining_kernels(module: ModuleOp, named: Collection[str]) -> str:
    """
    How many kernels of the Tile IR combine what others computed in parts: those that are not among
    `named`, the kernels of the Loop IR; empty if none does.
    """
    again, kernels = _launched_again(module), list(kernels_in(module, tile.KernelOp))
    more = sum(kernel.name_ not in named for kernel in kernels)
    if not more:
        return ""
    launches = sum(turns_around(kernel) + again[kernel] for kernel in kernels)
    verb = "combines" if more == 1 else "combine"
    return f"{counted(more, 'kernel')} more {verb} what is split: {launches} launches in all"


def launches_in(module: ModuleOp) -> int:
    """How often kernels of the Kernel IR are launched."""
    return sum(turns_around(op) for op in module.walk() if isinstance(op, LaunchOp))


def joined_launches(apart: int, joined: int) -> str:
    """How many launches there are where some do what several did; empty if none does."""
    if joined == apart:
        return ""
    return f"what reads the same runs in one launch: {counted(joined, 'launch')} instead of {apart}"


def _launched_again(module: ModuleOp) -> Counter[object]:
    """How often each kernel is launched beside where it stands."""
    again: Counter[object] = Counter()
    for op in module.walk():
        if isinstance(op, LaunchOp):
            again[op.launched] += turns_around(op)
    return again


FOR = (flow.ForOp, host_flow.ForOp)


def turns_around(op: Operation) -> int:
    """How often an operation runs, as far as the lengths of loops tell: sizes as is likely."""
    parent = op.parent_op()
    if parent is None:
        return 1
    turns = parent.trips if isinstance(parent, FOR) else 1
    if isinstance(turns, Size):
        known = symbols_around(parent)
        turns = turns.evaluate({name: known[name].likely for name in turns.names})
    return turns_around(parent) * turns


def _is_flow(op: Operation) -> bool:
    return isinstance(op, flow.FLOW)


def _name(op: Operation) -> str:
    names = [value.name_hint for value in op.results if value.name_hint]
    return names[0] if names else op.name


def _turns(op: Operation) -> str:
    match op:
        case flow.ForOp():
            return counted(op.trips, "turn")
        case flow.WhileOp():
            return "turns until data says so"
        case _:
            return "one of two bodies, as data says"


def _inside(op: Operation) -> str:
    counts = [sum(_launches(region)) for region in op.regions]
    return " or ".join(map(str, counts)) if isinstance(op, flow.IfOp) else f"{sum(counts)} a turn"


def _launches(region: Region) -> Iterator[int]:
    """The launches in a body, those in loops inside of it as often as they take turns."""
    last = region.block.last_op
    around = 1 if last is None else turns_around(last)
    for op in region.walk():
        if isinstance(op, KernelOp | LaunchOp):
            yield turns_around(op) // max(around, 1)


def _operations(kernel: KernelOp) -> str:
    """The operations of a kernel, each once, with its count."""
    names = Counter(op.split(" ")[1].split(".")[0].strip("_") for op in ops_of(kernel))
    texts = [name if times == 1 else f"{times} {name}" for name, times in names.items()]
    more = [f"{len(texts) - OPS} more"] if len(texts) > OPS else []
    return ", ".join([*texts[:OPS], *more])


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"
