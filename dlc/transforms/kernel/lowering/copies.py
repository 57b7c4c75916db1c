"""How stages and rings become copies into shared memory, by all threads of the block together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.ir import SSAValue

from dlc.analysis.tile.fragments import UNROLLED_ROUNDS, copy_width
from dlc.analysis.tile.rings import closes_group, is_async, is_idle, loop_of
from dlc.dialects import kernel, tile
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.ring_ops import TMA
from dlc.dialects.size_index import extents_at
from dlc.dialects.staging import SlabOpBase
from dlc.ir.bounds import within
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering import tma
from dlc.transforms.kernel.lowering.stage_lowering import StageLowering


def lower_stage(to: StageLowering, op: tile.StageOp) -> None:
    """
    Inserts the copy of a slab; the stage's result becomes the shared buffer. Asynchronous copies of
    neighbouring stages are waited for behind the last of them.
    """
    buffer = to.allocate(op.result)
    to.slabs[op.result] = buffer, ()
    _copy(to, op, to.exprs(op.subscripts), _Slot(buffer), asynchronous=op.is_async)
    if op.is_async and not (isinstance(op.next_op, tile.StageOp) and op.next_op.is_async):
        to.builder.insert(kernel.CommitOp())
        to.builder.insert(kernel.WaitOp(0))


def lower_fill(to: StageLowering, op: tile.FillOp) -> None:
    """
    Inserts the copies of a run of fills, which request the same chunk of several rings; those of
    asynchronous rings are closed as one group.
    """
    run = to.runs[op]
    if run[0] is not op:
        return
    chunk = to.expr(op.chunk)
    requested = groupby((member.source for member in run), lambda r: _requested(to, r, chunk))
    for where, rings in () if is_idle(op) else requested:
        with to.only_if(where):
            for ring in rings:
                slot = _Slot(to.buffers[ring], (to.slot(chunk, ring.depth),))
                base = to.exprs(ring.slab.subscripts, {ring.chunk: chunk})
                _copy(to, ring.slab, base, slot, where, asynchronous=is_async(op))
    if is_async(op) and closes_group(run, to.pending.values()):
        to.builder.insert(kernel.CommitOp())


def _requested(to: StageLowering, ring: tile.RingOp, chunk: Expr) -> list[Expr]:
    """Where a chunk is copied: if the ring has it and its loop does not skip it."""
    where = [to.expr(ring.size) - 1 - chunk]
    if (loop := loop_of(ring)) is not None:
        where += to.conditions_at(loop, chunk)
    return simplify_where(where)


def lower_acquire(to: StageLowering, op: tile.AcquireOp) -> None:
    """Names a chunk's slot; the first acquire of an asynchronous run waits for its copies."""
    ring = op.source
    first = to.runs[op][0]
    to.before(first)  # neighbours stay neighbours
    if is_async(op) and first is op:
        to.builder.insert(kernel.WaitOp(to.pending[op]))
    if ring.fill_kind == TMA:
        tma.lower_acquire(to, op)
    to.slabs[op.result] = (
        to.buffers[ring],
        (to.slot(to.number(ring, to.expr(op.chunk)), ring.depth),),
    )


@dataclass(frozen=True)
class _Slot:
    """Where a slab is copied to: a shared buffer and its subscripts in front of the slab's."""

    buffer: SSAValue
    prefix: tuple[Expr, ...] = ()


def _copy(
    to: StageLowering,
    slab: SlabOpBase,
    base: Sequence[Expr],
    slot: _Slot,
    known: Sequence[Expr] = (),
    *,
    asynchronous: bool = False,
) -> None:
    """
    Inserts the copy of a slab that begins at `base`: thread t copies run t of it, run t + threads,
    and so on. Elements beyond the source are 0. `known` conditions hold here.
    """
    sizes = slab.slab_sizes
    alignment = to.source.alignment(slab.source)
    width = copy_width(slab, alignment, whole=asynchronous)

    def one(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        _copy_run(to, slab, slot, base, place, inside, known, width, asynchronous)

    # What is loaded is waited for, so several rounds are.
    to.deal(sizes, width, one, together=1 if asynchronous else UNROLLED_ROUNDS)


def _copy_run(
    to: StageLowering,
    slab: SlabOpBase,
    slot: _Slot,
    base: Sequence[Expr],
    place: Sequence[Expr],
    inside: Sequence[Expr],
    known: Sequence[Expr],
    width: int,
    asynchronous: bool,
) -> None:
    """Inserts the copy of `width` consecutive elements by the threads that are `inside`."""
    source = slab.source

    def at(step: Expr) -> tuple[list[Expr], list[Expr], list[Expr]]:
        """Subscripts of source and target, and where the source has the element."""
        subscripts = [b + p * n for b, p, n in zip(base, place, slab.slab_steps, strict=True)]
        kept = [p for p, size in zip(place, slab.slab_sizes, strict=True) if size != 1]
        if subscripts:
            subscripts[-1] = subscripts[-1] + step
        if kept and width > 1:
            kept[-1] = kept[-1] + step
        conditions = list(inside)
        for subscript, extent in zip(subscripts, extents_at(slab.source_type, slab), strict=True):
            conditions += within(subscript, extent, [*known, *conditions])
        return subscripts, [*slot.prefix, *kept], conditions

    if asynchronous:
        subscripts, target, conditions = at(Expr())
        with to.only_if(inside):
            where = [c for c in conditions if c not in inside]
            copy = kernel.CpAsyncOp(source, subscripts, slot.buffer, target, width, where)
            to.builder.insert(copy)
        return

    def element(step: Expr) -> None:
        subscripts, target, conditions = at(step)
        value = to.insert(kernel.LoadOp(source, subscripts, conditions), slab.source.name_hint)
        to.builder.insert(kernel.StoreOp(value, slot.buffer, target, inside))

    if width == 1:
        element(Expr())
    else:
        with to.loop(width, "v", unroll=True) as v:
            element(Expr.of(v))
