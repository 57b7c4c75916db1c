"""The tensor memory accelerator copies to rings, and stores results, at requests of one thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    StridedLayoutAttr,
    StringAttr,
    i64,
)
from xdsl.ir import BlockArgument

from dlc.analysis.tile.cluster_rings import launch_obstacle, shared_axis
from dlc.analysis.tile.launch_boxes import box_count, store_obstacle
from dlc.analysis.tile.rings import rings_by_loop
from dlc.analysis.tile.tile_state import tile_state
from dlc.analysis.tile.tma_rings import loop_obstacle, ring_obstacle
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK
from dlc.dialects.cluster_checks import blocks_along
from dlc.dialects.layouts import SwizzleAttr, strides_of
from dlc.dialects.ring_ops import MULTICAST, TMA
from dlc.ir.expr import Expr
from dlc.ir.sizes import ceildiv
from dlc.registry import OptionError
from dlc.target import MAX_CLUSTER, TMA_ALIGNMENT, target_of
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_options import by_name, divisors
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

    With `multicast=1,2`, of the second ring each chunk is requested by two blocks, neighbours along
    an axis along which it is the same: they are a cluster and run at the same time, and each
    requests half of the rows, which are written to the shared memory of both. Where the number of
    blocks is odd there is one that has no points. It is *legal* for slabs whose parts lie one
    behind the other, and for blocks that work through the same chunks and fold nothing together. It
    is *faster because* so much less is read of L2.
    ```
    tile.launch block(%bi in 22, %bj in 16) … { %B_ring = tile.ring tma %B(%n in 64)[%bj * 256, …]
    ```
    becomes
    ```
    tile.launch cluster 2 block(%bi in 11, %bj in 16, %bii in 2) … {
      %B_ring = tile.ring tma %B(%n in 64)[%bj * 256, …] … {multicast = array<i64: 2, 1>}
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

    multicast: tuple[int, ...] = (1,)
    """Blocks that request a chunk together, of each ring in order; one number stands for all."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "store": Domain((0, 1, 2), least=0, narrowed=lambda s: _stores_tried(s)),
        "multicast": Domain(
            (1, 2, 4), least=1, most=MAX_CLUSTER, narrowed=lambda s: _clusters_tried(s)
        ),
    }

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        done: list[str] = []
        declined: list[str] = []
        parts = [_fill_rings]
        parts += [self._multicast] if any(n > 1 for n in self.multicast) else []
        parts += [self._store] if self.store else []
        for part in parts:
            try:
                done.append(part(kernel, module))
            except Decline as reason:
                declined.append(str(reason))
        if not done:
            raise Decline("; ".join(declined))
        return "; ".join(done + declined)

    def _multicast(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        """Has blocks that are neighbours request for each other what they read alike."""
        launch, target = kernel.launch, target_of(module)
        if not target.has("multicast"):
            raise OptionError("multicast", target.lacking("multicast"))
        named = [(_name(op), op) for op in launch.walk() if isinstance(op, tile.RingOp)]
        asked = by_name(named, "ring", (), self.multicast, ("multicast", "multicast"))
        if obstacle := launch_obstacle(launch):
            raise Decline(f"its blocks request nothing for each other: {obstacle}")
        found: dict[tile.RingOp, BlockArgument] = {}
        taken: dict[BlockArgument, int] = {}
        reasons: list[str] = []
        for ring, count in asked.items():
            if count == 1:
                continue
            axis = shared_axis(launch, ring, count, taken)
            if isinstance(axis, str):
                reasons.append(f"{_name(ring)} {axis}")
            else:
                found[ring], taken[axis] = axis, count
        if not found:
            raise Decline("; ".join(reasons))
        _make_cluster(launch, found, taken)
        done = [f"{_name(ring)} is requested by {taken[axis]}" for ring, axis in found.items()]
        return "; ".join([f"in clusters of {launch.cluster_size}, {', '.join(done)}", *reasons])

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


def _make_cluster(
    launch: tile.LaunchOp,
    rings: Mapping[tile.RingOp, BlockArgument],
    counts: Mapping[BlockArgument, int],
) -> None:
    """Makes so many neighbours along block axes a cluster, and has them share rings."""
    kept = {axis: keep(axis, launch) for axis in launch.axes if axis not in counts}
    outer, inner = dict[BlockArgument, Axis](), dict[BlockArgument, Axis]()
    for axis, count in counts.items():
        name, extent = axis.name_hint or "b", ceildiv(launch.extent(axis), count)
        outer[axis], inner[axis] = Axis(name, extent, BLOCK), Axis(f"{name}i", count, BLOCK)
    blocks = [outer[axis] if axis in outer else kept[axis] for axis in launch.axes_of(BLOCK)]
    rest = [own for axis, own in kept.items() if launch.kind(axis) != BLOCK]

    def meaning(at: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        found = {axis: at[own] for axis, own in kept.items()}
        return found | {a: at[outer[a]] * n + at[inner[a]] for a, n in counts.items()}

    made = replace_axes(launch, [*blocks, *inner.values(), *rest], meaning)
    launch.cluster = IntegerAttr(prod(counts.values()), i64)
    numbers = blocks_along(launch, [made[axis] for axis in inner.values()])
    for ring, axis in rings.items():
        count_and_step = list(numbers[made[inner[axis]]])
        ring.attributes[MULTICAST] = DenseArrayBase.from_list(i64, count_and_step)


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


def _clusters_tried(s: Situation) -> Iterator[Value]:
    """None, or two blocks for one of the rings that can be shared, or for all."""
    yield (1,)
    launch = s.kernel.launch
    if not s.target.has("multicast") or launch_obstacle(launch):
        return
    rings = [op for op in launch.walk() if isinstance(op, tile.RingOp)]
    fit = [not isinstance(shared_axis(launch, ring, 2, {}), str) for ring in rings]
    for n in range(len(rings)):
        if fit[n]:
            yield tuple(2 if n == m else 1 for m in range(len(rings)))
    if sum(fit) > 1:
        yield tuple(2 if one else 1 for one in fit)


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
