"""Factors that a sum gives of its points, taken out of other sums; see `join_row_factors`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float32Type
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.loops import computed_alike
from dlc.dialects.axes import AxesOp
from dlc.dialects.loop import ForOp, KernelOp, ReduceOp
from dlc.transforms.loop.fusion.hoisting import hoist
from dlc.transforms.loop.fusion.nesting import nest, unnest
from dlc.transforms.loop.fusion.one_sweep import (
    dependent_reduces,
    folded,
    needed,
    one_body,
)

NO_FACTOR = "it is not linear in what is computed of that"
ANY_SIZE = "without the factor, which is of no sum of its squares, it may be infinite"


def has_row_factors(kernel: KernelOp) -> bool:
    """True if `join_row_factors` would join any."""
    reduces = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    if len(reduces) < 2 or not any(map(_sums, reduces)):
        return False
    if next(_joinable(kernel), None) is not None:
        return True
    if len({op.parent for op in reduces}) < 2:
        return False
    flat = kernel.clone()
    found = unnest(flat) and next(_joinable(flat), None) is not None
    flat.erase()
    return found


def join_row_factors(kernel: KernelOp) -> list[str]:
    """
    Takes a factor that is computed of one sum out of another sum over the same points, and folds
    both in one sweep. Says of each in a sentence what it was joined with.

    ```
    %s = loop.reduce add %k in 64 -> f32 { … loop.yield %x · %x : f32 }
    %p = loop.reduce add %k in 64 -> f32 { … loop.yield (%x · %r) · %w : f32 }
    ```
    becomes, where `%r` is computed of `%s`,
    ```
    %s, %q = loop.reduce add %k in 64 -> (f32, f32) { … loop.yield %x · %x, %x · %w : f32, f32 }
    %p = %q · %r
    ```

    The first sum is one of squares of what the second multiplies by the factor: so that is below
    1.9e19 where the factor, a root of the sum or the like, is of any use.

    Where the second sum varies along more axes, both are computed at the points of all.
    """
    if not has_row_factors(kernel):
        return []
    said: list[str] = []
    unnest(kernel)
    hoist(kernel)
    while (found := next(_joinable(kernel), None)) is not None:
        total, first = (op.results[0].name_hint or "sum" for op in (found.total, found.first))
        said.append(f"%{total} is folded with %{first}, of which a factor is multiplied behind")
        _join(found)
        hoist(kernel)
    nest(kernel)
    return said


def apart_row_factors(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, str]]:
    """Each sum that needs another one of its own points, that one, and why they are two sweeps; no
    reason where `join_row_factors` would make them one."""
    flat = kernel.clone()
    unnest(flat)
    for first, total, found in _pairs(flat):
        yield total, first, found if isinstance(found, str) else ""
    flat.erase()


@dataclass(frozen=True)
class _Term:
    """A value that a sum folds: linear in factors from before the sum."""

    steps: Mapping[Operation, int]
    """The operations from the value to what has a factor, and which operand comes from there."""
    factors: Mapping[Operation, SSAValue]
    """Those of them that are a product with a factor, or a quotient by one; the operand that is
    left in its place is the other one."""
    free: SSAValue
    """What has them."""


@dataclass(frozen=True)
class _Joinable:
    """A sum, and one whose terms have factors that are computed of it."""

    first: ReduceOp
    total: ReduceOp
    terms: tuple[_Term, ...]
    before: tuple[Operation, ...]
    """The operations between the two that the second needs, and not of the first."""


def _joinable(kernel: KernelOp) -> Iterator[_Joinable]:
    return (found for _, _, found in _pairs(kernel) if isinstance(found, _Joinable))


def _pairs(kernel: KernelOp) -> Iterator[tuple[ReduceOp, ReduceOp, _Joinable | str]]:
    """A sum, one at the same points that needs it, and both as one sweep, or why not."""
    outputs = frozenset(kernel.output_refs)
    for first, total, needing in dependent_reduces(kernel, _sums, lambda op: op.adds_floats):
        yield first, total, _pair(first, total, needing, outputs)


def _sums(reduce: ReduceOp) -> bool:
    """True if it sums f32 at all of at least one point, each computed without another reduce."""
    return (
        isinstance(reduce.parent_op(), ForOp)
        and reduce.adds_floats
        and all(isinstance(r.type, Float32Type) for r in reduce.results)
        and all(reduce.least(axis) > 0 for axis in reduce.axes)
        and not reduce.yielded.where
        and not any(isinstance(op, AxesOp) for op in reduce.body.walk())
    )


def _pair(
    first: ReduceOp,
    total: ReduceOp,
    needing: AbstractSet[SSAValue],
    outputs: AbstractSet[SSAValue],
) -> _Joinable | str:
    """The two as one sweep, if each value of the second has factors that can be taken out."""
    if total.yielded.where:
        return "it is summed where conditions hold"
    if not _sums(total):
        return "what it sums is computed by a reduce, or is of another type"
    terms = [_term(value, total, needing) for value in total.yielded.values]
    if reasons := [term for term in terms if isinstance(term, str)]:
        return reasons[0]
    axes = dict[SSAValue, SSAValue](zip(total.axes, first.axes, strict=True))
    if not all(_is_squared(term.free, first, axes) for term in terms if isinstance(term, _Term)):
        return ANY_SIZE
    if (before := needed(total, first, needing, outputs)) is None:
        return "what it needs is computed between the two, by another reduce or from what is stored"
    return _Joinable(first, total, tuple(t for t in terms if isinstance(t, _Term)), before)


def _is_squared(value: SSAValue, first: ReduceOp, axes: Mapping[SSAValue, SSAValue]) -> bool:
    """True if a sum is one of the squares of what a value is, which then has half of the range."""
    squares = [v.owner for v in first.yielded.values if isinstance(v.owner, arith.MulfOp)]
    return any(
        computed_alike(op.lhs, op.rhs, {}) and computed_alike(value, op.lhs, axes) for op in squares
    )


def _term(value: SSAValue, total: ReduceOp, needing: AbstractSet[SSAValue]) -> _Term | str:
    """A value that a sum folds as a term with factors, or why it is none."""
    inside = frozenset(total.body.walk())
    steps, factors = dict[Operation, int](), dict[Operation, SSAValue]()
    while value in needing:
        op = value.owner
        if op not in inside or not isinstance(op, Operation):
            return NO_FACTOR  # a factor times 1
        own = [n for n, v in enumerate(op.operands) if v in needing]
        within = [n for n in own if op.operands[n].owner in inside]
        if isinstance(op, arith.TruncFOp) and not isinstance(op.result.type, BFloat16Type):
            return (
                f"a product with it is rounded to {op.result.type}, which has not the range of f32"
            )
        if len(within) > 1 or len(own) > len(within) + 1 or not _is_linear(op, within):
            return NO_FACTOR
        outside = [n for n in own if n not in within]
        if outside:
            if not isinstance(op, arith.MulfOp) and (
                not isinstance(op, arith.DivfOp) or outside != [1]
            ):
                return NO_FACTOR
            factors[op] = op.operands[outside[0]]
        steps[op] = 1 - outside[0] if outside else within[0]
        value = op.operands[steps[op]]
    return _Term(steps, factors, value)


def _is_linear(op: Operation, within: list[int]) -> bool:
    """True if a float is linear in an operand, if any is asked for, but for rounding."""
    if isinstance(op, arith.DivfOp):
        return within in ([], [0])
    return isinstance(op, arith.MulfOp | arith.NegfOp | arith.ExtFOp | arith.TruncFOp)


def _join(found: _Joinable) -> None:
    """Puts one reduce in the place of both sums, and the factors of the second behind it."""
    first, total = found.first, found.total
    inner = Builder(InsertPoint.before(total.yielded))
    for number, term in enumerate(found.terms):
        total.yielded.operands[number] = _free(inner, total.yielded.values[number], term)
    results = [*first.results, *total.results]
    joined = folded("add", first, one_body(first, total, found.before), results)
    Rewriter.replace_op(first, joined, joined.results[: len(first.results)])
    renamed = dict[SSAValue, SSAValue](zip(results, joined.results, strict=True))
    behind, made = Builder(InsertPoint.before(total)), list[SSAValue]()
    for result, term in zip(joined.results[len(first.results) :], found.terms, strict=True):
        value: SSAValue = result
        for op, factor in reversed([*term.factors.items()]):
            operands = value, renamed.get(factor, factor)
            kind = arith.DivfOp if isinstance(op, arith.DivfOp) else arith.MulfOp
            value = behind.insert(kind(*operands)).result
            value.name_hint = result.name_hint
        made.append(value)
    Rewriter.replace_op(total, [], made)


def _free(builder: Builder, value: SSAValue, term: _Term) -> SSAValue:
    """What a value is without its factors, rounded as it was."""
    op = value.owner
    if not isinstance(op, Operation) or op not in term.steps:
        return value
    operand = term.steps[op]
    narrow = op.operands[operand].owner
    if isinstance(op, arith.ExtFOp) and isinstance(narrow, arith.TruncFOp):
        wide = _free(builder, narrow.input, term).owner
        if isinstance(wide, arith.ExtFOp) and wide.input.type == op.input.type:
            return wide.result  # it is of that type already
    free = _free(builder, op.operands[operand], term)
    if op in term.factors:
        return free
    same = op.clone()
    same.operands[operand] = free
    return builder.insert(same).results[0]
