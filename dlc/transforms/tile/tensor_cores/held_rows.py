"""
The slabs of a chunk of a cascade become what the lanes of warps hold in registers, as they hold
sums of products of matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.cascade_slabs import CascadeSlabs, loads_outside
from dlc.dialects import tile
from dlc.dialects.axes import FRAGMENT, REGISTER, new_body
from dlc.dialects.layouts import shape_of
from dlc.dialects.mma_layouts import MmaAttr
from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.transforms.axes.axis_edit import Axis, replace_axes
from dlc.transforms.tile.staging.row_folds import fold_together, hold_before, rise
from dlc.transforms.tile.staging.zero_guards import zero_unless

ROWS, COLUMNS, PAIR = 16, 8, 2
"""Of the sums of a product of matrices; a lane has two neighbours of a row."""


@dataclass(frozen=True)
class Lanes:
    """Where a lane is in its warp: axes of the launch."""

    warp: BlockArgument | None
    """The number of the warp, or of the warpgroup; None if the block has one."""
    quarter: BlockArgument | None
    """The warp of a warpgroup."""
    group: BlockArgument
    member: BlockArgument
    part: SSAValue | None = None
    """Which of several parts of a chunk's keys the warp has; None if it has all."""
    parts: int = 1

    @property
    def rows(self) -> int:
        """Of a tile of sums: those of a warp, or of a warpgroup's four."""
        return ROWS if self.quarter is None else ROWS * int(most(self.quarter) + 1)

    @property
    def first(self) -> Expr:
        """The first row of the lane in its tile."""
        quarter = Expr() if self.quarter is None else Expr.of(self.quarter) * ROWS
        return quarter + self.group

    def first_key(self, keys: int) -> Expr:
        """The first key of a chunk of so many that the warp has."""
        return Expr() if self.part is None else Expr.of(self.part) * (keys // self.parts)

    def key(self, chunk: int, keys: Expr, pair: Expr) -> Expr:
        """The number of a key that a lane holds, in a chunk of so many."""
        return self.first_key(chunk) + keys * COLUMNS + Expr.of(self.member) * PAIR + pair


def hold_slabs(
    slabs: CascadeSlabs, products: Mapping[tile.ReduceOp, MmaAttr], lanes: Lanes
) -> None:
    """
    Makes each slab what lanes hold; sums of products are then computed by warps, and what is folded
    of a row by its lanes. What is a factor is held once more, rounded to the type of the other.
    """
    outside = {slab: loads_outside(slab, slabs.slabs) for slab in slabs.slabs}
    held = {slab.result: _hold(slab, slabs, products, lanes) for slab in slabs.slabs}
    for hold in held.values():
        rise(hold, [Expr.of(axis) for axis in hold.axes])
    for slab in slabs.slabs:
        hold, type = held[slab.result], slabs.factors.get(slab)
        factor = hold if type is None else _rounded(hold, type)
        for use in list(slab.result.uses):
            load = use.operation
            assert isinstance(load, tile.LoadOp)
            _read(load, factor if load in outside[slab] else hold, slabs.rows // lanes.rows, lanes)
        Rewriter.erase_op(slab)


def guard_factors(reduce: tile.ReduceOp) -> None:
    """
    Where a sum of products leaves out keys, the factor that lanes hold becomes 0 instead, if the
    other one is 0 there, too: both are then read without asking.
    """
    loads = [op for op in reduce.body.walk() if isinstance(op, tile.LoadOp)]
    held = [(load, load.ref.owner) for load in loads if isinstance(load.ref.owner, tile.HoldOp)]
    others = [
        zero_unless(load.result) for load in loads if load.ref.owner not in dict(held).values()
    ]
    last = reduce.yielded
    for condition in last.where:
        moved = [(hold, _of_key(condition, load, hold, reduce)) for load, hold in held]
        if any(c is None for _, c in moved) or not all(condition in zero for zero in others):
            continue
        for factor, c in moved:
            hold = _unrounded(factor)
            made = hold.yielded
            if c is not None and c not in made.where:
                made.set_index(made.subscripts, [*made.where, c])
                _drop_from_sums(hold, c)
        last = reduce.yielded
        last.set_index(last.subscripts, [c for c in last.where if c != condition])


def _unrounded(hold: tile.HoldOp) -> tile.HoldOp:
    """What lanes hold in f32 of what they hold rounded; itself if it is not."""
    half = hold.yielded.values[0].owner
    load = half.input.owner if isinstance(half, arith.TruncFOp) else None
    source = load.ref.owner if isinstance(load, tile.LoadOp) else None
    return source if isinstance(source, tile.HoldOp) else hold


def _drop_from_sums(hold: tile.HoldOp, condition: Expr) -> None:
    """Sums of what is held, which is 0 where a condition fails, need not ask for that."""
    factor = condition.coefficient(hold.axes[-1]) or 0
    for use in hold.result.uses:
        load, sums = use.operation, use.operation.parent_op()
        assert isinstance(load, tile.LoadOp)
        if isinstance(sums, tile.ReduceOp) and _adds(sums, load):
            same = condition + (load.subscripts[-1] - _held_key(hold)) * factor
            last = sums.yielded
            last.set_index(last.subscripts, [c for c in last.where if c != same])


def _adds(reduce: tile.ReduceOp, load: tile.LoadOp) -> bool:
    """True for a sum of what is loaded, as it is or in a wider type."""
    (value, *others), wide = reduce.yielded.values, reduce.yielded.values[0].owner
    added = wide.input if isinstance(wide, arith.ExtFOp) else value
    return reduce.monoid_name.data == "add" and not others and added is load.result


def _held_key(hold: tile.HoldOp) -> Expr:
    """The number of the key that a lane holds, at the points of its axes."""
    return Expr.of(hold.axes[-2]) * COLUMNS + Expr.of(hold.across[0]) * PAIR + hold.axes[-1]


def _of_key(
    condition: Expr, load: tile.LoadOp, hold: tile.HoldOp, reduce: tile.ReduceOp
) -> Expr | None:
    """
    A condition on the keys that a reduce walks, of the key that a lane holds; None if it is of
    something else, too.
    """
    key = _held_key(hold)
    factor = condition.coefficient(reduce.axes[-1])
    if not factor:
        return None
    found = condition - load.subscripts[-1] * factor + key * factor
    return None if {*reduce.axes}.intersection(found.values()) else found


def _hold(
    slab: tile.ComputeOp,
    slabs: CascadeSlabs,
    products: Mapping[tile.ReduceOp, MmaAttr],
    lanes: Lanes,
) -> tile.HoldOp:
    """Inserts in front of a slab what lanes hold of it; the slab is empty then."""
    tiles, half = Axis("r", slabs.rows // lanes.rows, REGISTER), Axis("half", 2, REGISTER)
    axes, across = [tiles, half], list[SSAValue]()
    keys, pair = Axis("rkey", 0, REGISTER), Axis("pair", PAIR, REGISTER)
    if len(slab.axes) > 1:
        keys = Axis("rkey", slab.sizes[1] // lanes.parts // COLUMNS, REGISTER)
        axes, across = [*axes, keys, pair], [lanes.member]
    old = slab.axes
    first = Expr() if lanes.warp is None else Expr.of(lanes.warp) * slabs.rows

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        row = first + e[tiles] * lanes.rows + e[half] * 8 + lanes.first
        places = [row, *([lanes.key(slab.sizes[1], e[keys], e[pair])] if across else [])]
        return dict(zip(old, places, strict=True))

    arguments = replace_axes(slab, axes, meaning)
    for reduce in [op for op in slab.body.walk() if isinstance(op, tile.ReduceOp)]:
        if reduce in products:
            quarter = [] if lanes.quarter is None else [lanes.quarter]
            places = [*quarter, lanes.group, lanes.member, arguments[half], arguments[pair]]
            fold_by_warps(reduce, products[reduce], places)
        else:
            chunk = prod(reduce.all_extents)
            keys = Axis("rkey", chunk // lanes.parts // COLUMNS, REGISTER)
            own = keys, Axis("pair", PAIR, REGISTER)
            fold_together(reduce, own, partial(lanes.key, chunk), lanes.member)
    extents, element = slab.all_extents, slab.result_type.element_type
    return hold_before(slab, extents, element, slab.detach_region(slab.body), across)


def _rounded(hold: tile.HoldOp, type: Attribute) -> tile.HoldOp:
    """Inserts after what lanes hold the same in another type."""
    body = new_body(len(hold.axes), [axis.name_hint or "r" for axis in hold.axes])
    load = tile.LoadOp(hold.result, hold.element([Expr.of(axis) for axis in body.block.args]))
    rounded = arith.TruncFOp(load.result, type)  # pyright: ignore[reportArgumentType]
    body.block.add_ops((load, rounded, tile.YieldOp([rounded.result])))
    new = tile.HoldOp(hold.all_extents, type, body, hold.across)
    new.result.name_hint = f"{hold.result.name_hint}_factor"
    load.result.name_hint = rounded.result.name_hint = hold.result.name_hint
    new.location = hold.location
    Rewriter.insert_op(new, InsertPoint.after(hold))
    return new


def fold_by_warps(
    reduce: tile.ReduceOp,
    mma: MmaAttr,
    places: Sequence[SSAValue],
    *,
    split: bool = False,
    apart: bool = False,
) -> None:
    """The register axis of a reduce is walked by the lanes of a warp together."""
    kinds = [FRAGMENT if reduce.kind(a) == REGISTER else reduce.kind(a) for a in reduce.axes]
    reduce.set_axes(reduce.all_extents, kinds)
    reduce.set_mma(mma, places, split=split, apart=apart)


def _read(load: tile.LoadOp, hold: tile.HoldOp, tiles: int, lanes: Lanes) -> None:
    """Loads of what lanes hold in place of a slab, given how many tiles of rows they have."""
    row, *key = load.subscripts
    key = [k - lanes.first_key(shape_of(load.ref)[1]) for k in key]
    tile_of_row = [row // lanes.rows % tiles] if tiles > 1 else []
    new = tile.LoadOp(hold.result, [*tile_of_row, row // 8 % 2, *key], load.where, load.default)
    new.result.name_hint, new.location = load.result.name_hint, load.location
    result: SSAValue = new.result
    Rewriter.insert_op(new, InsertPoint.before(load))
    if new.result.type != load.result.type:
        assert isinstance(load.result.type, Float32Type)
        wide = arith.ExtFOp(new.result, f32)
        wide.result.name_hint = load.result.name_hint
        Rewriter.insert_op(wide, InsertPoint.before(load))
        result = wide.result
    Rewriter.replace_op(load, [], [result])
