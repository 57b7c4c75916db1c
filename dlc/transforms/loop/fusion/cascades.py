"""Sums of powers of e, relative to what the same sweep finds; see `join_cascades`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from dlc.analysis.loop.loops import computed_alike, only_computes
from dlc.dialects.loop import KernelOp, ReduceOp, YieldOp
from dlc.transforms.loop.fusion.hoisting import used_values

MONOID = "expsum"


def has_cascades(kernel: KernelOp) -> bool:
    """True if `join_cascades` would join any."""
    return next(_cascades(kernel), None) is not None


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
    """
    said: list[str] = []
    while (cascade := next(_cascades(kernel), None)) is not None:
        largest, total = (op.results[0].name_hint for op in (cascade.largest, cascade.total))
        said.append(f"%{total or 'sum'} is folded with %{largest or 'max'}, in one sweep")
        _join(cascade)
    return said


@dataclass(frozen=True)
class _Term:
    """A value that a sum folds: linear in a power of e relative to the pivot."""

    power: math.ExpOp
    pivot: SSAValue
    """A value from before the sum, for which the largest exponent had to be known."""
    steps: Mapping[Operation, int]
    """The operations that make the value of the power, and which operand comes from it."""
    factors: tuple[Operation, ...]
    """Those of them that are a product or quotient with a value from before the sum."""


@dataclass(frozen=True)
class _Cascade:
    """A reduce for the largest of what a sum has as exponents."""

    largest: ReduceOp
    total: ReduceOp
    terms: tuple[_Term, ...]
    before: tuple[Operation, ...]
    """The operations between the two that the weights need."""


def _cascades(kernel: KernelOp) -> Iterator[_Cascade]:
    outputs = frozenset(kernel.output_refs)
    for largest in kernel.walk():
        if not isinstance(largest, ReduceOp) or largest.yielded.where:
            continue
        if largest.monoid_name.data != MONOID and not _finds_one_maximum(largest):
            continue
        total = largest.next_op
        while total is not None:
            if isinstance(total, ReduceOp) and total.adds_floats and not total.yielded.where:
                if (found := _cascade(largest, total, outputs)) is not None:
                    yield found
            total = total.next_op


def _finds_one_maximum(reduce: ReduceOp) -> bool:
    floats = all(isinstance(r.type, AnyFloat) for r in reduce.results)
    return reduce.monoid_name.data == "max" and floats and len(reduce.results) == 1


def _cascade(largest: ReduceOp, total: ReduceOp, outputs: AbstractSet[SSAValue]) -> _Cascade | None:
    """The two as a cascade, if each value of the sum is a term relative to the largest."""
    m = largest.results[0]
    if total.extents != largest.extents or any(r.type != m.type for r in total.results):
        return None
    needing = _needing(m, largest, total)
    terms = [_term(v, largest, total, needing) for v in total.yielded.values]
    before = _needed(total, largest, needing, outputs)
    if before is None or None in terms:
        return None
    return _Cascade(largest, total, tuple(t for t in terms if t is not None), before)


def _needing(value: SSAValue, first: Operation, last: Operation) -> set[SSAValue]:
    """What is computed of a value between two operations of a block, and in the last one."""
    needing, op = {value}, first.next_op
    while op is not None:
        for inner in op.walk() if op is last else (op,):
            if not needing.isdisjoint(used_values(inner)):
                needing.update(inner.results)
        op = None if op is last else op.next_op
    return needing


def _needed(
    total: ReduceOp,
    largest: ReduceOp,
    needing: AbstractSet[SSAValue],
    outputs: AbstractSet[SSAValue],
) -> tuple[Operation, ...] | None:
    """
    What stands between the two and the sum needs, without the largest; None if that cannot stand
    before both.
    """
    wanted, found = set(used_values(total)) - needing, list[Operation]()
    op = total.prev_op
    while op is not None and op is not largest:
        if not wanted.isdisjoint(op.results):
            if not only_computes(op) or not outputs.isdisjoint(used_values(op)):
                return None
            found.append(op)
            wanted.update(used_values(op))
        op = op.prev_op
    return tuple(reversed(found))


def _term(
    value: SSAValue, largest: ReduceOp, total: ReduceOp, needing: AbstractSet[SSAValue]
) -> _Term | None:
    """A value that a sum folds as a term relative to the largest, if it is linear in one power."""
    inside = frozenset(total.body.walk())
    steps, factors = dict[Operation, int](), list[Operation]()
    while (op := value.owner) in inside and not isinstance(op, math.ExpOp):
        assert isinstance(op, Operation)
        which = [n for n, v in enumerate(op.operands) if v in needing and v.owner in inside]
        if len(which) != 1 or not _is_linear(op, which[0]):
            return None
        if not needing.isdisjoint(v for v in op.operands if v.owner not in inside):
            factors.append(op)
        steps[op] = which[0]
        value = op.operands[which[0]]
    if not isinstance(op, math.ExpOp) or not isinstance(op.operand.owner, arith.SubfOp):
        return None
    exponent, pivot = op.operand.owner.operands
    axes = dict[SSAValue, SSAValue](zip(total.axes, largest.axes, strict=True))
    if exponent in needing or pivot not in needing or pivot.owner in inside:
        return None
    if not computed_alike(exponent, largest.yielded.values[0], axes):
        return None
    return _Term(op, pivot, steps, tuple(factors))


def _is_linear(op: Operation, operand: int) -> bool:
    """True if a float is linear in one operand of the operation that computes it."""
    return isinstance(op, arith.MulfOp | arith.NegfOp) or (
        isinstance(op, arith.DivfOp) and operand == 0
    )


def _join(cascade: _Cascade) -> None:
    """Puts one reduce in the place of the largest, and what is made of it in that of the sum."""
    largest, total = cascade.largest, cascade.total
    for op in cascade.before:
        op.detach()
        Rewriter.insert_op(op, InsertPoint.before(largest))
    for old, new in zip(total.axes, largest.axes, strict=True):
        old.replace_all_uses_with(new)
    block = largest.body.block
    exponents, values = list(largest.yielded.values), list(total.yielded.values)
    for op in (largest.yielded, total.yielded):
        Rewriter.erase_op(op)
    for op in list(total.body.block.ops):
        op.detach()
        block.add_op(op)
    builder = Builder(InsertPoint.at_end(block))
    terms = list(zip(values, cascade.terms, strict=True))
    weights = [_weight(builder, value, term) for value, term in terms]
    block.add_op(YieldOp([*exponents, *(_or_one(builder, w, total) for w in weights)]))
    for op in reversed(list(block.ops)):
        if is_trivially_dead(op):
            Rewriter.erase_op(op)
    results = [*largest.results, *total.results]
    types, extents = [r.type for r in results], largest.static_extents
    joined = ReduceOp(MONOID, extents, types, largest.detach_region(largest.body))
    joined.location = largest.location
    for old, new in zip(results, joined.results, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(largest, joined, joined.results[: len(largest.results)])
    m, sums = joined.results[0], joined.results[len(largest.results) :]
    builder = Builder(InsertPoint.before(total))
    moved = list[SSAValue]()
    for value, (_, term) in zip(sums, terms, strict=True):
        pivot = m if term.pivot is results[0] else term.pivot
        apart = builder.insert(math.ExpOp(builder.insert(arith.SubfOp(m, pivot)).result)).result
        moved.append(_moved(builder, value, apart, term))
    Rewriter.replace_op(total, [], moved)


def _weight(builder: Builder, value: SSAValue, term: _Term) -> SSAValue | None:
    """What a value is where the power of e is 1; None for 1."""
    op = value.owner
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


def _moved(builder: Builder, total: SSAValue, apart: SSAValue, term: _Term) -> SSAValue:
    """A sum relative to the pivot, of the sum relative to the largest exponent."""
    value = builder.insert(arith.MulfOp(total, apart)).result
    value.name_hint = total.name_hint
    for op in reversed(term.factors):
        same = op.clone()
        same.operands[term.steps[op]] = value
        value = builder.insert(same).results[0]
    return value
