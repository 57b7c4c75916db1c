"""
The points of a thread become those of a warp, or of a warpgroup, dealt to its lanes as tensor cores
want them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.loop.contraction import contractions
from dlc.analysis.tile.cascade_slabs import CascadeSlabs, cascade_slabs, products_of
from dlc.analysis.tile.matrix_products import instruction
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, SERIAL, THREAD
from dlc.dialects.mma_layouts import ALL_SHAPES, HOLDING, OF_WARPGROUPS, WARPGROUP_SHAPES, MmaAttr
from dlc.dialects.register_counts import product_obstacle
from dlc.ir.expr import Expr
from dlc.ir.variance import variance
from dlc.registry import OptionError
from dlc.target import FEATURES, MAX_THREADS, WARP, WARPGROUP, Feature, Target
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.axes.combining import combine_after
from dlc.transforms.tile.tensor_cores.held_rows import (
    Lanes,
    fold_by_warps,
    guard_factors,
    hold_slabs,
)

ROWS, COLUMNS = 16, 8
"""Of the sums of a product of matrices by a warp."""
WARPS = WARPGROUP // WARP
"""Of a warpgroup, each with rows of its own."""


def deal_to_warps(
    launch: tile.LaunchOp,
    serial: Sequence[BlockArgument],
    sizes: Sequence[int],
    shape: str,
    target: Target,
    *,
    parts: int,
    split: bool,
    apart: bool,
) -> str:
    """
    Makes the threads of a launch warps, or warpgroups for a shape of theirs, and deals so many
    points of the serial axes to their lanes and registers, several of them having parts of each
    chunk of K; factors are taken apart if they are to be split, and a chunk has sums of its own if
    these are to be apart. OptionError for what tensor cores cannot compute.
    """
    _check_chip([MmaAttr(*names) for names in ALL_SHAPES if names[0] == shape], target)
    slabs = _slabs_of_cascade(launch, serial, sizes, shape)
    folds = _products(launch, serial, sizes, shape, slabs, parts)
    folds_of_slabs = {} if slabs is None else _products_within(slabs, shape, launch)
    for mma in folds.values():
        _check_chip([mma], target)
    whole = _whole(launch, folds, parts) if parts > 1 else None
    _check_registers(launch, folds.values(), target)
    rows, columns = serial[-2:]
    warps = WARPS if shape in OF_WARPGROUPS else 1
    quarter, part = Axis("quarter", warps, THREAD), Axis("part", parts, THREAD)
    lanes = [Axis("group", 8, THREAD), Axis("member", 4, THREAD)]
    inside = [Axis("half", 2, REGISTER), Axis("pair", 2, REGISTER)]
    kept = {a: keep(a, launch) for a in launch.axes if a not in serial}
    rest, held = dict[BlockArgument, Axis](), dict[BlockArgument, Axis]()
    for a, n in zip(serial, sizes, strict=True):
        rest[a] = Axis(a.name_hint, launch.extent(a) // n, SERIAL)
        tiles = n // {rows: warps * ROWS, columns: COLUMNS}.get(a, 1)
        held[a] = Axis(f"r{(a.name_hint or 'e')[1:]}", tiles, REGISTER)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        (group, member), (half, pair) = (e[a] for a in lanes), (e[a] for a in inside)
        row = e[quarter] * ROWS + half * 8 + group
        place = {rows: row, columns: member * 2 + pair}
        found = {a: e[k] for a, k in kept.items()}
        for a, n in zip(serial, sizes, strict=True):
            found[a] = e[rest[a]] * n + e[held[a]] * (n // held[a].extent) + place.get(a, Expr())
        return found

    before = [k for k in kept.values() if k.kind != REGISTER]
    after = [k for k in kept.values() if k.kind == REGISTER]
    new = [*before, part, quarter, *lanes, *rest.values(), *after, *held.values(), *inside]
    warp = None if slabs is None or slabs.warp is None else kept[slabs.warp]
    arguments = replace_axes(launch, new, meaning)
    for reduce in folds if whole is not None else ():
        if (axis := _dealt(reduce, parts)) is not None:
            _deal_chunk(reduce, axis, Expr.of(arguments[part]), parts)
    for reduce, mma in folds.items():
        named = [a for a in (quarter, *lanes, *inside) if a in arguments]
        fold_by_warps(reduce, mma, [arguments[a] for a in named], split=split, apart=apart)
    note, who = "", "a warp" if warps == 1 else "a warpgroup"
    if slabs is not None:
        note = f"; {len(slabs.slabs)} slabs held by lanes"
        group, member = (arguments[a] for a in lanes)
        number = None if warp is None else arguments[warp]
        own = arguments.get(part)
        where = Lanes(number, arguments.get(quarter), group, member, own, parts)
        hold_slabs(slabs, folds_of_slabs, where)
        for reduce in folds:
            guard_factors(reduce)
    if whole is not None:
        combine_after(whole, arguments[part], dealt=True)
        note += f"; chunks of K in {parts} parts, each of other {who[2:]}s"
    tiles = " x ".join(str(held[a].extent) for a in serial)
    by = next(iter(folds.values()))
    return f"{tiles} tiles of {warps * ROWS} x {COLUMNS} points {who}, by {by}{note}"


def _check_chip(products: Iterable[MmaAttr], target: Target) -> None:
    """OptionError if a chip has none of some products; says so of the oldest."""
    features: set[Feature] = {mma.feature for mma in products}
    if not any(target.has(name) for name in features):
        oldest = min(features, key=lambda name: FEATURES[name])
        hint = "leave mma out: threads add products"
        raise OptionError("mma", target.lacking(oldest), hint)


def _check_registers(launch: tile.LaunchOp, folds: Iterable[MmaAttr], target: Target) -> None:
    """OptionError if the threads of warpgroups have no registers for their products."""
    groups = prod(launch.extent(a) for a in launch.axes_of(THREAD))
    for mma in folds:
        if obstacle := product_obstacle(mma, groups * WARPGROUP, target):
            hint = "take fewer columns, or give blockify-launch fewer threads"
            raise OptionError("mma", obstacle, hint)


def _slabs_of_cascade(
    launch: tile.LaunchOp, serial: Sequence[BlockArgument], sizes: Sequence[int], shape: str
) -> CascadeSlabs | None:
    """What warps hold of the slabs of a cascade, if there is one that multiplies them. OptionError
    if they cannot."""
    if len(serial) < 2 or shape not in HOLDING:
        return None
    slabs = cascade_slabs(launch, serial[-2], sizes[-2])
    if isinstance(slabs, str):
        raise OptionError("mma", slabs)
    return slabs


def _products_within(
    slabs: CascadeSlabs, shape: str, launch: tile.LaunchOp
) -> dict[tile.ReduceOp, MmaAttr]:
    """The sums of products that are elements of slabs. OptionError if warps cannot compute them."""
    found = products_of(slabs, shape, variance(launch))
    if isinstance(found, str):
        raise OptionError("mma", found)
    return found


def _products(
    launch: tile.LaunchOp,
    serial: Sequence[BlockArgument],
    sizes: Sequence[int],
    shape: str,
    slabs: CascadeSlabs | None,
    parts: int,
) -> dict[tile.ReduceOp, MmaAttr]:
    """The reduces that warps fold, and how. OptionError if there is one that they cannot."""
    of_group = shape in OF_WARPGROUPS
    height, width, who = ROWS, COLUMNS, "a warp"
    if of_group:
        product = next(sizes for (name, _), sizes in WARPGROUP_SHAPES.items() if name == shape)
        height, width, who = product.m, product.n, "a warpgroup"
    if len(serial) < 2 or sizes[-2] % height or sizes[-1] % width:
        message = f"{who} needs a multiple of {height} and of {width} points along the last axes"
        given = " x ".join(map(str, sizes))
        raise OptionError("extents", f"{message}, found {given}")
    each = WARPGROUP if of_group else WARP
    threads = each * parts * prod(launch.extent(a) for a in launch.axes_of(THREAD))
    if threads > MAX_THREADS:
        many = who.removeprefix("a ") + "s"
        message = f"{threads // each} {many} are more than a block can have"
        hint = f"give blockify-launch fewer threads, which become {many}"
        raise OptionError("mma", message, hint)
    rows, columns = serial[-2:]
    along = variance(launch)
    found: dict[tile.ReduceOp, MmaAttr] = {}
    refs = frozenset[SSAValue]() if slabs is None else slabs.refs
    for reduce in (c.reduce for c in contractions(launch)):
        if not isinstance(reduce, tile.ReduceOp) or not reduce.axes_of(REGISTER):
            continue
        if slabs is not None and reduce.parent_op() in slabs.slabs:
            continue
        how = instruction(reduce, shape, rows, columns, along, refs)
        if isinstance(how, str):
            raise OptionError("mma", how)
        found[reduce] = how
    if not found:
        depth = next(sizes.k for (name, _), sizes in ALL_SHAPES.items() if name == shape)
        hint = f"chunk-matmul-k{{vector={depth}}} makes them"
        raise OptionError("mma", "it has no contraction along K in runs", hint)
    return found


def _whole(
    launch: tile.LaunchOp,
    folds: Iterable[tile.ReduceOp],
    parts: int,
) -> tile.ReduceOp:
    """
    The reduce of which warps take parts: the outermost around what they fold. OptionError if
    chunks cannot be dealt, or if what is summed of parts is not the same as of all.
    """
    around = {op for fold in folds for op in launch.body.block.ops if op.is_ancestor(fold)}
    whole = next(iter(around))
    if len(around) > 1 or not isinstance(whole, tile.ReduceOp):
        raise OptionError("parts", "expected one reduce that warps share, beside all loops")
    others = (op for op in launch.walk() if isinstance(op, tile.CombineOp) and op.dealt)
    if whole in folds or any(others):
        message = "expected chunks of K, of which warps take parts"
        raise OptionError("parts", message, "chunk-matmul-k makes chunks")
    for reduce in folds:
        if _dealt(reduce, parts) is None:
            message = f"the runs of a chunk of K are no multiple of {parts} parts"
            raise OptionError("parts", message, "take larger chunks, or fewer parts")
    return whole


def _dealt(reduce: tile.ReduceOp, parts: int) -> BlockArgument | None:
    """The axis of a chunk whose points can be dealt in so many runs."""
    axes = [a for a in reduce.axes_of(SERIAL) if reduce.extent(a) % parts == 0]
    return axes[-1] if axes else None


def _deal_chunk(reduce: tile.ReduceOp, axis: BlockArgument, part: Expr, parts: int) -> None:
    """Each part of a block's warps takes a run of the points of K that a chunk has."""
    run = reduce.extent(axis) // parts
    new = {a: keep(a, reduce) for a in reduce.axes}
    new[axis] = Axis(axis.name_hint, run, SERIAL)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        own = {a: e[k] for a, k in new.items()}
        return {**own, axis: part * run + own[axis]}

    replace_axes(reduce, [*new.values()], meaning)
