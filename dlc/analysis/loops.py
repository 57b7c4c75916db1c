"""What passes ask of the loops of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import MemoryEffectKind, get_effects

from dlc.dialects.axes import AxesOp
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp, YieldOp
from dlc.ir.variance import Variance, variance


def only_computes(op: Operation) -> bool:
    """Does `op` do nothing but compute its results, reading memory at most?"""
    if isinstance(op, ForOp | StoreOp | YieldOp):
        return False
    effects = get_effects(op)
    return effects is not None and all(e.kind is MemoryEffectKind.READ for e in effects)


def trip_count(op: AxesOp) -> int:
    """The number of points of a loop's axes."""
    return prod(int(n) for n in op.extents.get_values())


def split_levels(chain: Sequence[ForOp]) -> list[list[BlockArgument]]:
    """
    The axes of a chain of loops, each the only loop in the one before, grouped so that every
    reduce in them can stand inside the axes that it varies along and no others. Where two reduces
    vary along sets of axes neither of which holds the other, the one with more work decides.
    """
    axes = [a for loop in chain for a in loop.axes]
    extents = {a: loop.extent(a) for loop in chain for a in loop.axes}
    reduces = [op for loop in chain for op in loop.body.block.ops if isinstance(op, ReduceOp)]
    if not reduces:
        return [axes]
    along = variance(chain[0])
    candidates: dict[frozenset[SSAValue], int] = {}
    for reduce in reduces:
        varies = along[reduce.results[0]].intersection(axes)
        work = trip_count(reduce) * prod(extents[a] for a in axes if a in varies)
        candidates[varies] = candidates.get(varies, 0) + work
    nested: list[frozenset[SSAValue]] = [frozenset(axes)]
    for varies in sorted(candidates, key=candidates.__getitem__, reverse=True):
        if all(varies <= other or other <= varies for other in nested):
            nested.append(varies)
    levels: list[list[BlockArgument]] = []
    placed = set[SSAValue]()
    for varies in sorted(nested, key=len):
        if level := [a for a in axes if a in varies and a not in placed]:
            levels.append(level)
            placed.update(level)
    return levels


@dataclass(frozen=True)
class Contraction:
    """
    A reduce over products (or the like) of two operands that each vary along axes that the other
    does not vary along. A matmul has rows `(m,)` and columns `(n,)` and reduces along k.
    """

    reduce: ReduceOp
    batch: tuple[SSAValue, ...]
    """The axes along which both operands vary."""
    rows: tuple[SSAValue, ...]
    """The axes of the first operand only."""
    columns: tuple[SSAValue, ...]
    """The axes of the second operand only."""
    row_loads: tuple[LoadOp, ...]
    column_loads: tuple[LoadOp, ...]


def contraction_of(reduce: ReduceOp, along: Variance) -> Contraction | None:
    """
    How a reduce is a contraction, or None if it is none: two of its loads vary each along an axis
    that the other does not, and every other load varies along axes of one of the two.
    `along` is the variance of the kernel.
    """
    own = set[SSAValue](reduce.axes)
    for op in reduce.body.walk():
        if isinstance(op, ReduceOp) and op is not reduce:
            own.update(op.axes)
    loads = [
        (op, along[op.result] - own)
        for op in reduce.body.walk()
        if isinstance(op, LoadOp) and along[op.result] & own
    ]
    pairs = [
        (a, b) for n, (_, a) in enumerate(loads) for _, b in loads[n + 1 :] if a - b and b - a
    ]
    if not pairs:
        return None
    a, b = max(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    if not all(varies <= a or varies <= b for _, varies in loads):
        return None
    order = list(dict.fromkeys(axis for loop in _around(reduce) for axis in loop.axes))
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


def contractions(kernel: KernelOp) -> list[Contraction]:
    """The contractions of a kernel, in program order."""
    along = variance(kernel)
    reduces = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    return [c for r in reduces if (c := contraction_of(r, along)) is not None]


def _around(op: Operation) -> list[AxesOp]:
    """The loops around an operation, outermost first."""
    loops: list[AxesOp] = []
    while isinstance(parent := op.parent_op(), AxesOp):
        loops.insert(0, parent)
        op = parent
    return loops
