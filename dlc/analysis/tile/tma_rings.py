"""The rings that the tensor memory accelerator can fill, and the boxes that it copies."""

from __future__ import annotations

from math import prod

from dlc.analysis.kernel.tensor_maps import tma_obstacle
from dlc.dialects import tile
from dlc.dialects.axes import SERIAL, AxesOp
from dlc.dialects.kernel_op import KernelSignature
from dlc.dialects.kernel_tma import holds_box, map_dims
from dlc.dialects.layouts import PERIOD, SwizzleAttr, shape_of, strides_of
from dlc.ir.bounds import within
from dlc.target import TMA_ALIGNMENT


def loop_obstacle(loop: tile.ReduceOp | None, rings: list[tile.RingOp]) -> str | None:
    """
    The reason why the accelerator cannot fill rings that a loop works through; None if it can.
    Slots and phases are counted by the loop's axis, so it must not be entered twice.
    """
    if loop is None:
        return "no single loop acquires and releases chunk after chunk"
    around = loop.parent_op()
    if isinstance(around, tile.LaunchOp | tile.ForOp) and around.axes_of(SERIAL):
        return "its loop would be entered again at each serial point (register-tile first)"
    if not isinstance(around, tile.LaunchOp | tile.ForOp) or isinstance(around.parent_op(), AxesOp):
        return "its loop stands in another one and would be entered again"
    if any(ring.parent_op() is not around for ring in rings):
        return "its ring stands inside of its loop"
    if len({(ring.depth, ring.chunks) for ring in rings}) != 1:
        return "its rings have different numbers of slots or chunks"
    return None


def row_dim(ring: tile.RingOp) -> int:
    """The dimension along which a ring's slab has rows: the last that a slot has, not of size 1."""
    sizes = ring.slab.slab_sizes
    return max((d for d, size in enumerate(sizes) if size != 1), default=len(sizes) - 1)


def part_dim(ring: tile.RingOp) -> int | None:
    """The dimension whose runs of rows follow each other in a slot; None for a slab of one row."""
    sizes = ring.slab.slab_sizes
    return next((d for d in range(row_dim(ring)) if sizes[d] != 1), None)


def part_obstacle(ring: tile.RingOp, count: int) -> str | None:
    """The reason why so many blocks cannot request a part of a ring's slab each; None if so."""
    dim, sizes = part_dim(ring), ring.slab.slab_sizes
    if dim is None or sizes[dim] % count:
        rows = 1 if dim is None else sizes[dim]
        return f"{count} blocks do not divide {rows} row{'s' * (rows > 1)}"
    rows = sizes[dim] // count
    if isinstance(ring.ring_type.layout, SwizzleAttr):
        return f"its swizzle repeats every {PERIOD} rows, not {rows}" if rows % PERIOD else None
    part = prod(sizes) // count * ring.element_bytes
    if part % TMA_ALIGNMENT:
        return f"a part of {part} bytes is no multiple of {TMA_ALIGNMENT}"
    return None


def ring_box(ring: tile.RingOp) -> tuple[int, ...]:
    """
    The box of a ring's tensor map: its slab, or a panel of it where the ring is swizzled, or what
    one of several blocks requests of it.
    """
    sizes, layout = list(ring.slab.slab_sizes), ring.ring_type.layout
    if (count := ring.multicast[0]) > 1 and (dim := part_dim(ring)) is not None:
        sizes[dim] //= count
    if isinstance(layout, SwizzleAttr):
        sizes[row_dim(ring)] = layout.bytes.data // ring.element_bytes
    return tuple(sizes)


def ring_obstacle(kernel: KernelSignature, ring: tile.RingOp) -> str | None:
    """The reason why the accelerator cannot copy a ring's slabs from their source, or None."""
    slab = ring.slab
    if not slab.slab_sizes:
        return "expected at least one dimension, found none"
    if slab.steps is not None:
        return f"expected all elements of a box, found steps of {list(slab.slab_steps)}"
    alignment = kernel.alignment(slab.source)
    if obstacle := tma_obstacle(slab.source_type, ring_box(ring), alignment, slab.subscripts):
        return obstacle
    layout, box = ring.ring_type.layout, [n for n in ring_box(ring) if n != 1]
    swizzle = layout.bytes.data if isinstance(layout, SwizzleAttr) else 0
    if not holds_box(ring.ring_type, box, swizzle):
        return f"expected slots without padding, found {ring.ring_type}"
    dims = map_dims(shape_of(slab.source_type), ring_box(ring))
    for d, subscript in enumerate(slab.subscripts):
        if d not in dims and within(subscript, 1):
            return f"expected subscript 0 along dimension {d}, which has one element"
    return None


def slot_obstacle(ring: tile.RingOp) -> str | None:
    """The reason why the accelerator cannot write the slots of a ring where they lie, or None."""
    distance = strides_of(ring.ring_type)[0] * ring.element_bytes
    if ring.depth > 1 and distance % TMA_ALIGNMENT:
        return f"expected slots a multiple of {TMA_ALIGNMENT} bytes apart, found {distance} bytes"
    return None
