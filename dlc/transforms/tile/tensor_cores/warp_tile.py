"""The points of a thread become those of a warp, dealt to its lanes as tensor cores want them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.ir import BlockArgument

from dlc.analysis.loop.contraction import contractions
from dlc.analysis.tile.matrix_products import instruction
from dlc.dialects import tile
from dlc.dialects.axes import FRAGMENT, REGISTER, SERIAL, THREAD
from dlc.dialects.mma_layouts import MmaAttr
from dlc.ir.expr import Expr
from dlc.ir.variance import variance
from dlc.registry import OptionError
from dlc.target import MAX_THREADS, WARP
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes

ROWS, COLUMNS = 16, 8
"""Of the sums of a product of matrices."""


def deal_to_warps(
    launch: tile.LaunchOp,
    serial: Sequence[BlockArgument],
    sizes: Sequence[int],
    shape: str,
    *,
    split: bool,
) -> str:
    """
    Makes the threads of a launch warps, and deals so many points of the serial axes to their lanes
    and registers; factors are taken apart if they are to be split. OptionError for what tensor
    cores cannot compute.
    """
    folds = _products(launch, serial, sizes, shape)
    rows, columns = serial[-2:]
    lanes = [Axis("group", 8, THREAD), Axis("member", 4, THREAD)]
    inside = [Axis("half", 2, REGISTER), Axis("pair", 2, REGISTER)]
    kept = {a: keep(a, launch) for a in launch.axes if a not in serial}
    rest, held = dict[BlockArgument, Axis](), dict[BlockArgument, Axis]()
    for a, n in zip(serial, sizes, strict=True):
        rest[a] = Axis(a.name_hint, launch.extent(a) // n, SERIAL)
        tiles = n // {rows: ROWS, columns: COLUMNS}.get(a, 1)
        held[a] = Axis(f"r{(a.name_hint or 'e')[1:]}", tiles, REGISTER)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        (group, member), (half, pair) = (e[a] for a in lanes), (e[a] for a in inside)
        place = {rows: half * 8 + group, columns: member * 2 + pair}
        found = {a: e[k] for a, k in kept.items()}
        for a, n in zip(serial, sizes, strict=True):
            found[a] = e[rest[a]] * n + e[held[a]] * (n // held[a].extent) + place.get(a, Expr())
        return found

    before = [k for k in kept.values() if k.kind != REGISTER]
    after = [k for k in kept.values() if k.kind == REGISTER]
    new = [*before, *lanes, *rest.values(), *after, *held.values(), *inside]
    arguments = replace_axes(launch, new, meaning)
    for reduce, mma in folds.items():
        kinds = [FRAGMENT if reduce.kind(a) == REGISTER else reduce.kind(a) for a in reduce.axes]
        reduce.set_axes(reduce.static_extents, kinds)
        reduce.set_mma(mma, [arguments[a] for a in (*lanes, *inside)], split=split)
    tiles = " x ".join(str(held[a].extent) for a in serial)
    return f"{tiles} tiles of {ROWS} x {COLUMNS} points a warp, by {next(iter(folds.values()))}"


def _products(
    launch: tile.LaunchOp, serial: Sequence[BlockArgument], sizes: Sequence[int], shape: str
) -> dict[tile.ReduceOp, MmaAttr]:
    """The reduces that warps fold, and how. OptionError if there is one that they cannot."""
    if len(serial) < 2 or sizes[-2] % ROWS or sizes[-1] % COLUMNS:
        message = f"a warp needs a multiple of {ROWS} and of {COLUMNS} points along the last axes"
        given = " x ".join(map(str, sizes))
        raise OptionError("extents", f"{message}, found {given}")
    threads = WARP * prod(launch.extent(a) for a in launch.axes_of(THREAD))
    if threads > MAX_THREADS:
        message = f"{threads // WARP} warps are more than a block can have"
        raise OptionError("mma", message, "give blockify-launch fewer threads, which become warps")
    rows, columns = serial[-2:]
    along = variance(launch)
    found: dict[tile.ReduceOp, MmaAttr] = {}
    for reduce in (c.reduce for c in contractions(launch)):
        if not isinstance(reduce, tile.ReduceOp) or not reduce.axes_of(REGISTER):
            continue
        how = instruction(reduce, shape, rows, columns, along)
        if isinstance(how, str):
            raise OptionError("mma", how)
        found[reduce] = how
    if not found:
        hint = "chunk-matmul-k{vector=16} makes them, or vector=8 for m16n8k8"
        raise OptionError("mma", "it has no contraction along K in runs", hint)
    return found
