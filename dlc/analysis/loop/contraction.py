"""Contractions: reduces of products of operands that each lack an axis of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from dlc.dialects.access import LoadOpBase
from dlc.dialects.axes import loops_around
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.variance import Variance, variance


@dataclass(frozen=True)
class Contraction:
    """
    A reduce over products (or the like) of two operands that each vary along axes that the other
    does not vary along. A matmul has rows `(m,)` and columns `(n,)` and reduces along k.
    """

    reduce: ReduceOpBase
    batch: tuple[SSAValue, ...]
    """The axes along which both operands vary."""
    rows: tuple[SSAValue, ...]
    """The axes of the first operand only."""
    columns: tuple[SSAValue, ...]
    """The axes of the second operand only."""
    row_loads: tuple[LoadOpBase, ...]
    column_loads: tuple[LoadOpBase, ...]

    @property
    def turned(self) -> Contraction:
        """The same with its columns as rows."""
        rows, row_loads = self.rows, self.row_loads
        turned = replace(self, rows=self.columns, row_loads=self.column_loads)
        return replace(turned, columns=rows, column_loads=row_loads)


def contraction_of(reduce: ReduceOpBase, along: Variance) -> Contraction | None:
    """
    The contraction that a reduce is, or None: two of its loads vary each along an axis that the
    other does not, and every other load varies along axes of one of the two. `along` is the
    variance of the kernel. One that ends where memory says is none: points have no ends in common.
    """
    if reduce.about is not None:
        return None
    own = set[SSAValue](reduce.axes)
    for op in reduce.body.walk():
        if isinstance(op, ReduceOpBase) and op is not reduce:
            own.update(op.axes)
    loads = [
        (op, along[op.result] - own)
        for op in reduce.body.walk()
        if isinstance(op, LoadOpBase) and along[op.result] & own
    ]
    pairs = [(a, b) for n, (_, a) in enumerate(loads) for _, b in loads[n + 1 :] if a - b and b - a]
    if not pairs:
        return None
    a, b = max(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    if not all(varies <= a or varies <= b for _, varies in loads):
        return None
    order = list(dict.fromkeys(axis for loop in loops_around(reduce) for axis in loop.axes))
    first = next((axis for axis in order if (axis in a) != (axis in b)), None)
    if first is not None and first in b:
        a, b = b, a
    return Contraction(
        reduce,
        tuple(x for x in order if x in a and x in b),
        tuple(x for x in order if x in a and x not in b),
        tuple(x for x in order if x in b and x not in a),
        tuple(op for op, varies in loads if varies <= a),
        tuple(op for op, varies in loads if not varies <= a),
    )


def factors(c: Contraction, along: Variance) -> tuple[int, int]:
    """
    The numbers of values along rows alone, and along columns alone, that are multiplied with one of
    the others: one each, but sums that share an operand have one of it and several of the other.
    """
    rows, columns = frozenset(c.rows), frozenset(c.columns)
    met = {
        operand
        for op in c.reduce.body.walk()
        if any(along[r] & rows and along[r] & columns for r in op.results)
        for operand in op.operands
    }
    row_values = [v for v in met if along[v] & rows and not along[v] & columns]
    column_values = [v for v in met if along[v] & columns and not along[v] & rows]
    return max(len(row_values), 1), max(len(column_values), 1)


def contractions(root: Operation) -> list[Contraction]:
    """The contractions in a kernel or launch, in program order."""
    reduces = [op for op in root.walk() if isinstance(op, ReduceOpBase)]
    along = variance(root) if reduces else {}
    return [c for r in reduces if (c := contraction_of(r, along)) is not None]


def operands_of(root: Operation) -> set[SSAValue]:
    """
    The memrefs that the contractions of a kernel or launch read, and those that reduces as of a
    matrix and a vector do, where one varies along no free axis.
    """
    reduces = [op for op in root.walk() if isinstance(op, ReduceOpBase)]
    along = variance(root) if reduces else {}
    found = set[SSAValue]()
    for reduce in reduces:
        c = contraction_of(reduce, along)
        loads = _matrix_and_vector(reduce, along) if c is None else (*c.row_loads, *c.column_loads)
        found.update(load.ref for load in loads)
    return found


def _matrix_and_vector(reduce: ReduceOpBase, along: Variance) -> list[LoadOpBase]:
    """The loads of a reduce of which one varies along its axes alone and one along others, too."""
    own = set[SSAValue](reduce.axes)
    loads = [
        op for op in reduce.body.walk() if isinstance(op, LoadOpBase) and along[op.result] & own
    ]
    vectors = [op for op in loads if along[op.result] <= own]
    return loads if vectors and len(vectors) < len(loads) else []


def weight_axes(reduce: ReduceOpBase, along: Variance) -> tuple[SSAValue, ...]:
    """
    The axes around a fold of powers of e along which its weights vary, but no exponent. Where there
    are any, each power is multiplied with several weights.
    """
    exponent, *weights = reduce.yielded.values
    varies = frozenset[SSAValue]().union(*(along[w] for w in weights)) - along[exponent]
    order = dict.fromkeys(axis for loop in loops_around(reduce) for axis in loop.axes)
    return tuple(axis for axis in order if axis in varies)
