"""Sums of powers of e, relative to what the same sweep finds; see `join_cascades`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.loops import computed_alike
from dlc.dialects.loop import ForOp, KernelOp, ReduceOp
from dlc.ir.known_numbers import is_number
from dlc.ir.monoid import EXPSUM
from dlc.ir.rounding import before_storage
from dlc.transforms.loop.fusion.hoisting import hoist, used_values
from dlc.transforms.loop.fusion.nesting import nest, unnest
from dlc.transforms.loop.fusion.one_sweep import (
    dependent_reduces,
    folded,
    needed,
    needing_of,
    one_body,
)
from dlc.transforms.loop.fusion.sharing import share_keys

NOT_LINEAR = "it is not linear in one power of e of a distance from what is computed of the largest"


def has_cascades(kernel: KernelOp) -> bool:
    """True if `join_cascades` would join any."""
    return next(_cascades(kernel), None) is not None or has_cascades_in_one_nest(kernel)


def has_cascades_in_one_nest(kernel: KernelOp) -> bool:
    """True if it would where each nest of loops, with a sum in an inner one, is one loop."""
    reduces = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    nests = {op.parent for op in reduces if isinstance(op.parent_op(), ForOp)}
    if len(nests) < 2 or not any(map(_finds_largest, reduces)):
        return False
    flat = kernel.clone()
    found = unnest(flat) and next(_cascades(flat), None) is not None
    flat.erase()
    return found


def join_cascades(kernel: KernelOp) -> list[str]:
    """
    Folds sums of w·e^(x − p), where p is computed of the largest x, together with that largest:
    one sweep in place of two. Says of each in a sentence what it was joined with.

    ```
    %m = loop.reduce max %k in 64 -> f32 { … loop.yield %x : f32 }
    %s = loop.reduce add %k in 64 -> f32 { … %e = math.exp (%x − %m) … loop.yield %e · %w : f32 }
    ```
    becomes
    ```
    %m, %a = loop.reduce expsum %k in 64 -> (f32, f32) { … loop.yield %x, %w : f32, f32 }
    %s = %a · math.exp (%m − %m)
    ```

    Where the sum varies along more axes than the largest, both are computed at the points of all.
    """
    said = _join_all(kernel)
    if has_cascades_in_one_nest(kernel):
        unnest(kernel)
        hoist(kernel)
        said += _join_all(kernel)
        hoist(kernel)
        nest(kernel)
    share_keys(kernel)
    return said


def _join_all(kernel: KernelOp) -> list[str]:
    said: list[str] = []
    while (pair := next(_alike(kernel), None)) is not None:
        _merge(*pair)
    while (cascade := next(_cascades(kernel), None)) is not None:
        largest, total = (op.results[0].name_hint for op in (cascade.largest, cascade.total))
        said.append(
            f"%{total or 'sum'} is folded with %{largest or 'max'}, in one sweep of {EXPSUM}"
        )
        _join(cascade)
    return said


def apart_cascades(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, str]]:
    """Each sum that needs the largest of its own points, that largest, and why they are two sweeps;
    no reason where `join_cascades` would make them one."""
    for largest, total, found in _pairs(kernel):
        yield total, largest, found if isinstance(found, str) else ""


@dataclass(frozen=True)
class _Term:
    """A value that a sum folds: linear in a power of e relative to the pivot."""

    power: math.ExpOp
    pivot: SSAValue
    """A value from before the sum, for which the largest exponent had to be known."""
    steps: Mapping[Operation, int]
    """The operations that make the value of the power, and which operand comes from it."""
    factors: tuple[Operation, ...]
    """
    Those of them that are a product or quotient with a value from before the sum, or make it 0 for
    a certain pivot.
    """


@dataclass(frozen=True)
class _Cascade:
    """A reduce for the largest of what a sum has as exponents."""

    largest: ReduceOp
    total: ReduceOp
    terms: tuple[_Term, ...]
    before: tuple[Operation, ...]
    """The operations between the two that the weights need."""


def _cascades(kernel: KernelOp) -> Iterator[_Cascade]:
    return (found for _, _, found in _pairs(kernel) if isinstance(found, _Cascade))


def _pairs(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, _Cascade | str]]:
    """A largest, a sum at the same points that needs it, and both as a cascade, or why not."""
    outputs = frozenset(kernel.output_refs)
    for largest, total, needing in dependent_reduces(
        kernel, _finds_largest, lambda op: op.adds_floats
    ):
        yield largest, total, _cascade(largest, total, needing, outputs)


def _finds_largest(reduce: ReduceOp) -> bool:
    """True if the first result of a reduce is the largest of floats, the others sums like it."""
    if reduce.yielded.where or not isinstance(reduce.results[0].type, AnyFloat):
        return False
    is_max = reduce.monoid_name.data == "max" and len(reduce.results) == 1
    return is_max or reduce.monoid_name.data == EXPSUM


def _alike(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, tuple[Operation, ...]]]:
    """Two reduces that find the same largest value, and what the second needs in between."""
    outputs = frozenset(kernel.output_refs)
    reduces = [op for op in kernel.walk() if isinstance(op, ReduceOp) and _finds_largest(op)]
    for first, second in combinations(reduces, 2):
        axes = dict[SSAValue, SSAValue](zip(second.axes, first.axes, strict=False))
        if first.parent is not second.parent or first.extents != second.extents:
            continue
        if EXPSUM not in (first.monoid_name.data, second.monoid_name.data):
            continue
        if not computed_alike(second.yielded.values[0], first.yielded.values[0], axes):
            continue
        needing = set[SSAValue]().union(*(needing_of(r, first, second) for r in first.results))
        before = needed(second, first, needing, outputs)
        if before is not None and needing.isdisjoint(used_values(second)):
            yield first, second, before


def _cascade(
    largest: ReduceOp,
    total: ReduceOp,
    needing: AbstractSet[SSAValue],
    outputs: AbstractSet[SSAValue],
) -> _Cascade | str:
    """The two as a cascade, if each value of the sum is a term relative to the largest."""
    if total.yielded.where:
        return "it is summed where conditions hold"
    if any(r.type != largest.results[0].type for r in total.results):
        return "it is of another type"
    terms = [_term(v, largest, total, needing) for v in total.yielded.values]
    if reasons := [t for t in terms if isinstance(t, str)]:
        return reasons[0]
    if (before := needed(total, largest, needing, outputs)) is None:
        return "what it needs is computed between the two, by another reduce or from what is stored"
    return _Cascade(largest, total, tuple(t for t in terms if isinstance(t, _Term)), before)


def _term(
    value: SSAValue, largest: ReduceOp, total: ReduceOp, needing: AbstractSet[SSAValue]
) -> _Term | str:
    """A value that a sum folds as a term relative to the largest, or why it is none."""
    inside = frozenset(total.body.walk())
    steps, factors = dict[Operation, int](), list[Operation]()
    while (op := before_storage(value).owner) in inside and not isinstance(op, math.ExpOp):
        assert isinstance(op, Operation)
        which = [n for n, v in enumerate(op.operands) if v in needing and v.owner in inside]
        if isinstance(op, arith.ExtFOp) and isinstance(op.input.owner, arith.TruncFOp):
            return f"a power is rounded to {op.input.type} before it is summed"
        if len(which) != 1 or not (
            _is_linear(op, which[0]) or _is_zero_at(op, which[0], largest.results[0])
        ):
            return NOT_LINEAR
        if not needing.isdisjoint(v for v in op.operands if v.owner not in inside):
            factors.append(op)
        elif any(isinstance(factor, arith.SelectOp) for factor in factors):
            return "0 is put in the place of a product with a power, not of the power"
        steps[op] = which[0]
        value = op.operands[which[0]]
    if not isinstance(op, math.ExpOp) or not isinstance(op.operand.owner, arith.SubfOp):
        return NOT_LINEAR
    exponent, pivot = op.operand.owner.operands
    if exponent in needing or pivot not in needing or pivot.owner in inside:
        return NOT_LINEAR
    axes = dict[SSAValue, SSAValue](zip(total.axes, largest.axes, strict=True))
    if not computed_alike(exponent, largest.yielded.values[0], axes):
        return "its exponents are not what the largest was found of"
    return _Term(op, pivot, steps, tuple(factors))


def _is_linear(op: Operation, operand: int) -> bool:
    """True if a float is linear in one operand of the operation that computes it."""
    return isinstance(op, arith.MulfOp | arith.NegfOp) or (
        isinstance(op, arith.DivfOp) and operand == 0
    )


def _is_zero_at(op: Operation, operand: int, largest: SSAValue) -> bool:
    """
    True if an operation takes 0 in place of an operand where the largest is a certain number, which
    then is not NaN: 0 times the sum is what it would be, also of weights that are not finite.
    """
    if not isinstance(op, arith.SelectOp) or operand != 2 or not is_number(op.lhs, 0):
        return False
    test = op.cond.owner
    return (
        isinstance(test, arith.CmpfOp)
        and CMPF_COMPARISON_OPERATIONS[test.predicate.value.data] == "oeq"
        and largest in test.operands
    )


def _merge(first: ReduceOp, second: ReduceOp, before: Sequence[Operation]) -> None:
    """Puts one reduce in the place of two that find the same largest value."""
    x, *weights = one_body(first, second, before)
    others = weights[len(first.results) :]
    weights = [*weights[: len(first.results) - 1], *others]
    joined = folded(EXPSUM, first, [x, *weights], [*first.results, *second.results[1:]])
    Rewriter.replace_op(first, joined, joined.results[: len(first.results)])
    found = joined.results[len(joined.results) - len(others) :]
    Rewriter.replace_op(second, [], [joined.results[0], *found])


def _join(cascade: _Cascade) -> None:
    """Puts one reduce in the place of the largest, and what is made of it in that of the sum."""
    largest, total = cascade.largest, cascade.total
    both = one_body(largest, total, cascade.before)
    exponents, values = both[: len(largest.results)], both[len(largest.results) :]
    builder = Builder(InsertPoint.at_end(largest.body.block))
    terms = list(zip(values, cascade.terms, strict=True))
    weights = [_or_one(builder, _weight(builder, *pair), total) for pair in terms]
    results = [*largest.results, *total.results]
    joined = folded(EXPSUM, largest, [*exponents, *weights], results)
    Rewriter.replace_op(largest, joined, joined.results[: len(largest.results)])
    m, sums = joined.results[0], joined.results[len(largest.results) :]
    found = dict[SSAValue, SSAValue](zip(results, joined.results, strict=True))
    builder = Builder(InsertPoint.before(total))
    moved = list[SSAValue]()
    for value, (_, term) in zip(sums, terms, strict=True):
        pivot = m if term.pivot is results[0] else term.pivot
        apart = builder.insert(math.ExpOp(builder.insert(arith.SubfOp(m, pivot)).result)).result
        moved.append(_moved(builder, value, apart, term, found))
    Rewriter.replace_op(total, [], moved)


def _weight(builder: Builder, value: SSAValue, term: _Term) -> SSAValue | None:
    """What a value is where the power of e is 1; None for 1."""
    op = before_storage(value).owner
    if op is term.power:
        return None
    assert isinstance(op, Operation)
    operand = term.steps[op]
    weight = _weight(builder, op.operands[operand], term)
    if op in term.factors:
        return weight
    if weight is None and isinstance(op, arith.MulfOp):
        return op.operands[1 - operand]
    same = op.clone()
    same.operands[operand] = _or_one(builder, weight, op)
    return builder.insert(same).results[0]


def _or_one(builder: Builder, weight: SSAValue | None, of: Operation) -> SSAValue:
    if weight is not None:
        return weight
    type = of.results[0].type
    assert isinstance(type, AnyFloat)
    return builder.insert(arith.ConstantOp(FloatAttr(1.0, type))).result


def _moved(
    builder: Builder,
    total: SSAValue,
    apart: SSAValue,
    term: _Term,
    found: Mapping[SSAValue, SSAValue],
) -> SSAValue:
    """
    A sum relative to the pivot, of the sum relative to the largest exponent. `found` has what took
    the place of the largest, which factors that are in no block any more still name.
    """
    value = builder.insert(arith.MulfOp(total, apart)).result
    value.name_hint = total.name_hint
    for op in reversed(term.factors):
        same = op.clone(dict(found))
        same.operands[term.steps[op]] = value
        if isinstance(op, arith.SelectOp):
            same.operands[1] = builder.insert(arith.MulfOp(op.lhs, total)).result
        value = builder.insert(same).results[0]
    return value
