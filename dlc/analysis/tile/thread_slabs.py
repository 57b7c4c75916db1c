"""
The computed slabs of a chunk of a cascade that threads can hold in registers: each the rows that it
sums, and of these the keys that it deals with its neighbours in a warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.tile.cascade_slabs import connected_slabs, loads_outside, misread
from dlc.analysis.tile.thread_groups import lanes_of
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, THREAD
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.expr import Expr
from dlc.ir.monoid import POWERS
from dlc.target import WIDEST_ACCESS


@dataclass(frozen=True)
class ThreadSlabs:
    """What threads hold, each the same rows of all slabs."""

    slabs: tuple[tile.ComputeOp, ...]
    """In program order; of rows, or of rows and the keys of a chunk."""
    first: Expr
    """The first row of a thread, by the thread axes that number rows."""
    row: BlockArgument | None
    """The register axis along which a thread has rows; None if it has one."""
    member: BlockArgument
    """The thread axis that numbers the neighbours with parts of a row."""
    rows: int
    """Of a thread."""
    run: int
    """The neighbouring keys of a thread, which it loads and shares at once."""


def thread_slabs(launch: tile.LaunchOp) -> ThreadSlabs | str:
    """The slabs of a cascade's chunk that threads can hold, or the reason why they cannot."""
    slabs = connected_slabs(launch, _of_rows(launch))
    loads = [load for slab in slabs if len(slab.axes) == 1 for load in loads_outside(slab, slabs)]
    if not loads:
        return "no chunk has a slab with a value for each row that threads read"
    rows = {load.subscripts[0] for load in loads}
    if len(rows) > 1 or any(load.where for load in loads):
        return "values of rows are read for other rows than those of a thread"
    (subscript,) = rows
    registers = [axis for axis in subscript.values() if axis in launch.axes_of(REGISTER)]
    if len(registers) > 1:
        return "a thread has rows along several axes"
    row = next((axis for axis in launch.axes_of(REGISTER) if axis in registers), None)
    first = subscript if row is None else subscript - Expr.of(row)
    held = 1 if row is None else launch.extent(row)
    if not _numbers_rows(first, held, slabs[0].sizes[0], launch):
        return f"threads do not number the {slabs[0].sizes[0]} rows of the block by runs of {held}"
    others = [a for a in launch.axes_of(THREAD) if a not in first.values()]
    if len(others) != 1:
        return f"expected one thread axis along which rows are shared, found {len(others)}"
    (member,) = others
    count = launch.extent(member)
    if lanes_of(launch.axes_of(THREAD), others).count != count:
        return f"the {count} threads that share a row are not in one warp"
    run = 0
    for slab in slabs:
        if slab.sizes[0] != slabs[0].sizes[0] or len(slab.sizes) > 2:
            return f"{slab.result.name_hint} has other rows than those of the block"
        keys = prod(slab.sizes[1:])
        if len(slab.sizes) > 1 and keys % count:
            return f"{count} threads do not divide the {keys} keys of a chunk"
        if len(slab.sizes) > 1:
            size = element_bytes(slab.result_type.element_type)
            run = gcd(run, keys // count, WIDEST_ACCESS // size)
        if reason := misread(slab, slabs):
            return f"of {slab.result.name_hint}, {reason}"
    for slab in slabs:
        if len(slab.sizes) == 1 and (reason := _unfolded(slab, count * max(run, 1))):
            return f"of {slab.result.name_hint}, {reason}"
    return ThreadSlabs(tuple(slabs), first, row, member, held, max(run, 1))


def _unfolded(slab: tile.ComputeOp, dealt: int) -> str | None:
    """The reason why threads that have so many points of a row cannot fold its value, or None."""
    for reduce in slab.body.walk():
        if not isinstance(reduce, tile.ReduceOp):
            continue
        if reduce.parent is not slab.body.block:
            return "what is folded is summed itself, and has no slab (a larger budget gives it one)"
        if prod(reduce.all_extents) % dealt:
            return f"{dealt} points of all threads do not divide those of a row"
    return None


def _of_rows(launch: tile.LaunchOp) -> list[tile.ComputeOp]:
    """
    The slabs of which a chunk of a cascade is yielded as it is: a value for each row. Those of the
    only chunk stand before it.
    """
    found: list[tile.ComputeOp] = []
    for chunk in launch.walk():
        if not isinstance(chunk, ReduceOpBase) or chunk.monoid_name.data not in POWERS:
            continue
        for value in chunk.yielded.values:
            slab = value.owner.ref.owner if isinstance(value.owner, tile.LoadOp) else None
            within = chunk.body.block if chunk.axes else chunk.parent
            if isinstance(slab, tile.ComputeOp) and slab.parent is within:
                found.append(slab)
    return found


def _numbers_rows(first: Expr, held: int, rows: int, launch: tile.LaunchOp) -> bool:
    """True if thread axes number all rows of a block, each thread so many neighbours."""
    axes: list[SSAValue] = sorted(first.values(), key=lambda a: first.coefficient(a) or 0)
    for axis in axes:
        if axis not in launch.axes_of(THREAD) or first.coefficient(axis) != held:
            return False
        assert isinstance(axis, BlockArgument)
        held *= launch.extent(axis)
    return held == rows and not first.constant
