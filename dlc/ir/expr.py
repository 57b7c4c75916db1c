"""
Index expressions over SSA values: the one place where subscripts are computed with.

An `Expr` is a sum of integer multiples of *atoms* plus a constant. An atom is an SSA value of type
`index`, or a floor division or remainder of an `Expr` by a positive constant. Every constructor
normalizes with the ranges of the values involved (`range_of`), so `(4*i + v) floordiv 4` is `i`
as soon as `v` is an axis of extent 4. Operations carry expressions as affine maps over operands
(`affine_forms.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import gcd, isinf
from operator import index
from typing import Final

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1
from xdsl.ir import Block, BlockArgument, OpResult, SSAValue

from dlc.ir.cached import cached

Range = tuple[float, float]
"""Inclusive bounds; infinite where nothing is known."""

UNKNOWN: Range = (float("-inf"), float("inf"))
MOST_ASKED = 64
"""Operations that are looked at for the bounds of an integer."""


@dataclass(frozen=True)
class FloorDiv:
    """`base floordiv divisor`, divisor > 1."""

    base: Expr
    divisor: int


@dataclass(frozen=True)
class Mod:
    """`base mod divisor`, divisor > 1; the result lies in `[0, divisor)`."""

    base: Expr
    divisor: int

    @cached
    def quotient(self) -> Expr:
        """`base floordiv divisor`."""
        return self.base // self.divisor


Atom = SSAValue | FloorDiv | Mod


@dataclass(eq=False, init=False)
class Expr:
    """`sum(coefficient * atom) + constant`; terms keep the order in which they were written."""

    terms: Final[tuple[tuple[Atom, int], ...]]
    constant: Final[int]

    def __init__(self, terms: tuple[tuple[Atom, int], ...] = (), constant: int = 0) -> None:
        self.terms = terms  # many are made, and a field of a frozen class takes long to set
        self.constant = constant

    @staticmethod
    def of(value: Expr | SSAValue | int) -> Expr:
        """An expression of a value (the constant itself if the value is one) or of an integer."""
        if isinstance(value, Expr):
            return value
        if not isinstance(value, SSAValue):
            return Expr((), index(value))
        return Expr.within(value, range_of(value))

    @staticmethod
    def within(value: SSAValue, range: Range) -> Expr:
        """An expression of a value that has a range: what it is, if that is one number."""
        lo, hi = range
        return Expr((), int(lo)) if lo == hi else Expr(((value, 1),))

    @cached
    def coefficients(self) -> dict[Atom, int]:
        return dict(self.terms)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Expr)
            and self.constant == other.constant
            and self.coefficients == other.coefficients
        )

    @cached
    def hashed(self) -> int:
        return hash((frozenset(self.terms), self.constant))

    def __hash__(self) -> int:
        return self.hashed

    def __add__(self, other: Expr | SSAValue | int) -> Expr:
        sums = dict(self.terms)
        constant = self.constant
        if isinstance(other, int):
            constant += index(other)
        else:
            constant += add_multiple(Expr.of(other), 1, sums)
        return normalized(sums, constant)

    @staticmethod
    def weighted_sum(parts: Iterable[tuple[Expr, int]], constant: int = 0) -> Expr:
        """The sum of the products of expressions and numbers, and of a constant."""
        sums: dict[Atom, int] = {}
        for part, factor in parts:
            constant += add_multiple(part, factor, sums)
        return normalized(sums, constant)

    def __sub__(self, other: Expr | SSAValue | int) -> Expr:
        sums = dict(self.terms)
        return normalized(sums, self.constant + add_multiple(Expr.of(other), -1, sums))

    def __mul__(self, factor: int) -> Expr:
        factor = index(factor)
        if factor == 0:
            return Expr()
        return Expr(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)

    def __floordiv__(self, divisor: int) -> Expr:
        divisor = index(divisor)
        if divisor == 1:
            return self
        whole, rest = self._split(divisor)
        lo, hi = rest.range
        if lo // divisor == hi // divisor and lo > float("-inf"):
            return whole + int(lo // divisor)
        if len(rest.terms) == 1 and rest.constant == 0:
            (atom, coefficient) = rest.terms[0]
            if isinstance(atom, FloorDiv) and coefficient == 1:  # x//a//b = x//(a*b)
                return whole + atom.base // (atom.divisor * divisor)
        common = gcd(divisor, *(c for _, c in rest.terms))
        if common > 1:  # (4a + r) // 8 = (a + r // 4) // 2
            reduced = Expr(tuple((a, c // common) for a, c in rest.terms), rest.constant // common)
            return whole + reduced // (divisor // common)
        if (coarse := rest._coarse(divisor)) is not None:  # (4a + r) // 8 = a // 2, 0 <= r < 4
            step, large, _ = coarse
            return whole + large // (divisor // step)
        return whole + Expr(((FloorDiv(rest, divisor), 1),))

    def __mod__(self, divisor: int) -> Expr:
        divisor = index(divisor)
        if divisor == 1:
            return Expr()
        _, rest = self._split(divisor)
        lo, hi = rest.range
        if lo // divisor == hi // divisor and lo > float("-inf"):
            return rest - int(lo // divisor) * divisor
        if len(rest.terms) == 1 and rest.constant == 0:
            (atom, coefficient) = rest.terms[0]
            if isinstance(atom, Mod) and coefficient == 1 and atom.divisor % divisor == 0:
                return atom.base % divisor
        common = gcd(divisor, rest.constant, *(c for _, c in rest.terms))
        if common > 1:  # (4a) mod 8 = (a mod 2) * 4
            reduced = Expr(tuple((a, c // common) for a, c in rest.terms), rest.constant // common)
            return (reduced % (divisor // common)) * common
        if (coarse := rest._coarse(divisor)) is not None:  # (4a + r) mod 8 = (a mod 2) * 4 + r
            step, large, small = coarse
            return large % (divisor // step) * step + small
        return Expr(((Mod(rest, divisor), 1),))

    def _split(self, divisor: int) -> tuple[Expr, Expr]:
        """Write as `whole * divisor + rest`, the rest's coefficients not divisible."""
        whole = Expr(
            tuple((a, c // divisor) for a, c in self.terms if c % divisor == 0),
            self.constant // divisor,
        )
        rest = Expr(tuple((a, c) for a, c in self.terms if c % divisor), self.constant % divisor)
        return whole, rest

    def _coarse(self, divisor: int) -> tuple[int, Expr, Expr] | None:
        """
        Write as `step * large + small` with `0 <= small < step`, of the largest step that divides
        the divisor; None where there is none.
        """
        steps = {gcd(c, divisor) for _, c in self.terms}
        steps |= {gcd(a, b) for a in steps for b in steps}
        for step in sorted(steps - {1}, reverse=True):
            multiples = tuple((a, c // step) for a, c in self.terms if c % step == 0)
            rest = tuple((a, c) for a, c in self.terms if c % step)
            small = Expr(rest, self.constant % step)
            lo, hi = small.range
            if 0 <= lo and hi < step:
                return step, Expr(multiples, self.constant // step), small
        return None

    @cached
    def range(self) -> Range:
        """Inclusive bounds over all values of the atoms."""
        lo = hi = float(self.constant)
        for atom, coefficient in self.terms:
            low, high = _atom_range(atom)
            a, b = coefficient * low, coefficient * high
            lo, hi = (lo + a, hi + b) if a <= b else (lo + b, hi + a)
        return lo, hi

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def values(self) -> tuple[SSAValue, ...]:
        """The SSA values mentioned, in order of appearance."""
        seen: dict[SSAValue, None] = {}
        for atom, _ in self.terms:
            if isinstance(atom, SSAValue):
                seen[atom] = None
            else:
                seen.update(dict.fromkeys(atom.base.values()))
        return tuple(seen)

    def coefficient(self, value: SSAValue) -> int | None:
        """The factor of `value` where the expression is affine in it, else None."""
        if any(not isinstance(a, SSAValue) and value in a.base.values() for a, _ in self.terms):
            return None
        return self.coefficients.get(value, 0)

    def substitute(self, replace: Callable[[SSAValue], Expr | SSAValue | int | None]) -> Expr:
        """The expression with every value for which `replace` gives something replaced."""

        sums: dict[Atom, int] = {}
        constant = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, SSAValue):
                new = replace(atom)
                part = Expr.of(atom if new is None else new)
            elif isinstance(atom, FloorDiv):
                part = atom.base.substitute(replace) // atom.divisor
            else:
                part = atom.base.substitute(replace) % atom.divisor
            constant += add_multiple(part, coefficient, sums)
        return normalized(sums, constant)

    def evaluate(self, values: Mapping[SSAValue, int]) -> int:
        """The number that the expression has at a point."""
        total = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, SSAValue):
                total += coefficient * values[atom]
            elif isinstance(atom, FloorDiv):
                total += coefficient * (atom.base.evaluate(values) // atom.divisor)
            else:
                total += coefficient * (atom.base.evaluate(values) % atom.divisor)
        return total


def _atom_range(atom: Atom) -> Range:
    if type(atom) is Mod:
        return 0, atom.divisor - 1
    if type(atom) is FloorDiv:
        return divided(atom.base.range, atom.divisor)
    assert isinstance(atom, SSAValue)
    return range_of(atom)


def divided(range: Range, divisor: int) -> Range:
    """The bounds of quotients; an infinite one stays, whose quotient would be NaN."""
    low, high = range
    return low if isinf(low) else low // divisor, high if isinf(high) else high // divisor


def add_multiple(part: Expr, factor: int, sums: dict[Atom, int]) -> int:
    """Adds the terms of `part * factor` to `sums`; the constant is returned."""
    for atom, coefficient in part.terms:
        sums[atom] = sums.get(atom, 0) + coefficient * factor
    return part.constant * factor


def normalized(sums: Mapping[Atom, int], constant: int) -> Expr:
    """The sum of atoms that often each, and a constant."""
    terms = tuple(sums.items())
    if 0 in sums.values():
        terms = tuple([term for term in terms if term[1]])
    expr = Expr(terms, constant)
    for atom in sums:
        if type(atom) is Mod:
            return _recombine(expr)
    return expr


def _recombine(expr: Expr) -> Expr:
    """`(e floordiv c) * c + e mod c` is `e`."""
    for atom, coefficient in expr.terms:
        if not isinstance(atom, Mod):
            continue
        factor = atom.divisor * coefficient
        if not any(c % factor == 0 for _, c in expr.terms):  # as all of its quotient's are
            continue
        quotient = atom.quotient * factor
        if quotient.terms and all(expr.coefficients.get(a) == c for a, c in quotient.terms):
            rest = tuple(
                (a, c) for a, c in expr.terms if a != atom and a not in quotient.coefficients
            )
            whole = Expr(rest, expr.constant - quotient.constant)
            return atom.base * coefficient + whole
    return expr


def constant_of(value: SSAValue) -> int | None:
    """The integer that an `arith.constant` of type index defines, else None."""
    if isinstance(value, OpResult) and isinstance(value.op, arith.ConstantOp):
        number = value.op.properties["value"]
        return number.value.data if isinstance(number, IntegerAttr) else None
    return None


def range_of(value: SSAValue) -> Range:
    """
    Inclusive bounds of an index value: an axis gives `[0, extent)`, an op with a method
    `index_range` that range, an `scf.for` its first and last index as far as its bounds are known,
    a number that is kept between two its limits.
    """
    if not isinstance(value, BlockArgument):
        if (index_range := getattr(value.owner, "index_range", None)) is not None:
            return index_range()
        if isinstance(cast := value.owner, arith.IndexCastOp):
            return _integer_range(cast.input)
        known = constant_of(value)
        return UNKNOWN if known is None else (known, known)
    region = value.block.parent
    parent = None if region is None else region.parent
    if (axis_range := getattr(parent, "axis_range", None)) is not None:
        return axis_range(value)
    if isinstance(parent, scf.ForOp) and value.index == 0:
        return _range_of_index(parent)
    return UNKNOWN


def _integer_range(value: SSAValue, known: dict[SSAValue, Range] | None = None) -> Range:
    """
    Inclusive bounds of an integer that is kept between constants, as far as so many operations
    tell: `known` has those of values that were asked for on the way.
    """
    known = {} if known is None else known
    if value not in known:
        known[value] = UNKNOWN  # also where there are too many, so that each is asked for once
        known[value] = _range_of_integer(value, known) if len(known) < MOST_ASKED else UNKNOWN
    return known[value]


def _range_of_integer(value: SSAValue, known: dict[SSAValue, Range]) -> Range:
    owner = value.owner
    if isinstance(owner, arith.ExtSIOp):
        return UNKNOWN if owner.input.type == i1 else _integer_range(owner.input, known)
    if isinstance(owner, arith.MinSIOp | arith.MaxSIOp):
        nearest = min if isinstance(owner, arith.MinSIOp) else max
        sides = zip(*(_integer_range(v, known) for v in owner.operands), strict=True)
        low, high = (nearest(pair) for pair in sides)
        return low, high
    if isinstance(owner, arith.AddiOp | arith.SubiOp):
        (low, high), (least, most) = (_integer_range(v, known) for v in owner.operands)
        if isinstance(owner, arith.SubiOp):
            least, most = -most, -least
        bits = value.type.width.data if isinstance(value.type, IntegerType) else 64
        wraps = low + least < -(2 ** (bits - 1)) or high + most >= 2 ** (bits - 1)
        return UNKNOWN if wraps else (low + least, high + most)
    number = constant_of(value)
    return UNKNOWN if number is None else (number, number)


def _range_of_index(loop: scf.ForOp) -> Range:
    """The first and the last index of a loop."""
    first, end, by, *_ = loop.operands
    lb, ub, step = constant_of(first), constant_of(end), constant_of(by)
    if lb is not None and ub is not None and step:
        return lb, max(lb, lb + (ub - lb - 1) // step * step)
    low, high = range_of(first)[0], range_of(end)[1]
    return low, max(low, high - 1)


def top_of(value: SSAValue) -> Expr | None:
    """
    The last of the values from 0 on that an index value has, where that is an expression of sizes:
    what an axis or an operation says by a method `top` or `index_top`.
    """
    owner = value.owner
    if isinstance(owner, Block):
        top = getattr(owner.parent_op(), "top", None)
        return None if top is None else top(value)
    top = getattr(owner, "index_top", None)
    return None if top is None else top()
