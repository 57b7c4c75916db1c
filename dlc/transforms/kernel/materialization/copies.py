"""How stages and rings become copies into shared memory, by all threads of the block together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from xdsl.ir import SSAValue

from dlc.analysis.tile.fragments import copy_width
from dlc.analysis.tile.rings import closes_group, is_async, is_idle, loop_of, run_of
from dlc.dialects import kernel, tile
from dlc.dialects.access import simplify_where
from dlc.dialects.layouts import shape_of
from dlc.dialects.ring_ops import TMA
from dlc.dialects.staging import SlabOpBase
from dlc.ir.expr import Expr, within
from dlc.transforms.kernel.materialization import tma
from dlc.transforms.kernel.materialization.emitter import Emitter
from dlc.transforms.kernel.materialization.reduction import conditions_at

UNROLLED_ROUNDS = 8
"""Most rounds of a copy that are written without a loop."""


def emit_stage(e: Emitter, op: tile.StageOp) -> None:
    """Emits the copy of a slab; the stage's result becomes the shared buffer."""
    buffer = e.allocate_shared(op.result)
    _copy(e, op, e.exprs(op.subscripts), _Slot(buffer))


def emit_fill(e: Emitter, op: tile.FillOp) -> None:
    """
    Emits the copies of a run of fills, which request the same chunk of several rings; those of
    asynchronous rings are closed as one group.
    """
    run = run_of(op)
    if run[0] is not op:
        return
    chunk = e.expr(op.chunk)
    requested = groupby((member.source for member in run), lambda r: _requested(e, r, chunk))
    for where, rings in () if is_idle(op) else requested:
        with e.only_if(where):
            for ring in rings:
                slot = _Slot(e.scalars[ring.result], (e.slot(chunk, ring.depth),))
                base = e.exprs(ring.slab.subscripts, {ring.chunk: chunk})
                _copy(e, ring.slab, base, slot, where, asynchronous=is_async(op))
    if is_async(op) and closes_group(op, e.pending.values()):
        e.builder.insert(kernel.CommitOp())


def _requested(e: Emitter, ring: tile.RingOp, chunk: Expr) -> list[Expr]:
    """Where a chunk is copied: if the ring has it and its loop does not skip it."""
    where = [Expr((), ring.chunks - 1) - chunk]
    if (loop := loop_of(ring)) is not None:
        where += conditions_at(e, loop, chunk)
    return simplify_where(where)


def emit_acquire(e: Emitter, op: tile.AcquireOp) -> None:
    """Names a chunk's slot; the first acquire of an asynchronous run waits for its copies."""
    ring = op.source
    if is_async(op) and run_of(op)[0] is op:
        e.builder.insert(kernel.WaitOp(e.pending[op]))
    if ring.fill_kind == TMA:
        tma.emit_wait(e, op)
    slot = e.slot(e.expr(op.chunk), ring.depth)
    e.slots[op.result] = (e.scalars[ring.result], slot)


@dataclass(frozen=True)
class _Slot:
    """Where a slab is copied to: a shared buffer and its subscripts in front of the slab's."""

    buffer: SSAValue
    prefix: tuple[Expr, ...] = ()


def _copy(
    e: Emitter,
    slab: SlabOpBase,
    base: Sequence[Expr],
    slot: _Slot,
    known: Sequence[Expr] = (),
    *,
    asynchronous: bool = False,
) -> None:
    """
    Emits the copy of a slab that begins at `base`: thread t copies run t of it, run t + threads,
    and so on. Elements beyond the source are 0. `known` conditions hold here.
    """
    sizes = slab.slab_sizes
    alignment = e.source.alignment(slab.source)
    width = copy_width(slab, alignment, whole=asynchronous)

    def one(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        _copy_run(e, slab, slot, base, place, inside, known, width, asynchronous)

    deal(e, sizes, width, one)


def deal(
    e: Emitter,
    sizes: Sequence[int],
    width: int,
    one: Callable[[Sequence[Expr], Sequence[Expr]], None],
) -> None:
    """
    Deals a slab in runs of `width` elements over the threads, run t, t + threads, … to thread t.
    `one` emits what is done with a run, given its subscripts and which threads have it.
    """
    runs = prod(sizes) // width
    rounds = -(-runs // e.threads)

    def at(round: Expr) -> None:
        run = round * e.threads + e.thread_id
        one(_decode(run * width, sizes), simplify_where([Expr((), runs - 1) - run]))

    if rounds == 1:
        at(Expr())
    else:
        with e.loop(rounds, "round", unroll=rounds <= UNROLLED_ROUNDS) as index:
            at(Expr.of(index))


def _decode(point: Expr, sizes: Sequence[int]) -> list[Expr]:
    """The subscripts of a running number within a slab."""
    place: list[Expr] = []
    rest = prod(sizes)
    for number, size in enumerate(sizes):
        rest //= size
        place.append(point // rest if number == 0 else (point // rest) % size)
    return [Expr() if size == 1 else p for p, size in zip(place, sizes, strict=True)]


def _copy_run(
    e: Emitter,
    slab: SlabOpBase,
    slot: _Slot,
    base: Sequence[Expr],
    place: Sequence[Expr],
    inside: Sequence[Expr],
    known: Sequence[Expr],
    width: int,
    asynchronous: bool,
) -> None:
    """Emits the copy of `width` consecutive elements by the threads that are `inside`."""
    source = e.scalars[slab.source]

    def at(step: Expr) -> tuple[list[Expr], list[Expr], list[Expr]]:
        """Subscripts of source and target, and where the source has the element."""
        subscripts = [b + p for b, p in zip(base, place, strict=True)]
        kept = [p for p, size in zip(place, slab.slab_sizes, strict=True) if size != 1]
        if subscripts:
            subscripts[-1] = subscripts[-1] + step
        if kept and width > 1:
            kept[-1] = kept[-1] + step
        conditions = list(inside)
        for subscript, extent in zip(subscripts, shape_of(slab.source_type), strict=True):
            conditions += within(subscript, extent, [*known, *conditions])
        return subscripts, [*slot.prefix, *kept], conditions

    if asynchronous:
        subscripts, target, conditions = at(Expr())
        with e.only_if(inside):
            where = [c for c in conditions if c not in inside]
            copy = kernel.CpAsyncOp(source, subscripts, slot.buffer, target, width, where)
            e.builder.insert(copy)
        return

    def element(step: Expr) -> None:
        subscripts, target, conditions = at(step)
        value = e.insert(kernel.LoadOp(source, subscripts, conditions), slab.source.name_hint)
        e.builder.insert(kernel.StoreOp(value, slot.buffer, target, inside))

    if width == 1:
        element(Expr())
    else:
        with e.loop(width, "v", unroll=True) as v:
            element(Expr.of(v))
