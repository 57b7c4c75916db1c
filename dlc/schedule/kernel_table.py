"""The table that `dlc compile --explain` begins with: a row for each kernel, and what it costs."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects.kernel import LaunchOp
from dlc.dialects.loop import KernelOp
from dlc.ir.provenance import ops_of
from dlc.schedule.estimate import estimate
from dlc.target import Target
from dlc.text import counted, table

HEADER = ("kernel", "launches", "us", "MB", "MFLOP", "operations")
OPS = 8
"""The operations that a row names; how many more there are is said."""


def kernel_table(module: ModuleOp, target: Target) -> str:
    """
    For each kernel of the Loop IR how often it is launched and, for one launch, the microseconds
    and megabytes of memory traffic that are predicted, its arithmetic, and the operations of the
    program that it does; then the sum over all launches. Empty if there is no such kernel.
    """
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    if not kernels:
        return ""
    again = Counter(op.launched for op in module.walk() if isinstance(op, LaunchOp))
    rows: list[list[str]] = []
    launches, seconds = 0, 0.0
    for kernel in kernels:
        cost, times = estimate(kernel, target), 1 + again[kernel]
        launches, seconds = launches + times, seconds + times * cost.seconds
        size = (cost.seconds * 1e6, cost.memory_bytes / 1e6, cost.flops / 1e6)
        rows.append([kernel.name_, str(times), *map(_figure, size), _operations(kernel)])
    total = f"{counted(len(kernels), 'kernel')}, launched {counted(launches, 'time')}"
    return f"{table(HEADER, rows)}\n{total}: {_figure(seconds * 1e6)} us predicted on {target.name}"


def _operations(kernel: KernelOp) -> str:
    """The operations of a kernel, each once, with its count."""
    names = Counter(op.split(" ")[1].split(".")[0].strip("_") for op in ops_of(kernel))
    texts = [name if times == 1 else f"{times} {name}" for name, times in names.items()]
    more = [f"{len(texts) - OPS} more"] if len(texts) > OPS else []
    return ", ".join([*texts[:OPS], *more])


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"
