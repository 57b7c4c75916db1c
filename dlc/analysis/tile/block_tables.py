"""The tables in which blocks add up what they add at places that are data."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import MemRefType, i32

from dlc.dialects import tile
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.layouts import shape_of, span_bytes
from dlc.dialects.tile_stores import number_of, points_of_block


def tables_of(launch: tile.LaunchOp) -> list[tile.AtomicAddOp]:
    """The additions that a block makes in a table of its own."""
    ops = (op for op in launch.walk() if isinstance(op, tile.AtomicAddOp))
    return [op for op in ops if op.in_block is not None]


def table_type(op: tile.AtomicAddOp) -> MemRefType:
    """An element for each of the output, row by row."""
    return memref_type(i32, (prod(shape_of(op.ref.type)),))


def table_bytes(launch: tile.LaunchOp) -> int:
    """The shared memory of all tables of a block, in bytes."""
    return sum(span_bytes(table_type(op)) for op in tables_of(launch))


def table_obstacle(op: tile.AtomicAddOp, free: int) -> str | None:
    """The reason why a block cannot add up in so many free bytes what an addition adds, or None."""
    shape = shape_of(op.ref.type)
    if not all(isinstance(n, int) for n in shape):
        return "its table is as large as a size"
    if op.value.type != i32:
        points = points_of_block(op)
        if points is None or abs(number_of(op.value)) * points >= 2**31:
            return "what a block adds up may not fit into 32 bits, and shared memory adds no more"
    if prod(shape) * 4 > free:
        return f"its table of {prod(shape) * 4:,} bytes does not fit into {free:,}"
    return None
