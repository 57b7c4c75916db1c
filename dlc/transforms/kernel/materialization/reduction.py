"""How reduces and combines become accumulators, shuffles and shared scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith, math
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.access import simplify_where
from dlc.dialects.axes import REGISTER
from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.ir.monoid import MONOIDS
from dlc.target import WARP
from dlc.transforms.kernel.materialization.emitter import Accumulators, Emitter, LocalArray


def accumulators_around(e: Emitter, op: tile.ReduceOp) -> Accumulators | None:
    """The accumulators of the reduce around, if this one is only yielded straight into it."""
    around = op.parent_op()
    if not isinstance(around, tile.ReduceOp) or around not in e.accumulators:
        return None
    conditional = bool(around.yielded.where) and around.skips is None
    straight = tuple(around.yielded.values) == tuple(op.results) and not conditional
    sole = all(r.has_one_use() for r in op.results)
    if straight and sole and around.monoid_name == op.monoid_name:
        return e.accumulators[around]
    return None


def emit_accumulators(e: Emitter, op: tile.ReduceOp) -> Accumulators:
    """Allocates accumulators and sets them to the monoid's identity."""
    along = frozenset[SSAValue]().union(*(e.along[r] for r in op.results))
    axes = [a for a in e.registers if a in along]
    types = [r.type for r in op.results]
    names = [r.name_hint or "acc" for r in op.results]
    arrays = tuple(e.local(t, axes, n) for t, n in zip(types, names, strict=True))
    identity = [e.constant(a) for a in op.monoid.identity(types)]
    e.over(axes, lambda: _write(e, arrays, identity))
    return Accumulators(arrays)


def _write(e: Emitter, arrays: Sequence[LocalArray], values: Sequence[SSAValue]) -> None:
    for array, value in zip(arrays, values, strict=True):
        e.builder.insert(kernel.StoreOp(value, array.ref, e.at(array)))


def _read(e: Emitter, arrays: Sequence[LocalArray]) -> list[SSAValue]:
    return [e.insert(kernel.LoadOp(a.ref, e.at(a)), a.ref.name_hint) for a in arrays]


def _folded_axes(e: Emitter, op: tile.ReduceOp) -> frozenset[SSAValue]:
    """The register axes of a reduce, and of those around that it is yielded straight into."""
    axes = frozenset[SSAValue](op.axes_of(REGISTER))
    around = op.parent_op()
    if accumulators_around(e, op) is not None and isinstance(around, tile.ReduceOp):
        return axes | _folded_axes(e, around)
    return axes


def emit_fold(
    e: Emitter, op: tile.ReduceOp, acc: Accumulators, known: Sequence[Expr]
) -> tuple[Sequence[BlockArgument], Callable[[], None]]:
    """
    The fold of what the body yields: the register axes that it runs over, which are the reduce's
    own even where what is yielded does not vary along them, and its emission.
    Where the conditions (but for those `known` to hold) fail, the identity is folded. A product is
    added unrounded, by `math.fma`: nothing else is contracted, here or by compilers. (To add zero
    changes no sum that begins with zero, so there the sum is kept.)
    """
    yielded = op.yielded
    values = list(yielded.values)
    inner = values[0].owner
    if isinstance(inner, tile.ReduceOp) and accumulators_around(e, inner) is acc:
        return (), lambda: None
    along = frozenset[SSAValue]().union(*(e.along[v] for v in yielded.operands))
    along |= _folded_axes(e, op)
    axes = [a for a in e.registers if a in along or a in acc.axes]
    where = [c for c in yielded.where if c not in known]

    def fold() -> None:
        new = [e.value(v) for v in values]
        conditions = simplify_where(e.exprs(where))
        old = _read(e, acc.arrays)
        if op.monoid_name.data == "add":
            terms = zip(values, new, old, strict=True)
            _write(e, acc.arrays, [_added(e, *term, conditions) for term in terms])
            return
        identity = [e.constant(a) for a in op.monoid.identity([v.type for v in new])]
        new = [_where(e, conditions, v, i) for v, i in zip(new, identity, strict=True)]
        _write(e, acc.arrays, op.monoid.combine(e.builder, old, new))

    return axes, fold


def _added(
    e: Emitter, value: SSAValue, term: SSAValue, total: SSAValue, conditions: Sequence[Expr]
) -> SSAValue:
    """`total + term` where all conditions hold, else `total`; `term` is what `value` became."""
    add = MONOIDS["add"]
    product = term.owner
    if isinstance(product, arith.MulfOp) and value.has_one_use():
        total_with = e.insert(math.FmaOp(product.lhs, product.rhs, total))
        Rewriter.erase_op(product)
        return _where(e, conditions, total_with, total)
    zero = e.constant(add.identity([term.type])[0])
    return add.combine(e.builder, [total], [_where(e, conditions, term, zero)])[0]


def _where(e: Emitter, conditions: Sequence[Expr], value: SSAValue, other: SSAValue) -> SSAValue:
    """The value where all conditions hold, the other elsewhere."""
    return e.insert(kernel.SelectOp(value, conditions, other)) if conditions else value


def emit_results(e: Emitter, op: tile.ReduceOp, acc: Accumulators) -> None:
    """Makes the accumulators the reduce's results."""
    for result, array in zip(op.results, acc.arrays, strict=True):
        if array.axes:
            e.arrays[result] = array
        else:
            e.scalars[result] = e.insert(kernel.LoadOp(array.ref, []), result.name_hint)


def emit_combine(e: Emitter, op: tile.CombineOp) -> None:
    """Emits the fold across threads: by shuffles within a warp, through shared memory beyond."""
    width = prod(map(_extent, op.axes))
    innermost = op.threads[len(op.threads) - len(op.axes) :] == op.axes
    lanes = min(width, WARP) if innermost and (width % WARP == 0 or WARP % width == 0) else 1
    along = frozenset[SSAValue]().union(*(e.along[r] for r in op.results))
    axes = [a for a in e.registers if a in along]
    names = [r.name_hint or "r" for r in op.results]
    types = [r.type for r in op.results]
    if width == lanes:
        arrays = [e.local(t, axes, n) for t, n in zip(types, names, strict=True)]
        e.over(axes, lambda: _fold_lanes(e, op, arrays, lanes))
        _bind(e, op, arrays)
        return
    # Thread numbers along the combined axes and along the others.
    others = [a for a in op.threads if a not in op.axes]
    part, other = _linear(e, op.axes), _linear(e, others)
    parts = width // lanes
    shape = [prod(map(_extent, others)), parts]
    kept = [n for n, size in enumerate(shape) if size != 1]
    scratch = [
        e.scratch(t, [*(e.extents[a] for a in axes), *(shape[n] for n in kept)], f"{n}_parts")
        for t, n in zip(types, names, strict=True)
    ]

    def place(index: Expr) -> list[Expr]:
        at = [other, index]
        return [*(Expr.of(e.scalars[a]) for a in axes), *(at[n] for n in kept)]

    warp = [e.local(t, (), f"{n}_warp") for t, n in zip(types, names, strict=True) if lanes > 1]

    def write() -> None:
        if lanes > 1:
            _fold_lanes(e, op, warp, lanes)
        values = _read(e, warp) if lanes > 1 else [e.value(v) for v in op.values]
        first = [] if lanes == 1 else [Expr() - part % lanes]
        for ref, value in zip(scratch, values, strict=True):
            e.builder.insert(kernel.StoreOp(value, ref, place(part // lanes), first))

    e.over(axes, write)
    arrays = [e.local(t, axes, n) for t, n in zip(types, names, strict=True)]
    identity = [e.constant(a) for a in op.monoid.identity(types)]

    def read() -> None:
        _write(e, arrays, identity)
        with e.loop(parts, "part", unroll=parts <= WARP) as index:
            values = [
                e.insert(kernel.LoadOp(ref, place(Expr.of(index))), n)
                for ref, n in zip(scratch, names, strict=True)
            ]
            _write(e, arrays, op.monoid.combine(e.builder, _read(e, arrays), values))

    e.over(axes, read)
    _bind(e, op, arrays)


def _bind(e: Emitter, op: tile.CombineOp, arrays: Sequence[LocalArray]) -> None:
    for result, array in zip(op.results, arrays, strict=True):
        if array.axes:
            e.arrays[result] = array
        else:
            e.scalars[result] = e.insert(kernel.LoadOp(array.ref, []), result.name_hint)


def _fold_lanes(e: Emitter, op: tile.CombineOp, arrays: Sequence[LocalArray], lanes: int) -> None:
    """Folds the values over groups of `lanes` neighbouring lanes; each then holds the result."""
    _write(e, arrays, [e.value(v) for v in op.values])
    mask = lanes // 2
    while mask:
        other = [e.insert(kernel.ShuffleOp(v, mask, lanes)) for v in _read(e, arrays)]
        _write(e, arrays, op.monoid.combine(e.builder, _read(e, arrays), other))
        mask //= 2


def _extent(thread: SSAValue) -> int:
    """How many values a part of the thread's number has."""
    return int(most(thread)) + 1


def _linear(e: Emitter, threads: Sequence[SSAValue]) -> Expr:
    """The running number along some parts of the thread's number, the last one fastest."""
    number = Expr()
    for thread in threads:
        number = number * _extent(thread) + Expr.of(e.scalars[thread])
    return number
