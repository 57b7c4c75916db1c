"""
The slabs of a chunk of a cascade become what threads hold in registers; the threads of a row are
neighbours in a warp, and fold it by shuffles. What others read of a row is shared.
"""

from __future__ import annotations

from functools import partial
from math import prod

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.cascade_slabs import loads_outside
from dlc.analysis.tile.thread_slabs import ThreadSlabs
from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, new_body
from dlc.dialects.indexed_op import IndexedOp
from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.transforms.axes.axis_edit import Axis
from dlc.transforms.tile.staging.row_folds import fold_together, hold_before, rise


def hold_rows(found: ThreadSlabs) -> None:
    """Makes each slab what threads hold, and shares what others read of its rows."""
    outside = {slab: loads_outside(slab, found.slabs) for slab in found.slabs}
    holds = {slab.result: _hold(slab, found) for slab in found.slabs}
    for slab in found.slabs:
        hold, name = holds[slab.result], slab.result.name_hint
        others = outside[slab] if slab.sizes[1:] else []
        for use in list(slab.result.uses):
            load = use.operation
            assert isinstance(load, tile.LoadOp)
            if load not in others:
                _read(load, hold, found)
        if others:
            share = tile.ShareOp(hold.result, found.first, slab.sizes[0])
            share.result.name_hint, share.location = name, slab.location
            Rewriter.insert_op(share, InsertPoint.after(hold))
            slab.result.replace_all_uses_with(share.result)
        Rewriter.erase_op(slab)


def _hold(slab: tile.ComputeOp, found: ThreadSlabs) -> tile.HoldOp:
    """Inserts in front of a slab what threads hold of it; the slab is empty then."""
    extents, across = [found.rows], list[SSAValue]()
    if len(slab.sizes) > 1:
        extents += [prod(slab.sizes[1:]) // (_threads(found) * found.run), found.run]
        across = [found.member]
    body = new_body(len(extents), ["r", "rkeyo", "rkeyi"])
    row, *key = map(Expr.of, body.block.args)
    places = [found.first + row]
    if key:
        run, within = key
        places.append(_key(found, run, within))
    at = dict[SSAValue, Expr](zip(slab.axes, places, strict=True))
    for op in [*slab.body.block.ops]:
        for inner in op.walk():
            if isinstance(inner, IndexedOp):
                inner.substitute(at.get)
        op.detach()
        body.block.add_op(op)
    element = slab.result_type.element_type
    hold = hold_before(slab, extents, element, body, across)
    for reduce in [op for op in body.walk() if isinstance(op, tile.ReduceOp)]:
        if not across:
            runs = prod(reduce.all_extents) // (_threads(found) * found.run)
            own = Axis("rkeyo", runs, REGISTER), Axis("rkeyi", found.run, REGISTER)
            fold_together(reduce, own, partial(_key, found), found.member)
    rise(hold, [] if found.row is None else [Expr.of(hold.axes[0])])
    return hold


def _read(load: tile.LoadOp, hold: tile.HoldOp, found: ThreadSlabs) -> None:
    """A load of what threads hold in place of a slab."""
    row, *key = load.subscripts
    new = tile.LoadOp(hold.result, [row - found.first, *key], load.where, load.default)
    new.result.name_hint, new.location = load.result.name_hint, load.location
    Rewriter.replace_op(load, new)


def _threads(found: ThreadSlabs) -> int:
    """How many threads share a row."""
    return int(most(found.member)) + 1


def _key(found: ThreadSlabs, number: Expr, within: Expr) -> Expr:
    """The key that a thread has within one of its runs: neighbours have neighbouring runs."""
    return (number * _threads(found) + Expr.of(found.member)) * found.run + within
