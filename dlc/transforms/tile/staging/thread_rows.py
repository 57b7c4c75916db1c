"""
The slabs of a chunk of a cascade become what threads hold in registers; the threads of a row are
neighbours in a warp, and fold it by shuffles. What others read of a row is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.cascade_slabs import loads_outside
from dlc.analysis.tile.thread_slabs import ThreadSlabs
from dlc.dialects import tile
from dlc.dialects.access import IndexedOp
from dlc.dialects.axes import REGISTER, new_body
from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.ir.monoid import EXPSUM
from dlc.transforms.axes.axis_edit import Axis, replace_axes


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
        places.append(_key(run, within, found))
    at = dict[SSAValue, Expr](zip(slab.axes, places, strict=True))
    for op in [*slab.body.block.ops]:
        for inner in op.walk():
            if isinstance(inner, IndexedOp):
                inner.substitute(at.get)
        op.detach()
        body.block.add_op(op)
    element = slab.result_type.element_type
    hold = tile.HoldOp(extents, element, body, across)
    hold.result.name_hint = (slab.result.name_hint or "v").removesuffix("_smem")
    hold.location = slab.location
    Rewriter.insert_op(hold, InsertPoint.before(slab))
    for reduce in [op for op in body.walk() if isinstance(op, tile.ReduceOp)]:
        if not across:
            _fold_by_threads(reduce, found)
    _rise(hold, found)
    return hold


def _fold_by_threads(reduce: tile.ReduceOp, found: ThreadSlabs) -> None:
    """Each of the threads of a row folds what it holds, and all of them fold that."""
    old, sizes = reduce.axes, reduce.all_extents
    count = prod(sizes)
    runs = Axis("rkeyo", count // (_threads(found) * found.run), REGISTER)
    within = Axis("rkeyi", found.run, REGISTER)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        number, rest = _key(e[runs], e[within], found), count
        places: dict[BlockArgument, Expr] = {}
        for axis, size in zip(old, sizes, strict=True):
            rest //= size
            places[axis] = number // rest % size
        return places

    replace_axes(reduce, [runs, within], meaning)
    uses = [list(result.uses) for result in reduce.results]
    whole = tile.CombineOp(reduce.monoid_name.data, reduce.results, [found.member])
    whole.location = reduce.location
    Rewriter.insert_op(whole, InsertPoint.after(reduce))
    for own, result, new in zip(uses, reduce.results, whole.results, strict=True):
        new.name_hint = result.name_hint
        for use in own:
            use.operation.operands[use.index] = new


def _rise(hold: tile.HoldOp, found: ThreadSlabs) -> None:
    """
    Finds the largest score of a chunk together with that of all chunks before it: what is summed so
    far is then multiplied with one factor, and a chunk is added as it is.
    """
    chunk, (largest,) = hold.parent_op(), hold.yielded.values
    combined = largest.owner
    if not isinstance(chunk, tile.ReduceOp) or not isinstance(combined, tile.CombineOp):
        return
    if combined.monoid_name.data != "max" or chunk.monoid_name.data != EXPSUM:
        return
    chunk.rising = UnitAttr()
    at = [] if found.row is None else [Expr.of(hold.axes[0])]
    before = tile.SoFarOp(at, largest.type)
    before.result.name_hint = "before"
    risen = arith.MaximumfOp(before.result, largest)
    risen.result.name_hint = largest.name_hint
    Rewriter.insert_op([before, risen], InsertPoint.before(hold.yielded))
    hold.yielded.operands[0] = risen.result


def _read(load: tile.LoadOp, hold: tile.HoldOp, found: ThreadSlabs) -> None:
    """A load of what threads hold in place of a slab."""
    row, *key = load.subscripts
    new = tile.LoadOp(hold.result, [row - found.first, *key], load.where, load.default)
    new.result.name_hint, new.location = load.result.name_hint, load.location
    Rewriter.replace_op(load, new)


def _threads(found: ThreadSlabs) -> int:
    """How many threads share a row."""
    return int(most(found.member)) + 1


def _key(number: Expr, within: Expr, found: ThreadSlabs) -> Expr:
    """The key that a thread has within one of its runs: neighbours have neighbouring runs."""
    return (number * _threads(found) + Expr.of(found.member)) * found.run + within
