"""Along which axes a value varies: those that its definition mentions, directly or not."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from dlc.ir.expr import range_of

Variance = dict[SSAValue, frozenset[SSAValue]]


def variance(root: Operation, sources: Collection[SSAValue] = ()) -> Variance:
    """
    For every value defined in `root` or used there, the axes (block arguments of `root` and of
    the loops in it, and results that are `sources`) along which it varies. A reduce's own axes and
    the axes that a combine folds across are gone from their results; values from outside, and axes
    of one point, vary along none.
    """
    along: Variance = {}
    _visit(root, along, sources)
    return along


def _visit(op: Operation, along: Variance, sources: Collection[SSAValue]) -> None:
    for operand in op.operands:
        along.setdefault(operand, frozenset())
    varies = frozenset[SSAValue]().union(*(along[v] for v in op.operands))
    for region in op.regions:
        for block in region.blocks:
            varies |= _visit_block(block, along, sources)
    varies -= frozenset(getattr(op, "axes", ())) if op.results else frozenset()
    for result in op.results:
        along[result] = frozenset((result,)) if result in sources else varies


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
