"""
How a reduce whose largest exponent only rises folds what its body yields: what it has so far is
multiplied once, and what warps sum of products of matrices is then added in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.diagnostics import fail
from dlc.dialects import tile
from dlc.ir.expr import Expr
from dlc.ir.monoid import kept
from dlc.transforms.kernel.lowering.reduce_lowering import ReduceLowering, Totals


def sums_in_place(op: tile.ReduceOp) -> dict[tile.ReduceOp, int]:
    """
    The sums by warps in the body of a rising reduce that are only yielded, after its largest is
    known, and the numbers of the values that they are.
    """
    largest, last = op.yielded.values[0].owner, op.yielded
    found: dict[tile.ReduceOp, int] = {}
    if op.rising is None or (last.where and op.skips is None):
        return found
    for number, value in enumerate(last.values):
        sums = value.owner
        if not isinstance(sums, tile.ReduceOp) or not isinstance(largest, Operation):
            continue
        known = largest.parent is sums.parent is last.parent and largest.is_before_in_block(sums)
        alone = len(sums.results) == 1 and value.has_one_use()
        if known and alone and sums.lanes and not sums.has_own_sums and sums.rounds:
            found[sums] = number
    return found


def read_so_far(to: ReduceLowering, op: tile.SoFarOp, totals: Sequence[Totals]) -> None:
    """
    Reads the largest that a reduce has so far, at other points than those of its axes. OpError for
    subscripts that are not one for each of these.
    """
    largest = next(each for each in totals if 0 in each.numbers)
    if len(largest.axes) != len(op.subscripts):
        names = ", ".join(f"%{axis.name_hint}" for axis in largest.axes)
        message = f"expected a point of each of the register axes ({names}), found "
        fail(op, f"{message}{len(op.subscripts)}", "the largest has an element for each")
    at = dict[SSAValue, Expr](zip(largest.axes, op.subscripts, strict=True))
    load = tile.LoadOp(largest.refs[0], [e.substitute(at.get) for e in largest.point])
    load.result.name_hint, load.location = op.result.name_hint, op.location
    Rewriter.replace_op(op, load)


def fold_rising(
    to: ReduceLowering,
    op: tile.ReduceOp,
    totals: Sequence[Totals],
    values: Sequence[SSAValue],
    in_place: Mapping[tile.ReduceOp, int],
) -> None:
    """
    Makes what a reduce has so far relative to the largest that its body yields, before the first
    sum that is added in place, and folds the other values where the yield is.
    """
    to.before(next((o for o in op.body.block.ops if o in in_place), op.yielded))
    loads = to.loaded(op, totals)
    to.insert(loads[0], loads[0].ref.name_hint)
    factor = kept(to.builder, loads[0].result, values[0], op.monoid_name.data)
    for each in totals:
        if {*each.numbers}.issubset(in_place.values()):
            for number in each.numbers:
                to.insert(loads[number], loads[number].ref.name_hint)
            scaled = [to.insert(arith.MulfOp(loads[n].result, factor)) for n in each.numbers]
            with to.each(each.axes):
                to.write(each, scaled)
    to.before(op.yielded)
    new = dict[int, SSAValue]({0: values[0]})
    for number, load in enumerate(loads):
        if number and number not in in_place.values():
            to.insert(load, load.ref.name_hint)
            new[number] = to.insert(math.FmaOp(load.result, factor, values[number]))
    for each in totals:
        if not {*each.numbers}.issubset(in_place.values()):
            with to.each(each.axes):
                to.write(each, [new[n] for n in each.numbers])
