"""The least work of a sum in which another one is computed at each point; see `least_folds`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from dlc.analysis.loop.loops import share_held, trip_count
from dlc.dialects.axes import loops_around
from dlc.dialects.loop import KernelOp, LoadOp, ReduceOp, ScanOp, SelectOp, StoreOp
from dlc.ir.bounds import never
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number
from dlc.ir.variance import Variance, variance


def least_folds(producer: KernelOp, consumer: KernelOp) -> int:
    """
    How many elements are folded, at the least, where `consumer` computes what it loads of the
    result of `producer` within a sum of its own, both in normal form: 0 where that need not be.

    A sum that varies along an axis of the one that it is computed in stays in that, and whatever it
    is in is computed at all points of the axes that it varies along. No other order of loops, no
    hoisting and no tiles spare any of it: of what is tiled, sums hold no sums; what sweeps once for
    a largest and for sums relative to it may, so only sums are looked at.
    """
    kernels = (producer, consumer)
    folds = [op for k in kernels for op in k.walk() if isinstance(op, ReduceOp | ScanOp)]
    if not all(isinstance(op, ReduceOp) and op.adds_floats for op in folds):
        return 0
    result = producer.outputs[0]
    inputs = zip(consumer.input_refs, consumer.inputs, strict=True)
    refs = {ref for ref, tensor in inputs if tensor is result}
    loads = [op for op in consumer.walk() if isinstance(op, LoadOp) and op.ref in refs]
    if not all(_is_plain(subscript) for load in loads for subscript in load.subscripts):
        return 0  # the loops of the consumer may be taken apart (`unflattened`)
    inner = [op for op in producer.walk() if isinstance(op, ReduceOp)]
    (store,) = (op for op in producer.walk() if isinstance(op, StoreOp))
    within = [(load, fold) for load in loads if (fold := _fold_around(load)) is not None]
    if not inner or not within:
        return 0
    along = variance(consumer)
    merges = (_Nested(load, fold, store, refs, along) for load, fold in within)
    return max(nested.least(op) for nested in merges for op in inner)


def _is_plain(subscript: Expr) -> bool:
    return all(isinstance(atom, SSAValue) for atom, _ in subscript.terms)


def _fold_around(load: LoadOp) -> ReduceOp | None:
    """The innermost reduce around a load."""
    folds = [op for op in loops_around(load) if isinstance(op, ReduceOp)]
    return folds[-1] if folds else None


@dataclass(frozen=True)
class _Nested:
    """A load of what a kernel stores, in a reduce of another one that computes it there."""

    load: LoadOp
    fold: ReduceOp
    store: StoreOp
    refs: AbstractSet[SSAValue]
    """The memrefs of what is stored."""
    along: Variance

    def least(self, inner: ReduceOp) -> int:
        """The least number of elements that a reduce of the kernel that stores folds there."""
        at: dict[SSAValue, Expr] = {}
        for stored, wanted in zip(self.store.subscripts, self.load.subscripts, strict=True):
            at.update(dict.fromkeys(stored.values(), wanted))
        if (varies := _least_variance(inner, at)) is None or varies.isdisjoint(self.fold.axes):
            return 0
        others = (
            self.along[op.result]
            for op in self.fold.body.walk()
            if isinstance(op, LoadOp) and op.ref not in self.refs
        )
        varies = varies.union(*others)
        loops = loops_around(self.load)
        points = prod(op.hint(axis) for op in loops for axis in op.axes if axis in varies)
        points = int(points * _least_share(self.fold, {}, ()))
        return int(points * trip_count(inner) * _least_share(inner, at, self.load.where))


def _least_variance(inner: ReduceOp, at: Mapping[SSAValue, Expr]) -> frozenset[SSAValue] | None:
    """
    Axes along which a reduce varies for sure where expressions stand for the axes around it; None
    where some of what it loads is never asked for. One at least of the loads that have conditions
    is there, however these turn out.
    """
    always, perhaps = frozenset[SSAValue](), list[frozenset[SSAValue]]()
    for op in inner.body.walk():
        if not isinstance(op, LoadOp):
            continue
        if any(never(condition.substitute(at.get)) for condition in op.where):
            return None
        terms = (term for s in op.subscripts for term in s.substitute(at.get).terms)
        varies = frozenset(atom for atom, _ in terms if isinstance(atom, SSAValue))
        if op.where:
            perhaps.append(varies)
        else:
            always |= varies
    return always.union(perhaps[0].intersection(*perhaps) if perhaps else ())


def _least_share(fold: ReduceOp, at: Mapping[SSAValue, Expr], where: Iterable[Expr]) -> float:
    """
    The least share of its points at which a sum folds, `where` being conditions of all of it: it
    skips those at which each factor is 0 for conditions of a load or select (`GuardSum`).
    """

    def share(conditions: Iterable[Expr]) -> float:
        placed = [condition.substitute(at.get) for condition in conditions]
        return share_held(dict.fromkeys((*placed, *where)))

    own = fold.yielded.where
    return min((share((*own, *guard)) for guard in _guards(fold)), default=share(own))


def _guards(fold: ReduceOp) -> Iterator[tuple[Expr, ...]]:
    """The conditions of each value of a reduce that is 0 where one of them does not hold."""
    for op in fold.body.walk():
        if isinstance(op, LoadOp | SelectOp) and op.where and is_number(op.default, 0):
            yield op.where
