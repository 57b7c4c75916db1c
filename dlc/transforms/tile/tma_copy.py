"""The tensor memory accelerator copies to rings, at the request of one thread."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp, StridedLayoutAttr, StringAttr

from dlc.analysis.tile.rings import rings_by_loop
from dlc.analysis.tile.tma_rings import loop_obstacle, ring_obstacle
from dlc.dialects import tile
from dlc.dialects.layouts import SwizzleAttr, strides_of
from dlc.dialects.ring_ops import TMA
from dlc.target import TMA_ALIGNMENT
from dlc.transforms.step import Decline, SchedulingPass


@dataclass(frozen=True)
class TmaCopyPass(SchedulingPass):
    """
    The rings of a K loop are filled by the tensor memory accelerator.

    *Legal when* the chip has one, and for a loop that is entered once and all of whose rings copy
    boxes that the accelerator can copy: from an address and with strides of multiples of 16 bytes,
    the innermost stride 1, at most 5 dimensions and 256 elements along each, rows of a multiple of
    16 bytes. Elements beyond the source are 0, as before.
    *Faster because* one thread asks for a whole slab: the others compute no addresses, and no
    registers or barriers of the block stand between a copy and its use.

    ```
    %A_ring = tile.ring %A(%n in 128)[%bi * 128, %n * 16] [128, 16] : …
    ```
    becomes
    ```
    %A_ring = tile.ring tma %A(%n in 128)[%bi * 128, %n * 16] [128, 16] : …
    ```

    Slots begin at multiples of 128 bytes; smaller ones are set apart by the ring's layout.

    Default schedules name it where warpgroups multiply matrices (`register-tile{mma=m64n128k16}`).
    Elsewhere what it saves, instructions, is little beside fp32 arithmetic, and its boxes take no
    padding; schedules such as
    `double-buffer{depth=3},tma-copy,split-inner-for-swizzle,pipeline-k-outer` use it.
    """

    name = "tma-copy"
    needs = ("tma",)

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        loops = rings_by_loop(kernel.launch)
        if not loops:
            raise Decline("it has no ring (double-buffer makes them)")
        obstacles = {loop: _obstacle(kernel, loop, rings) for loop, rings in loops.items()}
        fit = [ring for loop, rings in loops.items() if not obstacles[loop] for ring in rings]
        reasons = [reason for reason in obstacles.values() if reason]
        if not fit:
            raise Decline("; ".join(reasons))
        for ring in fit:
            _fill_by_tma(ring)
        boxes = [f"{_name(ring)} in boxes of {_sizes(ring)}" for ring in fit]
        return "; ".join([", ".join(boxes), *(f"not all rings, {reason}" for reason in reasons)])


def _obstacle(
    kernel: tile.KernelOp, loop: tile.ReduceOp | None, rings: list[tile.RingOp]
) -> str | None:
    """The reason why the accelerator cannot fill all rings of a loop, or None."""
    if any(ring.fill_kind is not None for ring in rings):
        return "its rings are filled asynchronously already"
    if obstacle := loop_obstacle(loop, rings):
        return obstacle
    for ring in rings:
        if obstacle := ring_obstacle(kernel, ring):
            return f"{_name(ring)}: {obstacle}"
    return None


def _name(ring: tile.RingOp) -> str:
    return ring.slab.source.name_hint or "its source"


def _sizes(ring: tile.RingOp) -> str:
    return " x ".join(map(str, ring.slab.slab_sizes))


def _fill_by_tma(ring: tile.RingOp) -> None:
    ring.kind = StringAttr(TMA)
    strides = list(strides_of(ring.ring_type))
    unit = TMA_ALIGNMENT // ring.element_bytes
    if not isinstance(ring.ring_type.layout, SwizzleAttr) and strides[0] % unit:
        strides[0] = -(-prod(ring.slab.slab_sizes) // unit) * unit
        ring.set_layout(StridedLayoutAttr(strides))
