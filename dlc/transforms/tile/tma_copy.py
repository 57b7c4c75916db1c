"""The tensor memory accelerator copies to rings, and stores results, at requests of one thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StridedLayoutAttr, StringAttr, i64

from dlc.analysis.tile.launch_boxes import box_count, store_obstacle
from dlc.analysis.tile.rings import rings_by_loop
from dlc.analysis.tile.tile_state import tile_state
from dlc.analysis.tile.tma_rings import loop_obstacle, ring_obstacle
from dlc.dialects import tile
from dlc.dialects.layouts import SwizzleAttr, strides_of
from dlc.dialects.ring_ops import TMA
from dlc.registry import OptionError
from dlc.target import TMA_ALIGNMENT, target_of
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_options import divisors
from dlc.transforms.step_space import Domain, Situation, Value


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

    With `store=2`, results of tensor cores are stored by it, too: a warp writes 16 rows, as wide as
    a swizzle has place for, to shared memory, where it has room for two such boxes; one of its
    lanes has them stored while the warp writes the next ones. What only such a box needs is loaded
    and computed where it is written. It is *legal* under the same conditions on what is stored to.
    It is *faster because* whole sectors are written, of which a lane's two neighbours are an
    eighth, threads compute no addresses and no conditions, and hold little beside their sums.
    ```
    tile.store %v, %y[%i * 64 + …, %rj * 8 + …] where (%i * 64 + … < 100) : memref<100x256xbf16>
    ```
    becomes
    ```
    tile.store %v, %y[%i * 64 + …, %rj * 8 + …] where (%i * 64 + … < 100) boxes 2 : …
    ```

    Default schedules name it where warpgroups multiply matrices (`register-tile{mma=m64n128k16}`).
    Elsewhere what it saves, instructions, is little beside fp32 arithmetic, and its boxes take no
    padding; schedules such as
    `double-buffer{depth=3},tma-copy,split-inner-for-swizzle,pipeline-k-outer` use it.
    """

    name = "tma-copy"
    needs = ("tma",)

    store: int = 0
    """Boxes of results for which a warp has room, of which the accelerator stores one while another
    is written; with 0, threads store by themselves."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "store": Domain((0, 1, 2), least=0, narrowed=lambda s: _stores_tried(s)),
    }

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        done: list[str] = []
        declined: list[str] = []
        parts = [_fill_rings] if self.store == 0 else [_fill_rings, self._store]
        for part in parts:
            try:
                done.append(part(kernel, module))
            except Decline as reason:
                declined.append(str(reason))
        if not done:
            raise Decline("; ".join(declined))
        return "; ".join(done + declined)

    def _store(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        """Has the accelerator store results, those that it can."""
        stores = [op for op in kernel.launch.walk() if isinstance(op, tile.StoreOp)]
        obstacles = {op: store_obstacle(kernel.launch, op) for op in stores}
        reasons = [
            f"{_stored(op)} is not stored by it: {why}" for op, why in obstacles.items() if why
        ]
        fit = [op for op in stores if not obstacles[op]]
        if not fit:
            raise Decline("; ".join(reasons) or "it stores nothing")
        for op in fit:
            count = box_count(kernel.launch, op)
            if count % self.store:
                message = f"room for {self.store} does not divide the {count} boxes of a warp"
                raise OptionError("store", message, divisors(count))
            op.boxes = IntegerAttr(self.store, i64)
        need, limit = tile_state(kernel.launch).shared_bytes, target_of(module).shared_per_block
        if need > limit:
            message = f"{need} B > {limit} B of shared memory with room for {self.store} in a warp"
            raise OptionError("store", message, "take less, or fewer slots of rings")
        return "; ".join([*(f"{_stored(op)} is stored by it" for op in fit), *reasons])


def _fill_rings(kernel: tile.KernelOp, module: ModuleOp) -> str:
    """Has the accelerator fill rings, those that it can."""
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


def _stored(op: tile.StoreOp) -> str:
    return op.ref.name_hint or "a result"


def _stores_tried(s: Situation) -> tuple[Value, ...]:
    """Room for some boxes where all stores are of boxes, and so many divide those of a warp."""
    launch = s.kernel.launch
    stores = [op for op in launch.walk() if isinstance(op, tile.StoreOp)]
    if not stores or any(store_obstacle(launch, op) for op in stores):
        return (0,)
    return 0, *(n for n in (1, 2) if all(box_count(launch, op) % n == 0 for op in stores))


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
