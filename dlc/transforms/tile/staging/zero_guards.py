"""Sums of products whose factors are staged need no guard where all factors are 0."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from dlc.dialects import tile
from dlc.dialects.size_index import extents_at
from dlc.ir.expr import Expr


def drop_guards_of_zeros(reduce: tile.ReduceOp) -> None:
    """
    Drops the conditions of sums of products that hold exactly where a subscript of every factor
    is within its input: beyond, all are 0, and so are their products. A computed factor is 0 where
    its own conditions say so.
    """
    yielded = reduce.yielded
    owners = [value.owner for value in yielded.values]
    products = [op for op in owners if isinstance(op, arith.MulfOp)]
    if reduce.monoid_name.data != "add" or len(products) < len(owners):
        return
    known = [zero_unless(factor) for product in products for factor in product.operands]
    kept = [c for c in yielded.where if not all(c in conditions for conditions in known)]
    if len(kept) < len(yielded.where):
        yielded.set_index(yielded.subscripts, kept)


def zero_unless(value: SSAValue) -> list[Expr]:
    """Conditions such that a staged value is 0 where one of them does not hold."""
    load = value.owner
    if isinstance(load, arith.ExtFOp):
        return zero_unless(load.input)
    if not isinstance(load, tile.LoadOp) or load.where:
        return []
    stage = load.ref.owner
    if isinstance(stage, tile.ComputeOp):
        at: dict[SSAValue, Expr] = dict(zip(stage.axes, load.subscripts, strict=True))
        return [c.substitute(at.get) for c in stage.yielded.where]
    if not isinstance(stage, tile.StageOp):
        return []
    within = iter(load.subscripts)
    extents = extents_at(stage.source, stage)
    return [
        extent - 1 - (base if size == 1 else base + next(within))
        for base, size, extent in zip(stage.subscripts, stage.slab_sizes, extents, strict=True)
    ]
