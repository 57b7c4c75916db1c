"""Along which axes a value varies: those that its definition mentions, directly or not."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from dlc.ir.expr import range_of
from dlc.ir.monoid import Monoid

Variance = dict[SSAValue, frozenset[SSAValue]]
_NONE: frozenset[SSAValue] = frozenset()


def variance(root: Operation, sources: Collection[SSAValue] = ()) -> Variance:
    """
    For every value defined in `root` or used there, the axes (block arguments of `root` and of
    the loops in it, and results that are `sources`) along which it varies. A reduce's own axes and
    the axes that a combine folds across, or that hold a row together, are gone from their results,
    each of which varies as what it is made of does; values from outside, and axes of one point,
    vary along none.
    """
    along: Variance = {}
    _visit(root, along, sources)
    return along


def _visit(op: Operation, along: Variance, sources: Collection[SSAValue]) -> None:
    varies = _NONE
    for operand in op.operands:
        if found := along.setdefault(operand, _NONE):
            varies = varies | found if varies else found
    for region in op.regions:
        for block in region.blocks:
            varies |= _visit_block(block, along, sources)
    if not (results := op.results):
        return
    own = _NONE
    for name in _names_own(type(op)):
        own = own.union(getattr(op, name))
    for n, result in enumerate(results):
        folded = varies if len(results) == 1 else _of_result(op, n, varies, along)
        if result in sources:
            along[result] = frozenset((result,))
        else:
            along[result] = folded - own if own else folded


@cache
def _names_own(kind: type[Operation]) -> list[str]:
    """The names by which operations of a class tell what their results do not vary along."""
    known = {name for base in kind.__mro__ for name in vars(base)}
    return [name for name in ("axes", "across") if name in known]


def _of_result(
    op: Operation, number: int, varies: frozenset[SSAValue], along: Variance
) -> frozenset[SSAValue]:
    """Along what one of several results varies: a fold's, as the values do that it is made of."""
    monoid, last = getattr(op, "monoid", None), op.regions[0].block.last_op if op.regions else None
    if not isinstance(monoid, Monoid) or last is None:
        return varies
    count = len(op.results)
    made_of = monoid.needed(tuple(op.result_types))[number]
    needed = [v for n, v in enumerate(last.operands) if n >= count or n in made_of]
    return frozenset[SSAValue]().union(*(along[v] for v in (*op.operands, *needed)))


def _visit_block(
    block: Block, along: Variance, sources: Collection[SSAValue]
) -> frozenset[SSAValue]:
    """Visits a body; returns along what its terminator's operands vary."""
    for argument in block.args:
        several = isinstance(argument.type, IndexType) and range_of(argument) != (0, 0)
        along[argument] = frozenset((argument,)) if several else frozenset()
    for op in block.ops:
        _visit(op, along, sources)
    last = block.last_op
    return frozenset[SSAValue]().union(*(along[v] for v in last.operands)) if last else frozenset()
