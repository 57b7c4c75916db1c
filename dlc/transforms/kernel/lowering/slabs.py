"""How computed slabs become loops over their elements, dealt over all threads of the block."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.tile.fragments import run_width
from dlc.analysis.tile.overwriting import overwritten
from dlc.analysis.tile.unmasked import unmasked
from dlc.dialects import kernel, tile
from dlc.dialects.axes import REGISTER, new_body
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.ir.monoid import MONOIDS
from dlc.transforms.kernel.lowering.held_masks import insert_mask, take_masks
from dlc.transforms.kernel.lowering.stage_lowering import COMPUTED_ROUNDS, StageLowering


def lower_compute(to: StageLowering, op: tile.ComputeOp) -> None:
    """
    Inserts the computation of a slab: each thread computes runs of neighbouring elements, whose
    loads and stores are wide. The place within a run is a register axis. Of a slab that says how
    many points a thread holds, it computes those at once. One that is computed element by element
    of another, which nobody reads afterwards, takes its place
    where both are laid out alike.
    """
    if op.points_held is not None:
        _compute_points(to, op, op.points_held)
        return
    width = run_width(op.result_type)
    taken = overwritten(op)
    if taken is not None and taken.result.type == op.result.type:
        buffer, _ = to.slabs[taken.result]
    else:
        buffer = to.allocate(op.result)
    to.slabs[op.result] = buffer, ()

    def one(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        with to.only_if(inside):
            if width == 1:
                _compute(to, op, buffer, place, [])
                return
            body = new_body(1, [op.axes[-1].name_hint])
            run = tile.ForOp([width], body, [REGISTER])
            to.builder.insert(run)
            *outer, last = place
            with to.in_loop(run):
                _compute(to, op, buffer, [*outer, last + Expr.of(run.axes[0])], run.axes)

    to.deal(op.sizes, width, one, COMPUTED_ROUNDS)


def lower_hold(to: StageLowering, op: tile.HoldOp) -> None:
    """Inserts what a thread computes and holds, into memory of its own."""
    buffer = to.insert(kernel.AllocLocalOp(op.element_type, op.all_extents), op.result.name_hint)
    to.held[op.result] = buffer
    for use in list(op.result.uses):
        load = use.operation
        if isinstance(load, tile.ShareOp):
            continue
        assert isinstance(load, tile.LoadOp)
        load.operands[use.index] = buffer
        load.set_index(op.place(load.subscripts), load.where)
    yielded, extents = op.yielded, op.all_extents
    masks = take_masks(op)
    (value,), where = yielded.values, yielded.where
    Rewriter.replace_op(yielded, tile.YieldOp(), [])
    points = tile.ForOp(extents, op.detach_region(op.body), [REGISTER] * len(extents))
    to.builder.insert(points)
    with to.in_loop(points):
        if where:
            value = _kept(to, value, where, points.axes)
        to.builder.insert(tile.StoreOp(value, buffer, [Expr.of(axis) for axis in points.axes]))
    for mask in masks:
        insert_mask(to, mask, buffer, points)


def lower_share(to: StageLowering, op: tile.ShareOp) -> None:
    """Inserts how each thread writes what it holds to its rows of a slab."""
    held, buffer = op.held.owner, to.allocate(op.result)
    assert isinstance(held, tile.HoldOp)
    to.slabs[op.result] = buffer, ()
    extents = held.all_extents
    points = tile.ForOp(extents, new_body(len(extents)), [REGISTER] * len(extents))
    to.builder.insert(points)
    with to.in_loop(points):
        at = [Expr.of(axis) for axis in points.axes]
        value = to.insert(tile.LoadOp(to.held[op.held], at), op.held.name_hint)
        row, *others = held.element(at)
        to.builder.insert(tile.StoreOp(value, buffer, [op.subscripts[0] + row, *others]))


def _compute_points(to: StageLowering, op: tile.ComputeOp, points: Sequence[int]) -> None:
    """Inserts the computation of a slab of which a thread holds points at equal distances."""
    buffer = to.allocate(op.result)
    to.slabs[op.result] = buffer, ()
    threads = [size // n for size, n in zip(op.sizes, points, strict=True)]

    def one(place: Sequence[Expr], inside: Sequence[Expr]) -> None:
        with to.only_if(inside):
            body = new_body(len(points), [axis.name_hint for axis in op.axes])
            held = tile.ForOp(points, body, [REGISTER] * len(points))
            to.builder.insert(held)
            at = [
                Expr.of(axis) * apart + first
                for axis, apart, first in zip(
                    held.axes, threads, op.first_point(place), strict=True
                )
            ]
            with to.in_loop(held):
                _compute(to, op, buffer, at, held.axes)

    to.deal(op.numbered, 1, one)


def _compute(
    to: StageLowering,
    op: tile.ComputeOp,
    buffer: SSAValue,
    place: Sequence[Expr],
    lanes: Sequence[BlockArgument],
) -> None:
    """
    Inserts the body of a computed slab at a place; where its conditions fail, 0 is kept. If each
    thread computes sums, those of a chunk of which no element is masked are stored without asking.
    """
    at = dict[SSAValue, Expr | SSAValue](zip(op.axes, place, strict=True))
    yielded, whole = op.yielded, unmasked(op) if op.points_held is not None else []
    (value,) = yielded.values
    *body, _ = op.body.block.ops
    for inner in body:
        inner.detach()
        for each in inner.walk():
            if isinstance(each, IndexedOp):
                each.substitute(at.get)
    if whole and not yielded.where:
        made = _made_of_sums(body)
        _insert_all(to, [inner for inner in body if inner not in made])
        rest = [*made, tile.StoreOp(value, buffer, place)]
        plain = _without_selects(rest)
        with to.either(to.insert(kernel.TestOp([c.substitute(at.get) for c in whole]))) as other:
            _insert_all(to, plain)
            other()
            _insert_all(to, rest)
        return
    _insert_all(to, body)
    if yielded.where:
        value = _kept(to, value, [c.substitute(at.get) for c in yielded.where], lanes)
    to.builder.insert(tile.StoreOp(value, buffer, place))


def _made_of_sums(ops: Sequence[Operation]) -> list[Operation]:
    """The operations that need what others with regions, reduces, give."""
    needing = {result for op in ops if op.regions for result in op.results}
    found: list[Operation] = []
    for op in ops:
        if not needing.isdisjoint(op.operands) and not op.regions:
            found.append(op)
            needing.update(op.results)
    return found


def _insert_all(to: StageLowering, ops: Sequence[Operation]) -> None:
    for op in ops:
        to.builder.insert(op)


def _without_selects(ops: Sequence[Operation]) -> list[Operation]:
    """Copies of ops in which what was selected under a condition is there without it."""
    copies: dict[SSAValue, SSAValue] = {}
    found: list[Operation] = []
    for op in ops:
        if isinstance(op, tile.SelectOp):
            copies[op.result] = copies.get(op.value, op.value)
            continue
        found.append(op.clone(copies))
        for old, new in zip(op.results, found[-1].results, strict=True):
            new.name_hint = old.name_hint
    return found


def _kept(
    to: StageLowering, value: SSAValue, where: Sequence[Expr], lanes: Sequence[BlockArgument]
) -> SSAValue:
    """A value where the conditions hold, and 0 elsewhere."""
    (identity,) = MONOIDS["add"].identity([value.type])
    memory = kernel.AllocLocalOp(value.type, [extent_of_register(axis) for axis in lanes])
    to.insert(memory, value.name_hint)
    subscripts = [Expr.of(axis) for axis in lanes]
    with to.each(lanes):
        zero = to.constant_here(identity)
        element = to.insert(kernel.SelectOp(value, where, zero))
        to.builder.insert(kernel.StoreOp(element, memory.result, subscripts))
    return to.insert(tile.LoadOp(memory.result, subscripts), value.name_hint)
