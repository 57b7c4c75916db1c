"""Sums of squared distances, folded in the same sweep as the mean; see `join_moments`."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, Float32Type, FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.loops import computed_alike
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.loop import KernelOp, ReduceOp, YieldOp, size_as_number
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size
from dlc.transforms.loop.fusion.inline import materialize
from dlc.transforms.loop.fusion.one_sweep import (
    dependent_reduces,
    folded,
    needed,
    one_body,
)

MONOID = "moments"
NO_SQUARES = "it sums no squares of distances from what is computed of the sum"
LARGEST_PIVOT = 1e30
"""A larger one, or an infinite one, could make a distance from it infinite that is a number."""
FAR = 4.0
"""Deviations from 0 from which on distances from a pivot are known better than what is summed."""


@dataclass(frozen=True)
class _Moments:
    """A sum of x, and one of (x − p)²."""

    total: ReduceOp
    squares: ReduceOp
    center: SSAValue
    """p, for which the sum had to be known."""
    before: tuple[Operation, ...]
    """The operations between the two that the squares need, and not of the sum."""


def has_moments(kernel: KernelOp) -> bool:
    """True if `join_moments` would join any."""
    return next(_moments(kernel), None) is not None


def join_moments(kernel: KernelOp) -> list[str]:
    """
    Folds sums of (x − p)², where p is computed of the sum of x, together with that sum: one sweep
    in place of two. Says of each in a sentence what it was joined with.

    ```
    %s = loop.reduce add %k in 64 -> f32 { … loop.yield %x : f32 }
    %q = loop.reduce add %k in 64 -> f32 { … loop.yield (%x − %p)² : f32 }
    ```
    becomes, with the first %x, or 0 in place of one that is not finite, as %c,
    ```
    %n, %m, %d, %t = loop.reduce moments %k in 64 -> (…) { … loop.yield 1, %x − %c, 0, %x }
    %s = 64 · (%m + %c) where the mean is far from 0, else %t
    %q = %d + 64 · (%m − (%p − %c))²
    ```
    """
    said: list[str] = []
    while (found := next(_moments(kernel), None)) is not None:
        squares, total = (op.results[0].name_hint for op in (found.squares, found.total))
        said.append(
            f"%{squares or 'squares'} is folded with %{total or 'sum'}, in one sweep of {MONOID}"
        )
        _join(found)
    return said


def apart_moments(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, str]]:
    """Each sum that needs the sum at its own points, that sum, and why they are two sweeps; no
    reason where `join_moments` would make them one."""
    for total, squares, found in _pairs(kernel):
        yield squares, total, found if isinstance(found, str) else ""


def _moments(kernel: KernelOp) -> Iterator[_Moments]:
    return (found for _, _, found in _pairs(kernel) if isinstance(found, _Moments))


def _pairs(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, _Moments | str]]:
    """A sum, one at the same points that needs it, and both as moments, or why not."""
    outputs = frozenset(kernel.output_refs)
    for total, squares, needing in dependent_reduces(kernel, _sums_one, _sums_one):
        yield total, squares, _pair(total, squares, needing, outputs)


def _sums_one(reduce: ReduceOp) -> bool:
    """True if it is the sum of one f32 at all of at least one, computed without another reduce."""
    return (
        reduce.adds_floats
        and isinstance(reduce.results[0].type, Float32Type)
        and len(reduce.results) == 1
        and all(reduce.least(axis) > 0 for axis in reduce.axes)
        and not reduce.yielded.where
        and not any(op.regions for op in reduce.body.block.ops)
    )


def _pair(
    total: ReduceOp,
    squares: ReduceOp,
    dependent: AbstractSet[SSAValue],
    outputs: AbstractSet[SSAValue],
) -> _Moments | str:
    """The two as moments of the same values, if the second sums squares of distances."""
    square = squares.yielded.values[0].owner
    if not isinstance(square, arith.MulfOp) or square.lhs is not square.rhs:
        return NO_SQUARES
    distance = square.lhs.owner
    if not isinstance(distance, arith.SubfOp):
        return NO_SQUARES
    value, center = distance.operands
    if value in dependent:
        value, center = center, value
    inside = frozenset(squares.body.walk())
    if value in dependent or center not in dependent or center.owner in inside:
        return NO_SQUARES
    axes = dict[SSAValue, SSAValue](zip(squares.axes, total.axes, strict=True))
    if not computed_alike(value, total.yielded.values[0], axes):
        return "its distances are of other numbers than are summed"
    if (before := needed(squares, total, dependent, outputs)) is None:
        return "what it needs is computed between the two, by another reduce or from what is stored"
    return _Moments(total, squares, center, before)


def _join(found: _Moments) -> None:
    """Puts one reduce in the place of the sum, and what is made of it in that of the squares."""
    total, squares = found.total, found.squares
    points = Size.of(1)
    for extent in total.all_extents:
        points *= extent
    pivot = _pivot(total)
    value, _ = one_body(total, squares, found.before)
    builder = Builder(InsertPoint.at_end(total.body.block))
    one, zero = (_constant(builder, v, value) for v in (1.0, 0.0))
    apart = builder.insert(arith.SubfOp(value, pivot)).result
    s, q = total.results[0], squares.results[0]
    reduce = folded(MONOID, total, [one, apart, zero, value], [s, s, q, s])
    hints = ("n", "mean", q.name_hint, s.name_hint)
    for name, result in zip(hints, reduce.results, strict=True):
        result.name_hint = name
    _, mean, spread, plain = reduce.results
    builder = Builder(InsertPoint.before(total))
    builder.insert(reduce)
    n = _number(builder, points, total, mean)
    whole = _whole(builder, n, pivot, mean, spread, plain)
    whole.name_hint = s.name_hint
    center = whole if found.center is s else found.center
    Rewriter.replace_op(total, [], [whole])
    builder = Builder(InsertPoint.before(squares))
    from_pivot = builder.insert(arith.SubfOp(center, pivot)).result
    off = builder.insert(arith.SubfOp(mean, from_pivot)).result
    more = builder.insert(arith.MulfOp(builder.insert(arith.MulfOp(off, off)).result, n)).result
    about = builder.insert(arith.AddfOp(spread, more)).result
    Rewriter.replace_op(squares, [], [about])


def _whole(
    b: Builder, n: SSAValue, pivot: SSAValue, mean: SSAValue, spread: SSAValue, plain: SSAValue
) -> SSAValue:
    """
    The sum: that of n means where these are `FAR` deviations from 0, and the pivot as near to them
    as to 0; the plain sum elsewhere, as what is taken off and added again would round it then.
    """
    whole = b.insert(arith.AddfOp(mean, pivot)).result
    sums = b.insert(arith.MulfOp(whole, n)).result
    square = b.insert(arith.MulfOp(sums, whole)).result
    bound = b.insert(arith.MulfOp(spread, _constant(b, FAR**2, spread))).result
    far = b.insert(arith.CmpfOp(square, bound, "ogt")).result
    sizes = [b.insert(math.AbsFOp(v)).result for v in (whole, mean)]
    near = b.insert(arith.CmpfOp(sizes[0], sizes[1], "oge")).result
    exact = b.insert(arith.AndIOp(far, near)).result
    return b.insert(arith.SelectOp(exact, sums, plain)).result


def _pivot(total: ReduceOp) -> SSAValue:
    """
    A value near those that are summed, computed before their sum: the first of them, where it is a
    number, so that distances from it are as exact as they are small.
    """
    first = dict[SSAValue, Expr]((axis, Expr.of(0)) for axis in total.axes)
    builder, values = Builder(InsertPoint.before(total)), dict[SSAValue, SSAValue]()
    for op in total.body.block.ops:
        if isinstance(op, YieldOp):
            break
        copy = builder.insert(op.clone(values))
        if isinstance(copy, IndexedOp):
            copy.substitute(first.get)
        elif any(v in first for v in copy.operands):
            materialize(copy, first)
    value = total.yielded.values[0]
    value = values.get(value, value)
    size = builder.insert(math.AbsFOp(value)).result
    most, zero = (_constant(builder, v, value) for v in (LARGEST_PIVOT, 0.0))
    usable = builder.insert(arith.CmpfOp(size, most, "ole")).result
    pivot = builder.insert(arith.SelectOp(usable, value, zero)).result
    pivot.name_hint = "pivot"
    return pivot


def _number(builder: Builder, points: Size, at: ReduceOp, like: SSAValue) -> SSAValue:
    """How many points there are as a float."""
    assert isinstance(like.type, AnyFloat)
    if points.number is not None:
        return _constant(builder, points.number, like)
    return size_as_number(builder, points, at, like.type)


def _constant(builder: Builder, value: float, like: SSAValue) -> SSAValue:
    assert isinstance(like.type, AnyFloat)
    return builder.insert(arith.ConstantOp(FloatAttr(value, like.type))).result
