"""
How rings are filled by the tensor memory accelerator.

Thread 0 asks for the chunks of all rings of a loop, once every warp has released the slot's chunk
before; all threads wait until they have arrived:

```
scf.if %t < 1 {                                          // fill of chunk %k + 2
  kernel.mbarrier_wait %empty[%slot], parity ((%k + 2) floordiv 3 + 1) mod 2
  kernel.mbarrier_expect_tx %full[%slot], 16384
  kernel.tma_load %A_map[…] -> %A_ring[%slot, 0, 0], %full[%slot]
  kernel.tma_load %B_map[…] -> %B_ring[%slot, 0, 0], %full[%slot]
}
kernel.mbarrier_wait %full[%slot], parity (%k floordiv 3) mod 2          // acquire of chunk %k
…
kernel.sync_warp                                                         // release of chunk %k
scf.if %t mod 32 < 1 { kernel.mbarrier_arrive %empty[%slot] }
```

No barrier of the block stands in the loop. Where there are no more chunks than slots, nothing is
released.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from dlc.analysis.tile.rings import is_idle, rings_by_loop, run_of
from dlc.analysis.tile.tma_rings import loop_obstacle, ring_box, ring_obstacle, slot_obstacle
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.access import simplify_where
from dlc.dialects.layouts import SwizzleAttr
from dlc.dialects.ring_ops import TMA
from dlc.ir.expr import Expr
from dlc.target import WARP
from dlc.transforms.kernel.materialization.emitter import Emitter, Pipeline
from dlc.transforms.kernel.materialization.reduction import conditions_at


def emit_tensor_map(e: Emitter, ring: tile.RingOp) -> None:
    """Emits the tensor map of a ring; the first one initializes the mbarriers of all."""
    if obstacle := ring_obstacle(e.source, ring) or slot_obstacle(ring):
        fail(ring, f"the tensor memory accelerator cannot fill this ring: {obstacle}")
    layout = ring.ring_type.layout
    swizzle = layout.bytes.data if isinstance(layout, SwizzleAttr) else None
    map = kernel.TensorMapOp(e.scalars[ring.slab.source], ring_box(ring), swizzle)
    map.result.name_hint = f"{ring.slab.source.name_hint}_map"
    e.insert_at_top(map)
    e.tensor_maps[ring] = map.result
    if not e.pipelines:
        _start_pipelines(e)


def _start_pipelines(e: Emitter) -> None:
    pipelines: list[Pipeline] = []
    for loop, rings in rings_by_loop(e.source).items():
        if all(ring.fill_kind != TMA for ring in rings):
            continue
        obstacle = loop_obstacle(loop, rings)
        if any(ring.fill_kind != TMA for ring in rings):
            obstacle = "other rings of its loop are not filled by it"
        if loop is None or obstacle:
            fail(rings[0], f"the tensor memory accelerator cannot fill this ring: {obstacle}")
        depth = rings[0].depth
        full = _mbarriers(e, depth, "full")
        empty = _mbarriers(e, depth, "empty") if rings[0].chunks > depth else None
        pipeline = Pipeline(loop, tuple(rings), full, empty)
        pipelines.append(pipeline)
        e.pipelines.update(dict.fromkeys(rings, pipeline))
    warps = -(-e.threads // WARP)
    with e.only_if(_first_thread(e)):
        for pipeline in pipelines:
            with e.loop(pipeline.rings[0].depth, "slot", unroll=True) as slot:
                e.builder.insert(kernel.MbarrierInitOp(pipeline.full, slot, 1))
                if pipeline.empty is not None:
                    e.builder.insert(kernel.MbarrierInitOp(pipeline.empty, slot, warps))
        e.builder.insert(kernel.FenceMbarrierInitOp())


def _mbarriers(e: Emitter, count: int, name: str) -> SSAValue:
    alloc = kernel.AllocMbarriersOp(count)
    alloc.result.name_hint = name
    e.insert_at_top(alloc)
    return alloc.result


def _first_thread(e: Emitter) -> list[Expr]:
    return simplify_where([Expr() - e.thread_id])


def emit_request(e: Emitter, op: tile.FillOp) -> None:
    """Emits the request of a chunk for all rings of a loop, at the first of their fills."""
    pipeline = e.pipelines[op.source]
    run = run_of(op)
    if run[0] is not op or is_idle(op):
        return
    if {fill.source for fill in run} != set(pipeline.rings):
        fail(op, "expected the fills of a chunk to stand together, one for each ring of its loop")
    depth, chunk = op.source.depth, e.expr(op.chunk)
    where = [*_first_thread(e), Expr((), op.source.chunks - 1) - chunk]
    with e.only_if(simplify_where([*where, *conditions_at(e, pipeline.loop, chunk)])):
        slot = e.slot(chunk, depth)
        if pipeline.empty is not None and chunk.range[1] >= depth:
            parity = (chunk // depth + 1) % 2
            e.builder.insert(kernel.MbarrierWaitOp(pipeline.empty, slot, parity))
        loads = [load for ring in pipeline.rings for load in _loads(e, ring, chunk, slot)]
        total = sum(load.map_op.box_bytes for load in loads)
        e.builder.insert(kernel.MbarrierExpectTxOp(pipeline.full, slot, total))
        for load in loads:
            e.builder.insert(load)


def _loads(e: Emitter, ring: tile.RingOp, chunk: Expr, slot: Expr) -> Sequence[kernel.TmaLoadOp]:
    """The requests of a chunk's slab: one, or one for each panel of a swizzled slab."""
    base = e.exprs(ring.slab.subscripts, {ring.chunk: chunk})
    sizes, pipeline = ring.slab.slab_sizes, e.pipelines[ring]
    width = ring_box(ring)[-1]

    def load(column: int) -> kernel.TmaLoadOp:
        place = [Expr()] * (len(sizes) - 1) + [Expr((), column)]
        coordinates = [b + p for b, p in zip(base, place, strict=True)]
        target = [p for p, size in zip(place, sizes, strict=True) if size != 1]
        return kernel.TmaLoadOp(
            e.tensor_maps[ring], coordinates, e.scalars[ring.result], [slot, *target],
            pipeline.full, slot,
        )  # fmt: skip

    return [load(column) for column in range(0, sizes[-1], width)]


def emit_wait(e: Emitter, op: tile.AcquireOp) -> None:
    """Emits the wait for a chunk, at the first of neighbouring acquires."""
    pipeline = e.pipelines[op.source]
    if run_of(op)[0] is op:
        depth, chunk = op.source.depth, e.expr(op.chunk)
        parity = (chunk // depth) % 2
        e.builder.insert(kernel.MbarrierWaitOp(pipeline.full, e.slot(chunk, depth), parity))


def emit_release(e: Emitter, op: tile.ReleaseOp) -> None:
    """Emits the arrival of each warp, at the last release of a chunk in the loop."""
    pipeline = e.pipelines[op.source]
    if pipeline.empty is None:
        return
    later = op.next_op
    while later is not None:
        if isinstance(later, tile.ReleaseOp) and later.source in pipeline.rings:
            return
        later = later.next_op
    if e.threads > 1:
        e.builder.insert(kernel.SyncWarpOp())
    slot = e.slot(e.expr(op.chunk), op.source.depth)
    with e.only_if(simplify_where([Expr() - e.thread_id % WARP])):
        e.builder.insert(kernel.MbarrierArriveOp(pipeline.empty, slot))
