"""Sums of what is staged need no guard where that is 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from xdsl.dialects import arith, math
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS
from xdsl.ir import Operation, SSAValue

from dlc.dialects import tile
from dlc.dialects.factor_types import Product, Widening
from dlc.dialects.size_index import extents_at
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number
from dlc.ir.monoid import POWERS


def drop_guards_of_zeros(reduce: tile.ReduceOp) -> None:
    """
    Drops the conditions of sums that hold exactly where what is added is 0 otherwise: a staged
    element that is within its input, or products of which every factor is so, as both have to be
    numbers. A computed value is 0 where its own conditions say so, and a power of a score that is
    -inf.
    """
    yielded = reduce.yielded
    if reduce.monoid_name.data != "add" or not yielded.where:
        return
    factors = [f for value in yielded.values for f in _factors(value)]
    known = [zero_unless(factor) for factor in factors]
    kept = [c for c in yielded.where if not all(c in conditions for conditions in known)]
    if len(kept) < len(yielded.where):
        yielded.set_index(yielded.subscripts, kept)


def _factors(value: SSAValue) -> Sequence[SSAValue]:
    product = value.owner
    return product.operands if isinstance(product, Product) else [value]


def zero_unless(value: SSAValue) -> list[Expr]:
    """Conditions such that a staged value is 0 where one of them does not hold."""
    load = value.owner
    if isinstance(load, Widening):
        return zero_unless(load.input)
    if isinstance(load, Operation) and load.name in POWERS.values():
        return _power_zero_unless(load)
    if not isinstance(load, tile.LoadOp) or load.where:
        return []
    stage = load.ref.owner
    if isinstance(stage, tile.ComputeOp):
        known = [*stage.yielded.where, *zero_unless(stage.yielded.values[0])]
        return _loaded(known, stage, load)
    if not isinstance(stage, tile.StageOp):
        return []
    within = iter(load.subscripts)
    extents = extents_at(stage.source, stage)
    slab = zip(stage.subscripts, stage.slab_sizes, stage.slab_steps, extents, strict=True)
    return [
        extent - 1 - (base if size == 1 else base + next(within) * step)
        for base, size, step, extent in slab
    ]


def _loaded(known: Sequence[Expr], stage: tile.ComputeOp, load: tile.LoadOp) -> list[Expr]:
    """What is known of an element of a computed slab where it is loaded."""
    at: dict[SSAValue, Expr] = dict(zip(stage.axes, load.subscripts, strict=True))
    return [c.substitute(at.get) for c in known]


def _power_zero_unless(power: Operation) -> list[Expr]:
    """Conditions such that e^(x - m) is 0, as x is -inf and m is not, where one does not hold."""
    exponent = power.operands[0].owner
    if not isinstance(exponent, arith.SubfOp):
        return []
    origin = exponent.rhs.owner  # 0 where the largest is infinite
    if not isinstance(origin, arith.SelectOp) or not isinstance(origin.cond.owner, arith.CmpfOp):
        return []
    infinite = origin.cond.owner
    asked = infinite.lhs.owner
    finite = (
        isinstance(asked, math.AbsFOp)
        and asked.operand is origin.rhs
        and infinite.predicate.value.data == CMPF_COMPARISON_OPERATIONS.index("oeq")
        and is_number(infinite.rhs, inf)
        and is_number(origin.lhs, 0.0)
    )
    return _least_unless(exponent.lhs) if finite else []


def _least_unless(value: SSAValue) -> list[Expr]:
    """Conditions such that a value is -inf where one of them does not hold."""
    match value.owner:
        case tile.SelectOp(value=other, default=default) as select if is_number(default, -inf):
            return [*select.where, *_least_unless(other)]
        case tile.LoadOp() as load if not load.where and isinstance(load.ref.owner, tile.ComputeOp):
            stage = load.ref.owner
            known = [] if stage.yielded.where else _least_unless(stage.yielded.values[0])
            return _loaded(known, stage, load)
        case _:
            return []
