"""Slabs are staged or computed in shared memory, and loaded from there."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.input_slabs import Slab
from dlc.analysis.tile.operands import ComputedOperand
from dlc.dialects import tile
from dlc.dialects.axes import loops_around, new_body
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.size_index import extents_at
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number
from dlc.transforms.tile.staging.zero_guards import zero_unless


def stage(slab: Slab) -> None:
    """Stages a slab at the start of its scope and redirects its loads."""
    block: Block = slab.scope.body.block
    staged = tile.StageOp(slab.source, slab.base, slab.sizes, slab.steps)
    staged.result.name_hint = f"{slab.source.name_hint}_smem"
    staged.location = next(iter(slab.loads)).location
    first = next(op for op in block.ops if not isinstance(op, tile.StageOp))
    Rewriter.insert_op(staged, InsertPoint.before(first))
    for load, within in slab.loads.items():
        subscripts = [e for e, size in zip(within, slab.sizes, strict=True) if size != 1]
        where = _needed(load)
        new = tile.LoadOp(staged.result, subscripts, where, load.default if where else None)
        new.result.name_hint = load.result.name_hint
        new.location = load.location
        Rewriter.replace_op(load, new)


def _needed(load: tile.LoadOp) -> list[Expr]:
    """
    The conditions of a load that it needs where it loads of a slab, which is safe to read anywhere
    and 0 beyond its source: not those that keep it within the source, if it would be 0 otherwise,
    nor those without which the reduce that it is in folds nothing.
    """
    if load.default is None:
        return []
    known: set[Expr] = set()
    if is_number(load.default, 0):
        for subscript, extent in zip(load.subscripts, extents_at(load.ref, load), strict=True):
            known |= {subscript, extent - 1 - subscript}
    for around in loops_around(load):
        if isinstance(around, tile.ReduceOp):
            known.update(around.yielded.where)
    return [c for c in load.where if c not in known]


def compute(operand: ComputedOperand, points: Sequence[int] = ()) -> tile.LoadOp:
    """
    Computes an operand after the slabs of its inputs and their neighbours, as 0 where its reduce
    folds nothing because an input ends, and loads it where it was computed. If it is a sum, a
    thread holds so many of its last `points` at once, one along other axes.
    """
    value, old = operand.value, operand.value.owner
    assert isinstance(old, Operation)
    around = old.parent_op()
    body = new_body(len(operand.sizes), "pqrstuvw")
    element = [Expr.of(a) for a in body.block.args]

    def at(exprs: Sequence[Expr]) -> list[Expr]:
        found = [operand.at(e, element) for e in exprs]
        return [e.substitute(copies.get) for e in found if e is not None]

    copies: dict[SSAValue, SSAValue] = {}
    beyond: list[Expr] = []
    for op in operand.ops:
        new = op.clone(copies)
        new.location = op.location
        if isinstance(op, IndexedOp) and isinstance(new, IndexedOp):
            new.set_index(at(op.subscripts), at(op.where))
        for inner in new.walk():
            if inner is not new and isinstance(inner, IndexedOp):
                inner.set_index(at(inner.subscripts), at(inner.where))
        body.block.add_op(new)
        beyond += zero_unless(new.results[0])
    folded = around.yielded.where if isinstance(around, tile.ReduceOp) else []
    where = [c for c in at(folded) if c in beyond]
    body.block.add_op(tile.YieldOp([copies[value]], where))
    held = None
    if operand.reduces:
        rank = len(operand.sizes)
        wanted = [*[1] * rank, *points][-rank:] if rank > 1 else [1] * rank
        held = [gcd(n, size) for n, size in zip(wanted, operand.sizes, strict=True)]
    slab = tile.ComputeOp(operand.sizes, value.type, body, held)
    slab.result.name_hint = f"{operand.name}_smem"
    slab.location = old.location
    last = operand.last_stage
    while isinstance(last.next_op, tile.StageOp | tile.ComputeOp):
        last = last.next_op
    Rewriter.insert_op(slab, InsertPoint.after(last))
    load = tile.LoadOp(slab.result, operand.places)
    load.result.name_hint = value.name_hint
    load.location = old.location
    Rewriter.replace_op(old, load)
    for op in reversed(operand.ops[:-1]):
        if not any(r.uses for r in op.results):
            Rewriter.erase_op(op)
    return load
