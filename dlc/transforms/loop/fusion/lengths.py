"""Masks that compare places, or these with numbers from memory, become conditions; see
`take_lengths`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf, isinf

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.arith import CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike

from dlc.dialects.loop import IndexOp, KernelOp, ReduceOp, SelectOp
from dlc.ir.bounds import bounds
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number

BELOW = {"sle": 0, "slt": 1}
"""By how much the second number exceeds the first at least."""
ABOVE = {"sge": 0, "sgt": 1}
OPPOSITE = {"sle": "sgt", "slt": "sge", "sge": "slt", "sgt": "sle"}


def take_lengths(kernel: KernelOp) -> bool:
    """
    Writes what a reduce makes -inf up to a place or from one on, which other axes or memory tell,
    as a select with conditions; says if there is any. Sums of integers are taken not to overflow.
    """
    found = False
    for op in list(kernel.walk()):
        fold = op.parent_op()
        if isinstance(op, arith.SelectOp) and isinstance(fold, ReduceOp):
            found |= _take(op, fold)
    return found


def _take(select: arith.SelectOp, fold: ReduceOp) -> bool:
    """Gives a value the conditions under which it is not -inf, as far as there are any."""
    masked = [is_number(v, -inf) for v in (select.lhs, select.rhs)]
    if masked.count(True) != 1:
        return False
    inside = frozenset(fold.body.walk())
    held, left = list[Expr](), list[tuple[SSAValue, bool]]()
    for test, holds in _tests(select.cond, holds=masked[1]):
        condition = _condition(test, fold, inside, holds=holds)
        if condition is None:
            left.append((test, holds))
        else:
            held.append(condition)
    if not held:
        return False
    value, default = (select.lhs, select.rhs) if masked[1] else (select.rhs, select.lhs)
    builder = Builder(InsertPoint.before(select))
    for test, holds in left:
        sides = (value, default) if holds else (default, value)
        value = builder.insert(arith.SelectOp(test, *sides)).result
    new = SelectOp(value, held, default)
    new.result.name_hint = select.result.name_hint
    Rewriter.replace_op(select, new)
    return True


def _tests(value: SSAValue, *, holds: bool) -> Iterator[tuple[SSAValue, bool]]:
    """Values that have to be true, or not to be, for one to be so."""
    op = value.owner
    if isinstance(op, arith.AndIOp if holds else arith.OrIOp):
        yield from _tests(op.lhs, holds=holds)
        yield from _tests(op.rhs, holds=holds)
    elif isinstance(op, arith.XOrIOp) and _number(op.rhs):
        yield from _tests(op.lhs, holds=not holds)
    else:
        yield value, holds


def _number(value: SSAValue) -> int | None:
    constant = ConstantLike.get_constant_value(value)
    return constant.value.data if isinstance(constant, IntegerAttr) else None


def _condition(
    test: SSAValue, fold: ReduceOp, inside: Collection[Operation], *, holds: bool
) -> Expr | None:
    """What is not negative where a comparison of a place with a number holds, or does not."""
    op = test.owner
    if not isinstance(op, arith.CmpiOp) or op.lhs.type != i64:
        return None
    predicate = CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    predicate = predicate if holds else OPPOSITE.get(predicate, predicate)
    if predicate in BELOW:
        sides, apart = (op.rhs, op.lhs), BELOW[predicate]
    elif predicate in ABOVE:
        sides, apart = (op.lhs, op.rhs), ABOVE[predicate]
    else:
        return None
    numbers = list[tuple[SSAValue, int]]()
    places = _places(sides[0], 1, numbers) + _places(sides[1], -1, numbers) - apart
    if len(numbers) > 1 or not any(places.coefficient(axis) for axis in fold.axes):
        return None
    if not numbers:
        return places
    (number, sign), (least, most) = numbers[0], bounds(places)
    if number.owner in inside or isinf(least) or isinf(most):
        return None
    ends = (-most - 1, -least) if sign > 0 else (least, most + 1)
    return places + Expr.of(_within(number, int(ends[0]), int(ends[1]), fold)) * sign


def _places(value: SSAValue, sign: int, numbers: list[tuple[SSAValue, int]]) -> Expr:
    """The part of an integer that axes and constants make; the rest is added to `numbers`."""
    op = value.owner
    if (constant := _number(value)) is not None:
        return Expr.of(constant * sign)
    if isinstance(op, arith.IndexCastOp) and isinstance(op.input.owner, IndexOp):
        return op.input.owner.subscripts[0] * sign
    if isinstance(op, arith.AddiOp | arith.SubiOp) and _has_places(value):
        other = sign if isinstance(op, arith.AddiOp) else -sign
        return _places(op.lhs, sign, numbers) + _places(op.rhs, other, numbers)
    numbers.append((value, sign))
    return Expr()


def _has_places(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        return _has_places(op.lhs) or _has_places(op.rhs)
    return isinstance(op, arith.IndexCastOp) and isinstance(op.input.owner, IndexOp)


def _within(number: SSAValue, least: int, most: int, fold: ReduceOp) -> SSAValue:
    """The nearest number of a range, as an index, computed before a reduce."""
    builder = Builder(InsertPoint.before(fold))
    ends: Sequence[SSAValue] = [
        builder.insert(arith.ConstantOp(IntegerAttr(end, i64))).result for end in (least, most)
    ]
    above = builder.insert(arith.MaxSIOp(number, ends[0])).result
    inner = builder.insert(arith.MinSIOp(above, ends[1])).result
    index = builder.insert(arith.IndexCastOp(inner, IndexType())).result
    index.name_hint = number.name_hint
    return index
