"""
Monoids: what a reduce folds with.

Each has an identity and a combine, given for the element types that it is folded over, and the
facts that passes ask for. Most fold any number of values at once, each on its own: two sums are one
fold. Those of `argmax`, `argmin` and the like belong together: (value, index); and those of
`expsum`: (m, a, b, …) stands for a·e^m, b·e^m, …, where m is the largest exponent met, so that no
power overflows, and those of `exp2sum` for a·2^m, …; and those of `moments`: (n, m, q, a, …) are a
number of points, their mean, the sum of the squares of their distances from it, and sums of
anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint

from dlc.ir.math_operations import operation

Values = Sequence[SSAValue]
EXPSUM = "expsum"
"""The name of the monoid of sums of powers of e."""
EXP2SUM = "exp2sum"
"""That of sums of powers of 2."""
POWERS = {EXPSUM: "math.exp_below", EXP2SUM: "math.exp2_below"}
"""The operation for the powers that a monoid sums."""
_INF = float("inf")


@dataclass(frozen=True)
class Monoid:
    """A named associative and commutative operation with an identity."""

    name: str
    identity: Callable[[Sequence[Attribute]], list[Attribute]]
    """The identity's attribute (a scalar constant) for each of the given element types."""
    combine: Callable[[Builder, Values, Values], list[SSAValue]]
    """Builds the combination of two elements; the left one comes first in the fold's order."""
    arity: int | None = None
    """The number of values that are folded; None: any number, `least` at least."""
    least: int = 1
    together: bool = False
    """True if the values are one element; otherwise each is folded on its own."""
    idempotent: bool = False
    adds: bool = False
    """True if values are added, which rounds floats each time."""

    def combined(self, types: Sequence[Attribute]) -> Block:
        """The operations that combine two elements of the given types: the block's arguments."""
        block = Block(arg_types=(*types, *types))
        lhs, rhs = block.args[: len(types)], block.args[len(types) :]
        self.combine(Builder(InsertPoint.at_end(block)), lhs, rhs)
        return block

    def needed(self, types: Sequence[Attribute]) -> tuple[frozenset[int], ...]:
        """The numbers of the values of which each value of a combination is made."""
        return _needed(self.name, tuple(types))


@cache
def _needed(monoid: str, types: tuple[Attribute, ...]) -> tuple[frozenset[int], ...]:
    block, count = Block(arg_types=(*types, *types)), len(types)
    lhs, rhs = block.args[:count], block.args[count:]
    made: dict[SSAValue, frozenset[int]] = {a: frozenset([a.index % count]) for a in block.args}
    found = MONOIDS[monoid].combine(Builder(InsertPoint.at_end(block)), lhs, rhs)
    for op in block.ops:
        of = frozenset[int]().union(*(made[v] for v in op.operands))
        made.update(dict.fromkeys(op.results, of))
    return tuple(made[v] for v in found)


def _constant(value: float, type: Attribute) -> FloatAttr | IntegerAttr:
    if isinstance(type, AnyFloat):
        return FloatAttr(float(value), type)
    assert isinstance(type, IntegerType)
    bits = type.width.data
    if value in (float("inf"), float("-inf")):
        if bits == 1:
            return IntegerAttr(-1 if value > 0 else 0, type)
        value = (1 << (bits - 1)) - 1 if value > 0 else -(1 << (bits - 1))
    if bits == 1:
        value = -1 if value else 0
    return IntegerAttr(int(value), type)


def _elementwise(
    name: str,
    identity: float,
    float_op: type | None,
    int_op: type,
    *,
    idempotent: bool = False,
    adds: bool = False,
) -> Monoid:
    def combine(builder: Builder, lhs: Values, rhs: Values) -> list[SSAValue]:
        return [one(builder, a, b) for a, b in zip(lhs, rhs, strict=True)]

    def one(builder: Builder, a: SSAValue, b: SSAValue) -> SSAValue:
        op = float_op if isinstance(a.type, AnyFloat) else int_op
        if op is None:
            raise ValueError(f"the monoid '{name}' is not defined for {a.type}")
        return builder.insert(op(a, b)).results[0]

    return Monoid(
        name,
        lambda types: [_constant(identity, type) for type in types],
        combine,
        idempotent=idempotent,
        adds=adds,
    )


def _arg(name: str, identity: float, better: str, *, last: bool = False) -> Monoid:
    """(value, index): NaN wins, then the better value, then the smaller index, or the `last`."""

    def combine(b: Builder, lhs: Values, rhs: Values) -> list[SSAValue]:
        (v, i), (w, j) = lhs, rhs
        nearer = b.insert(arith.CmpiOp(*((i, j) if last else (j, i)), "slt")).result
        if isinstance(v.type, AnyFloat):
            v_nan = b.insert(arith.CmpfOp(v, v, "uno")).result
            w_nan = b.insert(arith.CmpfOp(w, w, "uno")).result
            wins = b.insert(arith.CmpfOp(w, v, f"o{better}")).result
            equal = b.insert(arith.CmpfOp(w, v, "oeq")).result
            both_nan = b.insert(arith.AndIOp(v_nan, w_nan)).result
            tie = b.insert(arith.OrIOp(equal, both_nan)).result
            true = b.insert(arith.ConstantOp(IntegerAttr(-1, 1))).result
            only_w = b.insert(arith.AndIOp(w_nan, b.insert(arith.XOrIOp(v_nan, true)).result))
            wins = b.insert(arith.OrIOp(wins, only_w.result)).result
        else:
            wins = b.insert(arith.CmpiOp(w, v, f"s{better}")).result
            tie = b.insert(arith.CmpiOp(w, v, "eq")).result
        tie = b.insert(arith.AndIOp(tie, nearer)).result
        take = b.insert(arith.OrIOp(wins, tie)).result
        return [
            b.insert(arith.SelectOp(take, w, v)).result,
            b.insert(arith.SelectOp(take, j, i)).result,
        ]

    return Monoid(
        name,
        lambda types: [_constant(identity, types[0]), _constant(-_INF if last else _INF, types[1])],
        combine,
        arity=2,
        together=True,
        idempotent=True,
    )


def below(b: Builder, x: SSAValue, monoid: str = EXPSUM) -> SSAValue:
    """
    e^x or 2^x, at most 1, as a term or a factor of sums of which 1 is one: an error of 2^-24 is one
    of rounding them.
    """
    return b.insert(operation(POWERS[monoid]).create(operands=[x], result_types=[x.type])).results[
        0
    ]


def kept(b: Builder, m: SSAValue, n: SSAValue, monoid: str) -> SSAValue:
    """
    What sums relative to m are multiplied with, to be relative to an n >= m: e^(m − n), or that
    power of 2, and 1 where both are equal, infinite or not; NaN if n is.
    """
    zero = b.insert(arith.ConstantOp(_constant(0, m.type))).result
    equal = b.insert(arith.CmpfOp(m, n, "oeq")).result
    distance = b.insert(arith.SubfOp(m, n)).result
    return below(b, b.insert(arith.SelectOp(equal, zero, distance)).result, monoid)


def _expsum(name: str) -> Monoid:
    """
    (m, a, …): sums of a·e^x, or a·2^x, over exponents x, relative to the largest of them, m.

    Of two elements the one of the lesser m is multiplied by e^(its m − the other), at most 1, and
    by 1 where both are equal, infinite or not. NaN makes all values NaN.
    """

    def combine(b: Builder, lhs: Values, rhs: Values) -> list[SSAValue]:
        (m, *sums), (n, *others) = lhs, rhs
        zero, one = (b.insert(arith.ConstantOp(_constant(v, m.type))).result for v in (0, 1))
        equal = b.insert(arith.CmpfOp(m, n, "oeq")).result
        larger = b.insert(arith.CmpfOp(m, n, "oge")).result
        apart = b.insert(math.AbsFOp(b.insert(arith.SubfOp(m, n)).result)).result
        distance = b.insert(arith.SelectOp(equal, zero, apart)).result
        factor = below(b, b.insert(arith.NegfOp(distance)).result, name)
        left = b.insert(arith.SelectOp(larger, one, factor)).result
        right = b.insert(arith.SelectOp(larger, factor, one)).result

        def added(x: SSAValue, y: SSAValue) -> SSAValue:
            scaled = b.insert(arith.MulfOp(y, right)).result
            return b.insert(math.FmaOp(x, left, scaled)).result

        largest = b.insert(arith.MaximumfOp(m, n)).result
        return [largest, *(added(x, y) for x, y in zip(sums, others, strict=True))]

    def identity(types: Sequence[Attribute]) -> list[Attribute]:
        return [_constant(0 if n else -_INF, type) for n, type in enumerate(types)]

    return Monoid(name, identity, combine, together=True, adds=True)


def _moments(b: Builder, lhs: Values, rhs: Values) -> list[SSAValue]:
    """
    The moments of the points of both (Chan, Golub, LeVeque, "Updating formulae and a pairwise
    algorithm for computing sample variances", 1979): a mean of the means, weighted so that an
    infinite one stays, and the distances between these. No points have the mean 0.
    """

    def times(x: SSAValue, y: SSAValue) -> SSAValue:
        return b.insert(arith.MulfOp(x, y)).result

    (n, mean, spread, *sums), (k, other, apart, *others) = lhs, rhs
    points = b.insert(arith.AddfOp(n, k)).result
    one = b.insert(arith.ConstantOp(_constant(1, n.type))).result
    some = b.insert(arith.MaximumfOp(points, one)).result
    per_point = b.insert(arith.DivfOp(one, some)).result
    left, right = times(n, per_point), times(k, per_point)
    average = b.insert(arith.AddfOp(times(mean, left), times(other, right))).result
    distance = b.insert(arith.SubfOp(other, mean)).result
    between = times(times(distance, times(n, right)), distance)
    within = b.insert(arith.AddfOp(spread, apart)).result
    pairs = [(within, between), *zip(sums, others, strict=True)]
    return [points, average, *(b.insert(arith.AddfOp(x, y)).result for x, y in pairs)]


def _log_add(b: Builder, lhs: Values, rhs: Values) -> list[SSAValue]:
    """log(exp(x) + exp(y)) of each pair; where the larger one is infinite, that one."""
    found: list[SSAValue] = []
    for x, y in zip(lhs, rhs, strict=True):
        largest = b.insert(arith.MaximumfOp(x, y)).result
        least = b.insert(arith.MinimumfOp(x, y)).result
        power = b.insert(math.ExpOp(b.insert(arith.SubfOp(least, largest)).result)).result
        more = b.insert(math.Log1pOp(power)).result
        total = b.insert(arith.AddfOp(largest, more)).result
        infinity = b.insert(arith.ConstantOp(_constant(_INF, x.type))).result
        size = b.insert(math.AbsFOp(largest)).result
        infinite = b.insert(arith.CmpfOp(size, infinity, "oeq")).result
        found.append(b.insert(arith.SelectOp(infinite, largest, total)).result)
    return found


MONOIDS: dict[str, Monoid] = {
    m.name: m
    for m in (
        _elementwise("add", 0, arith.AddfOp, arith.AddiOp, adds=True),
        _elementwise("mul", 1, arith.MulfOp, arith.MuliOp),
        _elementwise("max", -_INF, arith.MaximumfOp, arith.MaxSIOp, idempotent=True),
        _elementwise("min", _INF, arith.MinimumfOp, arith.MinSIOp, idempotent=True),
        _elementwise("and", 1, None, arith.AndIOp, idempotent=True),
        _elementwise("or", 0, None, arith.OrIOp, idempotent=True),
        _arg("argmax", -_INF, "gt"),
        _arg("argmin", _INF, "lt"),
        *map(_expsum, POWERS),
        Monoid(
            "moments",
            lambda types: [_constant(0, t) for t in types],
            _moments,
            least=3,
            together=True,
            adds=True,
        ),
        _arg("argmax_last", -_INF, "gt", last=True),
        _arg("argmin_last", _INF, "lt", last=True),
        Monoid("logaddexp", lambda types: [_constant(-_INF, t) for t in types], _log_add),
    )
}
