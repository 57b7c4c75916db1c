"""
How independent points are dealt over blocks and threads.

What is read along another axis than what is written, as by a transposition, is dealt in blocks of
both: each sector that a warp reads or writes is read or written as a whole by one instruction, so
that no copy in shared memory is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument

from dlc.dialects import loop
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of, strides_of
from dlc.schedule.rows import RUN, power_of_two
from dlc.target import BLOCK_THREADS, SECTOR_BYTES, WARP


def other_neighbours(outer: loop.ForOp) -> BlockArgument | None:
    """
    The axis, not the innermost, along which neighbours of what a loop loads or stores lie in
    memory and points along the innermost axis do not; of most bytes where there are several, None
    if there is none.
    """
    found: dict[BlockArgument, int] = {}
    for op in outer.body.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            type = op.ref.type
            assert isinstance(type, MemRefType)
            axis, size = _unit_axis(op, outer), element_bytes(type.element_type)
            if axis is not None and outer.hint(axis) > 1:
                found[axis] = found.get(axis, 0) + prod(shape_of(type)) * size
    return max(found, key=found.__getitem__, default=None)


def _unit_axis(op: loop.LoadOp | loop.StoreOp, outer: loop.ForOp) -> BlockArgument | None:
    """The axis, not the innermost, of which neighbouring points are neighbouring elements, if there
    is one and the innermost axis goes through others."""
    *others, last = outer.axes
    if step_along(op, last) in (0, 1, -1, None):
        return None
    return next((a for a in reversed(others) if step_along(op, a) in (1, -1)), None)


def step_along(op: loop.LoadOp | loop.StoreOp, axis: BlockArgument) -> int | None:
    """The elements from a point to the next one along an axis, None where they differ."""
    type, step = op.ref.type, 0
    assert isinstance(type, MemRefType)
    for subscript, stride in zip(op.subscripts, strides_of(type), strict=True):
        if (coefficient := subscript.coefficient(axis)) is None:
            return None
        step += coefficient * stride if coefficient else 0
    return step


def transposing(outer: loop.ForOp, across: BlockArgument, run: int) -> str:
    """
    Deals points over blocks of 256 threads, of which neighbours take a sector of neighbours along
    `across`, and a thread takes a run along the innermost axis.
    """
    size = min(_sizes(outer))
    columns = outer.hint(outer.axes[-1])
    run = run if columns >= run else 1
    down = max(SECTOR_BYTES // size, 1)
    lanes = min(max(WARP // down, 1), power_of_two(ceil(columns / run)))
    rows = min(BLOCK_THREADS // lanes, power_of_two(outer.hint(across)))
    lanes = min(BLOCK_THREADS // rows, power_of_two(ceil(columns / run)))
    between = ",1" * (len(outer.axes) - 2 - across.index)
    steps = [
        "tileify",
        f"blockify-launch{{block={rows}{between},{lanes * run} thread={rows}{between},{lanes}}}",
    ]
    return ",".join([*steps, f"register-tile{{extents={run}}}"] if run > 1 else steps)


def _sizes(outer: loop.ForOp) -> list[int]:
    """The bytes of the elements that a loop loads and stores."""
    refs = [op.ref for op in outer.body.walk() if isinstance(op, loop.LoadOp | loop.StoreOp)]
    types: list[Attribute] = [ref.type for ref in refs]
    return [element_bytes(t.element_type) for t in types if isinstance(t, MemRefType)]


def pointwise(extents: list[int], heavy: bool, run: int = RUN, apart: Sequence[str] = ()) -> str:
    """
    Deals the points over blocks of 256 threads; a thread takes a run of neighbouring points,
    unless a point is work enough (`heavy`). Of widths, the one with the fewest idle threads.
    `apart` is the step that takes long sums apart, if there are any.
    """
    if not extents:
        return ",".join(["tileify", *apart])
    columns = extents[-1]
    run = 1 if heavy or columns < RUN else run
    widest = min(BLOCK_THREADS, power_of_two(ceil(columns / run)))
    across = min(
        (n for n in (widest, widest // 2, widest // 4) if n >= min(widest, WARP)),
        key=lambda n: (ceil(columns / (n * run)) * n, -n),
    )
    down = min(BLOCK_THREADS // across, power_of_two(extents[-2])) if len(extents) > 1 else 1
    block = f"{down},{across * run}" if down > 1 else f"{across * run}"
    thread = f"{down},{across}" if down > 1 else f"{across}"
    steps = ["tileify", f"blockify-launch{{block={block} thread={thread}}}"]
    steps += apart
    if run > 1:
        steps.append(f"register-tile{{extents={run}}}")
    return ",".join(steps)
