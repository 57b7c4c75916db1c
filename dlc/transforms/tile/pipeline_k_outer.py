"""Chunks are requested ahead of their use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.rings import loop_of
from dlc.analysis.tile.skips import can_skip
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL
from dlc.dialects.register_counts import KEPT, set_obstacle
from dlc.dialects.ring_ops import PRODUCER, REGISTERS, TMA
from dlc.ir.expr import Expr
from dlc.ir.variance import variance
from dlc.registry import OptionError
from dlc.target import Target, target_of
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_space import Domain, Situation
from dlc.transforms.tile.staging.producer_obstacles import (
    A_PRODUCER,
    is_by_warpgroup,
    is_computed_with,
    is_loop,
    no_alternation,
    no_boxes,
    no_producer,
    no_registers,
    not_resident,
)


@dataclass(frozen=True)
class PipelineKOuterPass(SchedulingPass):
    """
    The K-outer loop requests chunks ahead: with rings of depth d, the first d - 1 before the loop,
    then in every iteration the one d - 1 ahead, before this one is computed.

    *Legal when* rings have two slots at least and stand outside of the loop, and the launch has no
    serial axis left: a chunk's slot was released one iteration before it is filled again, and at
    the acquire in between all threads have come past that release.
    *Faster because* a copy's latency passes while chunks are computed. What threads copy themselves
    for the loop alone, as the rows of attention, they copy once the first chunks are requested.

    ```
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      tile.fill %A_ring[%ko]
      %As = tile.acquire %A_ring[%ko] : …
      …
    ```
    becomes, at depth 3,
    ```
    tile.fill %A_ring[0]
    tile.fill %A_ring[1]
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      %As = tile.acquire %A_ring[%ko] : …
      tile.fill %A_ring[%ko + 2]
      …
    ```

    With `products=1`, what a warpgroup multiplies in an iteration need not be summed before the end
    of the next one (`pending 1`): tensor cores are busy while threads wait for copies, meet and ask
    for others. A chunk's slot is in use for one iteration more, and released an iteration later:
    chunks are requested d - 2 ahead. That takes rings of three slots at least, and points that
    `register-tile` has dealt to warpgroups. Beside `producer=1`, tensor cores need not wait for
    warps that release a slot. Where an iteration computes of what it multiplies and multiplies
    again, as that of attention does, the first products of the next iteration are requested ahead
    of that, by `producer=1`, and are in flight meanwhile. No default asks for it before a GPU has
    shown that it is right.

    With `producer=1`, of rings that TMA fills, the loop stays as it is, and the rings get a
    producer: a warpgroup more in the block, which computes no points, requests each chunk as soon
    as its slot is free. No thread that computes waits for a slot. That takes a launch whose threads
    are whole warpgroups, and that meet beside at the rings in warps only, or as blocks of a cluster
    that fold what they hold, which the producer has left; what is staged before the loop, all
    threads copy before they part. Where TMA cannot fill them, as rows of 100 halves, 200
    bytes, do not begin at multiples of 16 bytes, there is no producer: threads fill them, and
    request chunks ahead.

    With `registers=40` beside it, the producer's threads keep so many registers and give the others
    up (`setmaxnreg`); those that compute share these out, so that they have room for more sums: of
    384 threads, which begin with 168 registers each, 256 get 232. The block has an SM for itself.
    That takes a block that does not leave each thread as many as it can have anyway.

    With `resident=1` beside it, there are no more blocks than one for each SM (with 2, two), which
    work through those that there would be, in their order: while the ones that compute store a
    tile's results, the producer requests the first chunks of the next. Each has as many chunks: a
    split of K in parts of different lengths is refused.

    With `turns=1` beside it, the warpgroups that compute take turns at the tensor cores (`launch
    in_turns`), where an iteration multiplies, computes of the sums and multiplies again, as that of
    attention does: one has them for its last products and the first of its next iteration while
    another computes. Warpgroups that are left to themselves may all multiply at once, and then all
    compute. That takes two of them at least.
    """

    name = "pipeline-k-outer"

    products: int = 0
    """Iterations, 0 or 1, whose products by warpgroups may be in flight at the end of the next."""

    producer: int = 0
    """Warpgroups, 0 or 1, that request chunks and compute no points."""

    registers: int = 0
    """Registers, a multiple of 8, that a thread of the producer keeps; 0 if none gives any up."""

    resident: int = 0
    """Blocks for each SM, of which each does the work of several; 0 for all that there are."""

    turns: int = 0
    """1 if warpgroups take turns at the products of an iteration."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "products": Domain((0, 1), least=0, most=1, narrowed=lambda s: _in_flight(s)),
        "producer": Domain((0, 1), least=0, most=1, narrowed=lambda s: _producers(s)),
        "registers": Domain((0, KEPT), least=0, narrowed=lambda s: _kept(s)),
        "resident": Domain((0, 1, 2), least=0, narrowed=lambda s: _residents(s)),
        "turns": Domain((0, 1), least=0, most=1, narrowed=lambda s: _turns(s)),
    }

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        fills = [op for op in launch.walk() if isinstance(op, tile.FillOp)]
        if not fills:
            raise Decline("it has no ring (double-buffer makes them)")
        if launch.axes_of(SERIAL):
            raise Decline("its loops start again at each serial point (register-tile first)")
        loops: dict[tile.ReduceOp, list[tile.FillOp]] = {}
        for fill in fills:
            loop = loop_of(fill.source)
            if loop is not None and fill.parent_op() is loop and fill.chunk == _iteration(loop):
                loops.setdefault(loop, []).append(fill)
        if not loops:
            raise Decline("no loop requests the chunk that it is about to use")
        if any(fill.source.parent_op() is loop for loop, own in loops.items() for fill in own):
            raise Decline("its ring stands inside of its loop")
        if any(fill.source.depth < 2 for fills in loops.values() for fill in fills):
            raise Decline("a ring of one slot holds no second chunk")
        products = [op for loop in loops for op in loop.walk() if is_by_warpgroup(op)]
        rings = dict.fromkeys(fill.source for own in loops.values() for fill in own)
        unable = no_boxes(kernel, list(rings)) if self.producer else ""
        if self.products:
            own = [fill for own in loops.values() for fill in own]
            self._check_products(kernel.launch, products, own)
        if self.producer and not unable:
            told = self._give_producer(kernel, list(loops), list(rings), target_of(module))
            _put_in_flight(list(loops), products, self.products)
            return told
        if self.registers and not self.producer:
            raise OptionError("registers", "no producer keeps registers", A_PRODUCER)
        if self.resident and not self.producer:
            raise OptionError("resident", "no producer requests what comes next", A_PRODUCER)
        if self.turns and not self.producer:
            raise OptionError("turns", "threads of all warpgroups meet for copies", A_PRODUCER)
        for loop, own in loops.items():
            _pipeline(loop, own, self.products)
        _put_in_flight(list(loops), products, self.products)
        in_use = 1 + self.products
        ahead = sorted({fill.source.depth - in_use for fills in loops.values() for fill in fills})
        alone = f", without a producer: {unable}" if unable else ""
        return f"chunks are requested {' or '.join(map(str, ahead))} ahead{alone}"

    def _give_producer(
        self,
        kernel: tile.KernelOp,
        loops: Sequence[tile.ReduceOp],
        rings: Sequence[tile.RingOp],
        target: Target,
    ) -> str:
        launch = kernel.launch
        if self.registers:
            self._check_registers(launch, target)
        self._check_producer(launch, target)
        if self.resident and (obstacle := not_resident(launch, loops)):
            raise OptionError("resident", obstacle)
        if self.turns and (obstacle := no_alternation(launch, loops)):
            raise OptionError("turns", obstacle)
        resident = self._make_resident(launch, target)
        for ring in rings:
            ring.attributes[PRODUCER] = UnitAttr()
            if self.registers:
                ring.attributes[REGISTERS] = IntegerAttr(self.registers, i64)
        kept = f", and keeps {self.registers} registers a thread" if self.registers else ""
        how = "as soon as slots are free"
        made = f"chunks are requested by a warpgroup of their own, {how}{kept}"
        if self.turns:
            launch.in_turns = UnitAttr()
            made += "; warpgroups multiply in turns"
        return made + resident

    def _make_resident(self, launch: tile.LaunchOp, target: Target) -> str:
        """
        Has no more blocks run than are resident, if so; what is said of it. OptionError if no
        cluster of them can be.
        """
        cluster = launch.cluster_size
        blocks, limit = _blocks(launch), self.resident * target.sms
        if cluster > 1:
            limit = cluster * target.clusters_at_once(cluster, self.resident)
        if not self.resident or blocks <= limit:
            return ""
        if not limit:
            parts = f"no part of {target.name} has SMs for a cluster of {cluster} blocks"
            hint = "leave resident out, or take smaller clusters"
            raise OptionError("resident", f"{parts}, {self.resident} on each", hint)
        launch.resident = IntegerAttr(limit, i64)
        return f"; {limit} blocks do the work of {blocks}"

    def _check_registers(self, launch: tile.LaunchOp, target: Target) -> None:
        """OptionError if a producer cannot keep so many registers, or others get no more."""
        if not target.has("setmaxnreg"):
            raise OptionError("registers", target.lacking("setmaxnreg"))
        if obstacle := set_obstacle(self.registers):
            raise OptionError("registers", f"expected {obstacle}, found {self.registers}")
        if obstacle := no_registers(launch, self.registers, target):
            raise OptionError("registers", obstacle)

    def _check_producer(self, launch: tile.LaunchOp, target: Target) -> None:
        """OptionError if a producer cannot request all chunks while the others do all else."""
        hint: str | None = None
        if obstacle := no_producer(launch, target):
            hint = "take tma-copy" if "TMA" in obstacle else None
            raise OptionError("producer", obstacle, hint)

    def _check_products(
        self,
        launch: tile.LaunchOp,
        products: Sequence[tile.ReduceOp],
        fills: Sequence[tile.FillOp],
    ) -> None:
        """OptionError if products cannot be in flight while the next ones are requested."""
        if not products:
            message = "no warpgroup multiplies matrices in its loops"
            raise OptionError("products", message, "register-tile{mma=m64n128k16} makes them")
        if any(op.has_own_sums for op in products):
            message = "what is summed apart is added before the next products are requested"
            raise OptionError("products", message, "leave products out, or apart")
        if any(map(is_computed_with, products)):
            if obstacle := _not_ahead(launch, fills, self):
                raise OptionError("products", obstacle, "leave products out")
        elif any(fill.source.depth < 2 + self.products for fill in fills):
            message = "a ring of two slots holds no chunk beside the two that products read"
            raise OptionError("products", message, "take double-buffer{depth=3} or more")


def _not_ahead(
    launch: tile.LaunchOp, fills: Sequence[tile.FillOp], given: PipelineKOuterPass
) -> str:
    """The reason why the first products of an iteration cannot be requested in the one before."""
    if not given.producer or any(fill.source.fill_kind != TMA for fill in fills):
        return "an iteration computes of what it multiplies, and all threads meet for the next"
    if given.turns:
        return "warpgroups that take turns request no products ahead"
    loops, along = {loop_of(fill.source) for fill in fills}, variance(launch)
    if any(loop and loop.is_size(*loop.axes_of(SERIAL)) for loop in loops):
        return "its loop is as long as a size, and products of such are not requested ahead"
    if any(loop and (loop.skips is not None or can_skip(loop, along)) for loop in loops):
        return "its loop skips chunks, and products of those are not requested ahead"
    return ""


def _turns(s: Situation) -> tuple[int, ...]:
    """Whether warpgroups take turns: worth a try where they can."""
    launch = s.kernel.launch
    loops = [o for o in launch.body.block.ops if is_loop(o)]
    alone = not s.given.get("producer") or s.given.get("resident")
    return (0,) if alone or no_alternation(launch, loops) else (0, 1)


def _blocks(launch: tile.LaunchOp) -> int:
    return prod(launch.extent(a) for a in launch.axes_of(BLOCK))


def _residents(s: Situation) -> tuple[int, ...]:
    """Blocks for each SM: worth a try where there are more, and a producer."""
    launch = s.kernel.launch
    rings = [o for o in launch.walk() if isinstance(o, tile.RingOp)]
    loops = [loop for loop in map(loop_of, rings) if loop is not None]
    if not s.given.get("producer") or not_resident(launch, loops):
        return (0,)
    return (0, *(n for n in (1, 2) if n * s.target.sms < _blocks(launch)))


def _producers(s: Situation) -> tuple[int, ...]:
    """Whether a producer requests chunks: worth a try where one can."""
    return (0,) if no_producer(s.kernel.launch, s.target) else (0, 1)


def _kept(s: Situation) -> tuple[int, ...]:
    """Whether a producer gives registers up: worth a try where others get more."""
    if not s.given.get("producer") or not s.target.has("setmaxnreg"):
        return (0,)
    return (0,) if no_registers(s.kernel.launch, KEPT, s.target) else (0, KEPT)


def _in_flight(s: Situation) -> tuple[int, ...]:
    """
    Whether products may be in flight: worth a try where warpgroups multiply what threads copy; by
    TMA, only a GPU's time says.
    """
    ops = list(s.kernel.launch.walk())
    rings = [op for op in ops if isinstance(op, tile.RingOp)]
    fit = rings and all(ring.fill_kind != TMA and ring.depth > 2 for ring in rings)
    products = [op for op in ops if is_by_warpgroup(op)]
    own = any(op.has_own_sums or is_computed_with(op) for op in products)
    return (0, 1) if fit and products and not own else (0,)


def _iteration(loop: tile.ReduceOp) -> Expr:
    """The number of the iteration."""
    (axis,) = loop.axes_of(SERIAL)
    return Expr.of(axis)


def _request(ring: tile.RingOp, chunk: Expr | int) -> tile.FillOp:
    fill = tile.FillOp(ring.result, chunk)
    fill.location = ring.location
    return fill


def _put_in_flight(
    loops: Sequence[tile.ReduceOp], products: Sequence[tile.ReduceOp], count: int
) -> None:
    """
    Lets products of so many iterations be in flight; slots are released when they no longer are.
    """
    if not count:
        return
    ahead = [op for op in products if is_computed_with(op)]
    for op in ahead or products:
        op.pending = IntegerAttr(count, i64)
    for loop in () if ahead else loops:
        for release in [op for op in loop.body.block.ops if isinstance(op, tile.ReleaseOp)]:
            later = tile.ReleaseOp(release.ring, release.chunk - count)
            later.location = release.location
            Rewriter.replace_op(release, later, [])


def _pipeline(loop: tile.ReduceOp, fills: list[tile.FillOp], products: int) -> None:
    """Moves the first requests before the loop, the others behind its acquires."""
    rings, in_use = [fill.source for fill in fills], 1 + products
    for ahead in range(max(ring.depth for ring in rings) - in_use):
        early = [r for r in rings if ahead < min(r.depth - in_use, r.most_chunks)]
        prologue = [_request(ring, ahead) for ring in early]
        Rewriter.insert_op(prologue, InsertPoint.before(loop))
    _stage_after_requests(loop)
    acquires = [op for op in loop.body.block.ops if isinstance(op, tile.AcquireOp)]
    late = [ring for ring in rings if ring.depth - in_use < ring.most_chunks]
    requests = [_request(ring, _iteration(loop) + (ring.depth - in_use)) for ring in late]
    Rewriter.insert_op(requests, InsertPoint.after(acquires[-1]))
    for fill in fills:
        Rewriter.erase_op(fill)


def _stage_after_requests(loop: tile.ReduceOp) -> None:
    """
    Has threads copy what they copy themselves, for a loop alone, once its first chunks are
    requested: both are then waited for at the same time.
    """
    assert loop.parent is not None
    for op in [op for op in loop.parent.ops if isinstance(op, tile.StageOp)]:
        users = [loop.parent.find_ancestor_op_in_block(use.operation) for use in op.result.uses]
        if not op.is_async and op.is_before_in_block(loop) and set(users) == {loop}:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(loop))
