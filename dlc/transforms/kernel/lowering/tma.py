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

Where rings have a producer, thread 0 of a warpgroup more asks instead, in a loop of its own, and
all other threads do the rest:

```
scf.if %t >= 256 {
  kernel.set_max_registers 168 to 40                      // if it keeps 40
  scf.if %t < 257 { scf.for %chunk … { wait for %empty, ask } }
} else {
  kernel.set_max_registers 168 to 232
  …
}
```

No barrier of the block stands in the loop. Where there are no more chunks than slots, nothing is
released.

Of a ring that several blocks of a cluster hold alike, each requests a part for all of them. A
slot is free once the warps of all those blocks have released it: lane n tells the nth.

```
kernel.cluster_barrier                                   // mbarriers are initialized
…
  kernel.tma_multicast %B_map[…] -> %B_ring[%slot, %rank * 64, 0], %full[%slot] from [0] to [0, 1]
…
scf.if %t mod 32 < 2 { kernel.mbarrier_arrive_at %empty[%slot], block %t mod 32 }
…
kernel.cluster_barrier                                   // nobody arrives at who has ended
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.rings import is_idle, rings_by_loop
from dlc.analysis.tile.tma_rings import (
    loop_obstacle,
    part_dim,
    ring_box,
    ring_obstacle,
    row_dim,
    slot_obstacle,
)
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.layouts import SwizzleAttr
from dlc.dialects.ring_ops import TMA
from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.target import WARP
from dlc.transforms.kernel.lowering.stage_lowering import Pipeline, StageLowering


def make_tensor_map(to: StageLowering, ring: tile.RingOp) -> None:
    """Inserts the tensor map of a ring; the first one initializes the mbarriers of all."""
    if obstacle := ring_obstacle(to.source, ring) or slot_obstacle(ring):
        fail(ring, f"the tensor memory accelerator cannot fill this ring: {obstacle}")
    layout = ring.ring_type.layout
    swizzle = layout.bytes.data if isinstance(layout, SwizzleAttr) else None
    map = kernel.TensorMapOp(ring.slab.source, ring_box(ring), swizzle)
    to.tensor_maps[ring] = to.insert(map, f"{ring.slab.source.name_hint}_map")
    if not to.pipelines:
        _start_pipelines(to)


def _start_pipelines(to: StageLowering) -> None:
    pipelines: list[Pipeline] = []
    for loop, rings in rings_by_loop(to.source).items():
        if all(ring.fill_kind != TMA for ring in rings):
            continue
        obstacle = loop_obstacle(loop, rings)
        if any(ring.fill_kind != TMA for ring in rings):
            obstacle = "other rings of its loop are not filled by it"
        if loop is None or obstacle:
            fail(rings[0], f"the tensor memory accelerator cannot fill this ring: {obstacle}")
        depth = rings[0].depth
        full = _mbarriers(to, depth, "full")
        again = rings[0].chunks * to.turns.count > depth
        empty = _mbarriers(to, depth, "empty") if again else None
        pipeline = Pipeline(loop, tuple(rings), full, empty)
        pipelines.append(pipeline)
        to.pipelines.update(dict.fromkeys(rings, pipeline))
    warps = -(-to.consumers // WARP)
    with to.only_if(_first_thread(to)):
        for pipeline in pipelines:
            with to.loop(pipeline.rings[0].depth, "slot", unroll=True) as slot:
                to.builder.insert(kernel.MbarrierInitOp(pipeline.full, slot, 1))
                if pipeline.empty is not None:
                    releases = warps * (1 + sum(count - 1 for count, _ in pipeline.groups))
                    to.builder.insert(kernel.MbarrierInitOp(pipeline.empty, slot, releases))
        to.builder.insert(kernel.FenceMbarrierInitOp())
    if to.cluster > 1:
        to.builder.insert(kernel.ClusterBarrierOp())


def end_cluster(to: StageLowering) -> None:
    """Has no block end before the others of its cluster have arrived at its mbarriers."""
    end = to.body.last_op
    if to.cluster > 1 and end is not None:
        to.before(end)
        to.builder.insert(kernel.ClusterBarrierOp())


def _mbarriers(to: StageLowering, count: int, name: str) -> SSAValue:
    return to.insert(kernel.AllocMbarriersOp(count), name)


def _first_thread(to: StageLowering) -> list[Expr]:
    return simplify_where([Expr() - to.thread_id])


def lower_fill(to: StageLowering, op: tile.FillOp) -> None:
    """Inserts the request of a chunk for all rings of a loop, at the first of their fills."""
    pipeline = to.pipelines[op.source]
    run = to.runs[op]
    if run[0] is not op or is_idle(op) or op.source.has_producer:
        return
    if {fill.source for fill in run} != set(pipeline.rings):
        fail(op, "expected the fills of a chunk to stand together, one for each ring of its loop")
    chunk = to.expr(op.chunk)
    where = [*_first_thread(to), Expr((), op.source.chunks - 1) - chunk]
    _request(to, pipeline, chunk, where, chunk)


def _request(
    to: StageLowering, pipeline: Pipeline, chunk: Expr, where: list[Expr], number: Expr
) -> None:
    """
    Inserts the request of a chunk for all rings of a loop, once its slot is free; `number` says
    which it is of all that a block requests.
    """
    depth = pipeline.rings[0].depth
    with to.only_if(simplify_where([*where, *to.conditions_at(pipeline.loop, chunk)])):
        slot = to.slot(number, depth)
        if pipeline.empty is not None and most(number) >= depth:
            parity = (number // depth + 1) % 2
            to.builder.insert(kernel.MbarrierWaitOp(pipeline.empty, slot, parity))
        loads = [load for ring in pipeline.rings for load in _loads(to, ring, chunk, slot)]
        total = sum(load.map_op.box_bytes * _requests(load) for load in loads)
        to.builder.insert(kernel.MbarrierExpectTxOp(pipeline.full, slot, total))
        for load in loads:
            to.builder.insert(load)


def separate_producer(to: StageLowering) -> None:
    """
    Has a warpgroup request the chunks of all loops, if rings say so, and the others do all else,
    once buffers and mbarriers are there.
    """
    pipelines = [p for p in dict.fromkeys(to.pipelines.values()) if p.rings[0].has_producer]
    if not pipelines:
        return
    _fold_without_producer(to)
    ops = [op for op in to.body.ops if op not in (to.turns.loop, to.body.last_op)]
    last = max(number for number, op in enumerate(ops) if _sets_up(op))
    rest, number = ops[last + 1 :], Expr((), to.consumers)
    to.before(rest[0])
    kept = max(pipeline.rings[0].kept_registers for pipeline in pipelines)
    with to.either(to.insert(kernel.TestOp([to.thread_id - number]))) as other:
        _set_registers(to, kept)
        with to.only_if([number - to.thread_id]), to.turns.each(computes=False) as turn:
            for pipeline in pipelines:
                chunks = pipeline.rings[0].chunks
                with to.loop(chunks, "chunk", unroll=False) as index:
                    chunk = Expr.of(index)
                    _request(to, pipeline, chunk, [], turn * chunks + chunk)
        other()
        _set_registers(to, kept and to.target.registers_beside(to.threads, kept))
        with to.turns.each(computes=True):
            for op in rest:
                op.detach()
                to.builder.insert(op)
    to.turns.finish()


def _fold_without_producer(to: StageLowering) -> None:
    """
    Has those that compute meet the other blocks of a cluster which fold what they hold: producers
    end before. The buffers of that are there before the loops.
    """
    start = InsertPoint.at_start(to.body)
    for op in list(to.body.ops):
        match op:
            case kernel.MapClusterOp():
                alloc = op.source.owner
                assert isinstance(alloc, Operation)
                for moved in (alloc, op):
                    moved.detach()
                Rewriter.insert_op([alloc, op], start)
            case kernel.ClusterBarrierOp() if to.cluster == 1:
                op.threads = IntegerAttr(to.consumers, i64)
            case _:
                pass


def _set_registers(to: StageLowering, count: int) -> None:
    """Has a thread so many registers, if any."""
    if count:
        entry = to.target.entry_registers(to.threads)
        to.builder.insert(kernel.SetMaxRegistersOp(entry, count))


def _sets_up(op: Operation) -> bool:
    """True for what defines a buffer, mbarriers or a tensor map, or initializes mbarriers."""
    defines = kernel.AllocSharedOp | kernel.AllocMbarriersOp | kernel.TensorMapOp
    orders = kernel.FenceMbarrierInitOp | kernel.ClusterBarrierOp
    found = (o for o in op.walk() if isinstance(o, defines | orders))
    return any(not isinstance(o, kernel.ClusterBarrierOp) or o.threads is None for o in found)


def _requests(load: TmaLoadOpBase) -> int:
    """How many blocks request a part of what a block gets, as it does."""
    return len(load.offsets) if isinstance(load, kernel.TmaMulticastOp) else 1


def _loads(to: StageLowering, ring: tile.RingOp, chunk: Expr, slot: Expr) -> list[TmaLoadOpBase]:
    """
    The requests of a chunk's slab, or of the block's part of it: one, or one for each panel of a
    swizzled slab.
    """
    base = to.exprs(ring.slab.subscripts, {ring.chunk: chunk})
    sizes, pipeline = ring.slab.slab_sizes, to.pipelines[ring]
    inner, box, (count, apart) = row_dim(ring), ring_box(ring), ring.multicast
    first, part = _place(to.rank, count, apart)

    def load(column: int) -> TmaLoadOpBase:
        place = [Expr((), column if d == inner else 0) for d in range(len(sizes))]
        if count > 1 and (dim := part_dim(ring)) is not None:
            place[dim] = part * box[dim]
        coordinates = [b + p for b, p in zip(base, place, strict=True)]
        target = [slot, *(p for p, size in zip(place, sizes, strict=True) if size != 1)]
        map, buffer = to.tensor_maps[ring], to.buffers[ring]
        if count == 1:
            return kernel.TmaLoadOp(map, coordinates, buffer, target, pipeline.full, slot)
        blocks = [apart * n for n in range(count)]
        return kernel.TmaMulticastOp(
            map, coordinates, buffer, target, pipeline.full, slot, first, blocks
        )

    return [load(column) for column in range(0, sizes[inner], box[inner])]


def _place(rank: Expr, count: int, apart: int) -> tuple[Expr, Expr]:
    """
    The first of so many blocks of a cluster, so far apart, of which one is of a rank, and which of
    them that is.
    """
    group = count * apart
    return rank // group * group + rank % apart, rank // apart % count


def lower_acquire(to: StageLowering, op: tile.AcquireOp) -> None:
    """Inserts the wait for a chunk, at the first of neighbouring acquires."""
    pipeline = to.pipelines[op.source]
    if to.runs[op][0] is op:
        depth, chunk = op.source.depth, to.number(op.source, to.expr(op.chunk))
        parity = (chunk // depth) % 2
        to.builder.insert(kernel.MbarrierWaitOp(pipeline.full, to.slot(chunk, depth), parity))


def lower_release(to: StageLowering, op: tile.ReleaseOp) -> None:
    """
    Inserts the arrival of each warp, in all blocks that write the slot, at the last release of a
    chunk in the loop.
    """
    pipeline = to.pipelines[op.source]
    if pipeline.empty is None:
        return
    later = op.next_op
    while later is not None:
        if isinstance(later, tile.ReleaseOp) and later.source in pipeline.rings:
            return
        later = later.next_op
    if to.threads > 1:
        to.builder.insert(kernel.SyncWarpOp())
    number, lane = to.number(op.source, to.expr(op.chunk)), to.thread_id % WARP
    depth, there = op.source.depth, simplify_where([number])
    slot = to.slot(number + depth if there else number, depth)
    if not pipeline.groups:
        with to.only_if(simplify_where([*there, Expr() - lane])):
            to.builder.insert(kernel.MbarrierArriveOp(pipeline.empty, slot))
    for number, (count, apart) in enumerate(pipeline.groups):
        first, part = _place(to.rank, count, apart)
        others = number > 0  # the block itself is the first group's
        member = (lane + (part + 1 if others else 0)) % count
        with to.only_if([*there, Expr((), count - 1 - others) - lane]):
            peer = to.insert(kernel.IndexOp(first + member * apart), "peer")
            to.builder.insert(kernel.MbarrierArriveAtOp(pipeline.empty, slot, peer))
