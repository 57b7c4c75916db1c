"""
How blocks take reduces over windows, as of pooling and of convolutions of one channel a group:
what windows share is fetched once, by the block or by the L1 cache.

The estimate and the schedule go by one plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.loop.contraction import contractions
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.schedule.contraction_tiles import outer_loop
from dlc.target import BLOCK_THREADS, LINE_BYTES, STATIC_SHARED_LIMIT, Target

MOST_POINTS = 256
"""Points of a window, at most; larger ones are rows."""
HELD = 4
"""The most points of a thread, one below the other."""
MOST_LOADS = 128
"""Loads of a thread that are written out; for larger windows it has one point."""
WIDTHS = (32, 64, 16, 128)
"""Neighbours of a block; the first of those that leave the fewest threads idle is taken."""
STAGED_READ, READ = 4, 6
"""Instructions of a thread for a point of a window: what it reads, from shared memory or from where
it is, whether it is there, the fold."""
STORED = 16
"""Instructions of a thread for its place and its result."""
COPIED = 36
"""Instructions for an element that is copied: its place, whether it is there, the copy (as nvcc
12 and 13 have it)."""


@dataclass(frozen=True)
class WindowPlan:
    """The shape of a block that reduces windows."""

    block: Mapping[BlockArgument, int]
    """The points of a block along the axes of the loop around; 1 along others."""
    threads: Mapping[BlockArgument, int]
    slab_bytes: int
    """Bytes of shared memory for what the windows of a block share; 0 where threads read what they
    need and the L1 cache has it for the others."""
    fetched_bytes: float
    """Bytes that all blocks fetch, from L2 where they share them."""
    stored_bytes: float
    issue_seconds: float
    """Seconds to issue the instructions of all threads, or to read what they need of an SM."""


def window_plan(kernel: loop.KernelOp, target: Target) -> WindowPlan | None:
    """The plan of a kernel that reduces windows and nothing else, None if its reduces are rows."""
    outer = outer_loop(kernel)
    if outer is None or not outer.axes:
        return None
    nests = [op for op in outer.body.block.ops if isinstance(op, AxesOp)]
    if len(nests) != 1 or not isinstance(reduce := nests[0], loop.ReduceOp) or not reduce.axes:
        return None
    flat = not any(isinstance(op, AxesOp) for op in reduce.body.walk())
    taps = prod(map(reduce.hint, reduce.axes))
    if not flat or not 0 < taps <= MOST_POINTS or contractions(kernel):
        return None
    loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
    across, sliding = outer.axes[-1], _sliding(outer, reduce, loads)
    points = prod(map(outer.hint, outer.axes))
    many = len(reduce.axes) > 1 and points >= target.sms * BLOCK_THREADS
    if not sliding and not many:
        return None
    block = _block(outer, across, sliding)
    sizes: dict[SSAValue, int] = {**block, **{a: reduce.hint(a) for a in reduce.axes}}
    slabs = {op: _points(op, sizes) for op in _distinct(loads)}
    shared = sum(n * element_bytes(op.result.type) for op, n in slabs.items())
    blocks = prod(ceil(outer.hint(a) / block.get(a, 1)) for a in outer.axes)
    size = prod(block.values())
    lanes = target.schedulers
    # In clocks of an SM, for the points of a warp.
    staged = taps * STAGED_READ + STORED + COPIED * sum(slabs.values()) / size
    held = min(HELD, max(size // BLOCK_THREADS, 1))
    # What is the same at all points of a thread is read once for them.
    often = {op: 1 if _walks(op, outer.axes) else 1 / held for op in loads}
    lines = sum(n * _lines(op, across, target) for op, n in often.items())
    read = max((taps * READ * sum(often.values()) + STORED) / lanes, taps * lines)
    stages = bool(sliding) and shared <= STATIC_SHARED_LIMIT and staged / lanes < read
    if not stages:
        held = held if taps * len(loads) * held <= MOST_LOADS else 1
        block |= {a: n * held * BLOCK_THREADS // size for a, n in block.items() if a is not across}
        blocks, size = blocks * size // prod(block.values()), prod(block.values())
    threads = {a: n if a is across else n // held for a, n in block.items()}
    written = [op for op in kernel.walk() if isinstance(op, loop.StoreOp)]
    stored = sum(prod(shape_of(op.ref)) * element_bytes(op.value.type) for op in written)
    clocks = blocks * size / target.warp * (staged / lanes if stages else read)
    return WindowPlan(
        block,
        threads,
        shared if stages else 0,
        blocks * shared,
        stored,
        clocks / target.sms / target.clock,
    )


def _walks(op: loop.LoadOp, axes: Sequence[BlockArgument]) -> bool:
    """True if a load differs along the last of some axes."""
    return any(s.coefficient(axes[-1]) != 0 for s in op.subscripts)


def _lines(op: loop.LoadOp, across: BlockArgument, target: Target) -> float:
    """The lines of the L1 cache that a warp of neighbours reads at once."""
    step = next((abs(c) for s in reversed(op.subscripts) if (c := s.coefficient(across))), 0)
    bytes = step * target.warp * element_bytes(op.result.type)
    return min(bytes / LINE_BYTES + 1, target.warp)


def _sliding(
    outer: loop.ForOp, reduce: loop.ReduceOp, loads: Sequence[loop.LoadOp]
) -> list[BlockArgument]:
    """The axes along which the windows of neighbours overlap."""
    found: list[BlockArgument] = []
    for axis in outer.axes:
        for op in loads:
            for s in op.subscripts:
                step = abs(s.coefficient(axis) or 0)
                reach = sum(abs(s.coefficient(a) or 0) * (reduce.hint(a) - 1) for a in reduce.axes)
                if 0 < step <= reach and axis not in found:
                    found.append(axis)
    return found


def _block(
    outer: loop.ForOp, across: BlockArgument, sliding: Sequence[BlockArgument]
) -> dict[BlockArgument, int]:
    """
    The points of a block: neighbours along the innermost axis, and so many of the longest other
    axis along which windows overlap, if there is one, that all threads have several.
    """
    extent = outer.hint(across)
    width = min(WIDTHS, key=lambda n: -(-extent // n) * n)
    others = [a for a in outer.axes[:-1] if a in sliding] or [*outer.axes[:-1]]
    if not others:
        return {across: BLOCK_THREADS}
    down = max(others[::-1], key=outer.hint)
    rows = BLOCK_THREADS * HELD // width
    while rows > 1 and rows >= 2 * outer.hint(down):
        rows //= 2
    return {down: rows, across: width}


def _distinct(loads: Sequence[loop.LoadOp]) -> list[loop.LoadOp]:
    """One load of each memref."""
    return [*{op.ref: op for op in loads}.values()]


def _points(op: loop.LoadOp, sizes: Mapping[SSAValue, int]) -> int:
    """The elements that a block loads."""
    return prod(
        1 + sum(abs(s.coefficient(a) or 0) * (n - 1) for a, n in sizes.items())
        for s in op.subscripts
    )
