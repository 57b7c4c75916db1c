"""Questions that passes and reports ask of the loops of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import (
    MemoryEffect,
    MemoryEffectKind,
    MemoryReadEffect,
    NoMemoryEffect,
    Pure,
    get_effects,
)

from dlc.dialects.axes import AxesOp
from dlc.dialects.loop import ForOp, ReduceOp, StoreOp, YieldOp, scans_in
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.ir.expr import Expr, constant_of
from dlc.ir.variance import variance


def only_computes(op: Operation) -> bool:
    """True if `op` does nothing but compute its results, reading memory at most."""
    if isinstance(op, ForOp | StoreOp | YieldOp):
        return False
    if (known := _always_computes(type(op))) is not None:
        return known
    effects = get_effects(op)
    return effects is not None and all(e.kind is MemoryEffectKind.READ for e in effects)


@cache
def _always_computes(kind: type[Operation]) -> bool | None:
    """What `only_computes` says of all operations of a class, if that follows from the class."""
    effects = [trait for trait in kind.traits if isinstance(trait, MemoryEffect)]
    if effects and all(type(e) in (Pure, NoMemoryEffect, MemoryReadEffect) for e in effects):
        return True
    return None


def computed_alike(a: SSAValue, b: SSAValue, axes: Mapping[SSAValue, SSAValue]) -> bool:
    """True if two values are computed alike, some axes standing for others."""
    alike = dict(axes)
    pending = [(a, b)]
    seen = {*pending}
    while pending:
        x, y = pending.pop()
        if x is y or alike.get(x) is y:
            continue
        one, two = x.owner, y.owner
        if isinstance(one, Block) or isinstance(two, Block):
            return False
        if not _do_alike(one, two) or one.results.index(x) != two.results.index(y):
            return False
        pairs = list(zip(one.operands, two.operands, strict=True))
        for own, other in zip(one.regions, two.regions, strict=True):
            alike.update(zip(own.block.args, other.block.args, strict=True))
            ends = own.block.last_op, other.block.last_op
            assert None not in ends
            pairs += zip(*(end.operands for end in ends if end is not None), strict=True)
        new = dict.fromkeys(pair for pair in pairs if pair not in seen)
        pending += new
        seen.update(new)
    return True


def _do_alike(a: Operation, b: Operation) -> bool:
    """True if two operations do the same to what they are given, and yield alike of their axes."""
    if len(a.regions) != len(b.regions) or not _same(a, b):
        return False
    if a.regions and not (isinstance(a, ReduceOpBase) and isinstance(b, ReduceOpBase)):
        return False
    ends = zip(map(_end, a.regions), map(_end, b.regions), strict=True)
    return all(_same(one, other) for one, other in ends)


def _same(a: Operation, b: Operation) -> bool:
    """True if two operations are equal but for their operands and regions."""
    same = (a.name, a.properties, a.result_types) == (b.name, b.properties, b.result_types)
    return same and len(a.operands) == len(b.operands)


def _end(region: Region) -> Operation:
    last = region.block.last_op
    assert last is not None
    return last


def trip_count(op: AxesOp) -> int:
    """The number of points of a loop's axes, as schedules and estimates assume it."""
    return prod(map(op.hint, op.axes))


MAX_COUNTED = 4096
"""Points of the axes of a condition that are looked at, to tell how often it holds."""


def share_folded(op: ReduceOp) -> float:
    """
    The share of a reduce's points at which its conditions hold, each as if it were the only one;
    all of them where the axes have too many points to count.
    """
    return share_held(op.yielded.where)


def share_held(conditions: Iterable[Expr]) -> float:
    """The share of points at which conditions hold, as `share_folded` counts them."""
    return prod(map(_share, conditions))


def _share(condition: Expr) -> float:
    axes = [v for v in dict.fromkeys(condition.values()) if isinstance(v, BlockArgument)]
    owners = [axis.owner.parent_op() for axis in axes]
    if not axes or len(axes) < len({*condition.values()}):
        return 1.0
    extents = [o.hint(a) for o, a in zip(owners, axes, strict=True) if isinstance(o, AxesOp)]
    if len(extents) < len(axes) or not 0 < prod(extents) <= MAX_COUNTED:
        return 1.0
    return _held(condition, axes, extents) / prod(extents)


def _held(condition: Expr, axes: Sequence[BlockArgument], extents: Sequence[int]) -> int:
    """The points of axes at which a condition holds."""
    steps = [condition.coefficient(axis) for axis in axes]
    if any(step is None for step in steps):
        points = product(*map(range, extents))
        values = (condition.evaluate(dict(zip(axes, point, strict=True))) for point in points)
        return sum(value >= 0 for value in values)
    # Of the longest axis it holds at a run of points that begins or ends with it.
    *others, (extent, step) = sorted((n, step or 0) for n, step in zip(extents, steps, strict=True))
    values = [condition.constant]
    for n, by in others:
        values = [value + by * at for value in values for at in range(n)]
    if step == 0:
        return extent * sum(value >= 0 for value in values)
    held = (value // abs(step) + 1 if step < 0 else extent - -(value // step) for value in values)
    return sum(min(max(n, 0), extent) for n in held)


def longest_reduction(module: ModuleOp) -> int:
    """
    The points of the longest reduce or scan of a module, reduces and Kernel IR's loops around it
    too.
    """
    return max(map(_terms, module.walk()), default=1)


def _terms(op: Operation | None) -> int:
    count = 1
    while op is not None:
        if isinstance(op, ReduceOpBase) or (isinstance(op, ForOp) and scans_in(op)):
            count *= trip_count(op)
        elif isinstance(op, scf.ForOp):
            count *= constant_of(op.ub) or 1
        op = op.parent_op()
    return count


def split_levels(chain: Sequence[ForOp]) -> list[list[BlockArgument]]:
    """
    The axes of a chain of loops, each the only loop in the one before, grouped so that every
    reduce in them can stand inside the axes that it varies along and no others. Where two reduces
    vary along sets of axes neither of which holds the other, the one with more work decides.
    """
    axes = [a for loop in chain for a in loop.axes]
    extents = {a: loop.hint(a) for loop in chain for a in loop.axes}
    reduces = [op for loop in chain for op in loop.body.block.ops if isinstance(op, ReduceOp)]
    if not reduces:
        return [axes]
    along = variance(chain[0])
    candidates: dict[frozenset[SSAValue], int] = {}
    for reduce in reduces:
        varies = frozenset[SSAValue](a for a in axes if any(a in along[r] for r in reduce.results))
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
