"""
Sizes that are known when a program is called: what extents, strides and numbers are made of them.

A `Size` is a polynomial with integer coefficients over names (`s`) and functions of other sizes
(`(s + 1) floordiv 2`), in one normal form: sizes that are equal term by term are the same size, so
types that hold them compare as any others. It stands where no SSA value may, in types and
attributes; subscripts are index expressions over values (`dlc/ir/expr.py`).

A size stands among extents as an integer does: sums, products and equality are those of sizes, and
what only a number can answer raises `NeedsNumber`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, inf, prod
from typing import Any, Final, NoReturn, TypeAlias

Bounds: TypeAlias = tuple[float, float]
"""The least and the largest value, infinite where there is none."""
FUNCTIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
"""What a size may be beside a polynomial, as functions of two."""
INFIX: Final = ("floordiv", "mod")
RELATIONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class NeedsNumber(Exception):
    """Says which size is asked what only a number can answer."""

    def __init__(self, size: Size) -> None:
        super().__init__(f"needs a number for {size}")


@dataclass(frozen=True)
class Call:
    """A function of two sizes, not both of which are numbers."""

    function: str
    left: Size
    right: Size

    def __str__(self) -> str:
        if self.function in INFIX:
            return f"{_primary(self.left)} {self.function} {_primary(self.right)}"
        return f"{self.function}({self.left}, {self.right})"


Factor: TypeAlias = "str | Call"
Monomial: TypeAlias = "tuple[Factor, ...]"


@dataclass(frozen=True)
class Size:
    """`sum(coefficient * factor * …) + constant`, its terms in their order: see `_sum`."""

    terms: tuple[tuple[Monomial, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: Size | str | int) -> Size:
        """A size, the size called so, or a number."""
        if isinstance(value, Size):
            return value
        return Size((), value) if isinstance(value, int) else Size((((value,), 1),))

    def __add__(self, other: Size | int) -> Size:
        other = Size.of(other)
        return _sum((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Size | int) -> Size:
        return self + Size.of(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        pairs = [(a, b) for a in self._all for b in Size.of(other)._all]
        return _sum([((*m, *n), c * d) for (m, c), (n, d) in pairs], 0)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> Size:
        return Size.of(other) - self

    def __neg__(self) -> Size:
        return self * -1

    def __rfloordiv__(self, other: int) -> Size:
        return Size.of(other) // self

    def __rmod__(self, other: int) -> Size:
        return Size.of(other) % self

    def __index__(self) -> int:
        """The number that the size is; NeedsNumber where it depends on names."""
        if self.number is None:
            raise NeedsNumber(self)
        return self.number

    def _needs_number(self, _: Any) -> NoReturn:
        raise NeedsNumber(self)

    __lt__ = __le__ = __gt__ = __ge__ = __truediv__ = __rtruediv__ = __pow__ = _needs_number

    def __floordiv__(self, other: Size | int) -> Size:
        """A quotient; what the divisor, where it is one term, divides is taken out of it."""
        other = _divisor(other)
        if len(other._all) != 1:
            return Size() if not self._all else apply("floordiv", self, other)
        parts = [(term, _quotient(term, other._all[0])) for term in self._all]
        whole = _sum([part for _, part in parts if part], 0)
        rest = _sum([term for term, part in parts if not part], 0)
        return whole + apply("floordiv", rest, other) if rest._all else whole

    def __mod__(self, other: Size | int) -> Size:
        """A remainder, which is what the terms leave that the divisor, of one term, divides not."""
        other = _divisor(other)
        if len(other._all) != 1:
            return Size() if not self._all else apply("mod", self, other)
        rest = _sum([term for term in self._all if not _quotient(term, other._all[0])], 0)
        return apply("mod", rest, other) if rest._all else rest

    @cached_property
    def _all(self) -> tuple[tuple[Monomial, int], ...]:
        """The terms, the constant one, too."""
        return (*self.terms, ((), self.constant)) if self.constant else self.terms

    @property
    def number(self) -> int | None:
        """The size itself where it depends on no name."""
        return None if self.terms else self.constant

    @property
    def divisor(self) -> int:
        """What divides it whatever its names stand for: the most that its terms tell, 0 for 0."""
        return gcd(*(coefficient for _, coefficient in self._all))

    @property
    def name(self) -> str | None:
        """Its name where it is nothing but one."""
        match self:
            case Size(terms=(((str() as name,), 1),), constant=0):
                return name
            case _:
                return None

    @property
    def names(self) -> list[str]:
        """The names in it, each once, as they appear."""
        found: dict[str, None] = {}
        for monomial, _ in self.terms:
            for factor in monomial:
                if isinstance(factor, str):
                    found[factor] = None
                else:
                    found |= dict.fromkeys([*factor.left.names, *factor.right.names])
        return list(found)

    def bind(self, values: Mapping[str, Size | int]) -> Size:
        """
        The size with values for some of its names. ZeroDivisionError where it is divided by one
        that becomes 0.
        """
        total = Size.of(self.constant)
        for monomial, coefficient in self.terms:
            product = Size.of(coefficient)
            for factor in monomial:
                if isinstance(factor, str):
                    product *= Size.of(values.get(factor, factor))
                else:
                    bound = factor.left.bind(values), factor.right.bind(values)
                    product *= FOLDED[factor.function](*bound)
            total += product
        return total

    def settled(self, known: Mapping[str, Bounds]) -> Size:
        """The size without the larger or the less of two where bounds of names tell which it is."""
        total = Size.of(self.constant)
        for monomial, coefficient in self.terms:
            product = Size.of(coefficient)
            for factor in monomial:
                product *= Size.of(factor) if isinstance(factor, str) else _settled(factor, known)
            total += product
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number that the size is; KeyError for a name that has no value."""
        return self.constant + sum(
            coefficient * prod(_value(factor, values) for factor in monomial)
            for monomial, coefficient in self.terms
        )

    def bounds(self, known: Mapping[str, Bounds]) -> Bounds:
        """Between which the size lies, given bounds of its names."""
        low = high = float(self.constant)
        for monomial, coefficient in self.terms:
            bounds: Bounds = (coefficient, coefficient)
            for factor in monomial:
                bounds = _product(bounds, _bounds(factor, known))
            low, high = low + bounds[0], high + bounds[1]
        return low, high

    def __str__(self) -> str:
        signed = [(" - " if c < 0 else " + ") + _term(m, abs(c)) for m, c in self._all]
        text = "".join(signed).removeprefix(" + ")
        return f"-{text[3:]}" if text.startswith(" - ") else text or "0"


@dataclass(frozen=True)
class Symbol:
    """A name that sizes are made of: the values that it may take, and one that it is likely to."""

    name: str
    least: int
    most: int | None = None
    hint: int | None = None

    @property
    def bounds(self) -> Bounds:
        return self.least, inf if self.most is None else self.most

    @property
    def likely(self) -> int:
        return self.least if self.hint is None else self.hint

    def __str__(self) -> str:
        to = "" if self.most is None else f" to {self.most}"
        return f"{self.name} from {self.least}{to}"


@dataclass(frozen=True)
class Fact:
    """What holds of sizes wherever a program is used: `s mod 16 == 0`."""

    left: Size
    relation: str
    right: Size

    @property
    def names(self) -> list[str]:
        """The names in it, each once."""
        return list(dict.fromkeys([*self.left.names, *self.right.names]))

    def bind(self, values: Mapping[str, Size | int]) -> Fact:
        """The fact with values for some of its names."""
        return Fact(self.left.bind(values), self.relation, self.right.bind(values))

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is so; KeyError for a name that has no value."""
        try:
            left, right = self.left.evaluate(values), self.right.evaluate(values)
        except ZeroDivisionError:
            return False
        return RELATIONS[self.relation](left, right)

    def is_implied(self, known: Mapping[str, Bounds]) -> bool:
        """True if it is so for all sizes within such bounds, as far as these tell."""
        low, high = _without_common(self.left - self.right, known).bounds(known)
        sure = {"==": low == high == 0, "!=": low > 0 or high < 0}
        order = {"<": high < 0, "<=": high <= 0, ">": low > 0, ">=": low >= 0}
        return (sure | order)[self.relation]

    def __str__(self) -> str:
        if self.relation == "!=":
            return f"not {self.left} == {self.right}"
        return f"{self.left} {self.relation} {self.right}"


def apply(function: str, left: Size, right: Size) -> Size:
    """A function of `FUNCTIONS` of two sizes. ZeroDivisionError as in Python."""
    if (a := left.number) is not None and (b := right.number) is not None:
        return Size.of(FUNCTIONS[function](a, b))
    if function not in INFIX:
        if left == right:
            return left
        left, right = sorted((left, right), key=str)
    return Size((((Call(function, left, right),), 1),))


def is_packed(shape: Sequence[Size | int], strides: Sequence[Size | int]) -> bool:
    """
    True if elements are in row-major order without gaps; strides of extents 0 and 1 are free. Sizes
    are taken to be larger.
    """
    if 0 in shape:
        return True
    expected = Size.of(1)
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and Size.of(stride) != expected:
            return False
        expected *= extent
    return True


def ceildiv(count: Size | int, by: int) -> int:
    """How many parts of so many points there are; of a size a size, as `Size` says."""
    return (count + by - 1) // by  # pyright: ignore[reportReturnType]


def divides(by: int, count: Size | int) -> bool:
    """True if a number of points is a multiple of a number, as far as that is known of sizes."""
    return Size.of(count % by).number == 0


def several(count: Size | int) -> bool:
    """True for more than one point, which a size is taken to have."""
    return isinstance(count, Size) or count > 1


FOLDED: Final[Mapping[str, Callable[[Size, Size], Size]]] = {
    "floordiv": Size.__floordiv__,
    "mod": Size.__mod__,
    "max": lambda left, right: apply("max", left, right),
    "min": lambda left, right: apply("min", left, right),
}
"""`FUNCTIONS` of sizes, in their simplest form."""


def _sum(terms: Iterable[tuple[Monomial, int]], constant: int) -> Size:
    """The sum in normal form: factors by name, terms by degree, then by their text."""
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        key = tuple(sorted(monomial, key=_order))
        sums[key] = sums.get(key, 0) + coefficient
    constant += sums.pop((), 0)
    kept = [(m, c) for m, c in sums.items() if c]
    kept.sort(key=lambda term: (-len(term[0]), [_order(factor) for factor in term[0]]))
    return Size(tuple(kept), constant)


def _order(factor: Factor) -> tuple[bool, str]:
    return isinstance(factor, Call), str(factor)


def _divisor(value: Size | int) -> Size:
    size = Size.of(value)
    if size.number == 0:
        raise ZeroDivisionError("a size is divided by 0")
    return size


def _quotient(
    term: tuple[Monomial, int], divisor: tuple[Monomial, int]
) -> tuple[Monomial, int] | None:
    """A term over another one, if that divides it."""
    (monomial, coefficient), (over, number) = term, divisor
    rest = list(monomial)
    for factor in over:
        if factor not in rest:
            return None
        rest.remove(factor)
    return None if coefficient % number else (tuple(rest), coefficient // number)


def _value(factor: Factor, values: Mapping[str, int]) -> int:
    if isinstance(factor, str):
        return values[factor]
    function = FUNCTIONS[factor.function]
    return function(factor.left.evaluate(values), factor.right.evaluate(values))


def _settled(call: Call, known: Mapping[str, Bounds]) -> Size:
    left, right = call.left.settled(known), call.right.settled(known)
    if call.function in ("max", "min"):
        for one, other in ((left, right), (right, left)):
            if Fact(one, ">=" if call.function == "max" else "<=", other).is_implied(known):
                return one
    return FOLDED[call.function](left, right)


def _bounds(factor: Factor, known: Mapping[str, Bounds]) -> Bounds:
    if isinstance(factor, str):
        return known.get(factor, (-inf, inf))
    (a, b), (c, d) = factor.left.bounds(known), factor.right.bounds(known)
    match factor.function:
        case "max":
            return max(a, c), max(b, d)
        case "min":
            return min(a, c), min(b, d)
        case "mod" if a >= 0 and Fact(factor.left, "<", factor.right).is_implied(known):
            return a, b
        case "mod" if c > 0:
            return (a, b) if 0 <= a and b < c else (0, min(b, d - 1) if a >= 0 else d - 1)
        case "floordiv" if c > 0:
            ends = [_over(x, y) for x in (a, b) for y in (c, d)]
            return min(ends), max(ends)
        case _:
            return -inf, inf


def _without_common(size: Size, known: Mapping[str, Bounds]) -> Size:
    """A size of the same sign: without the names above 0 that all of its terms have."""
    if size.constant or not size.terms:
        return size
    shared = [f for f in size.terms[0][0] if all(f in monomial for monomial, _ in size.terms)]
    positive = [
        f for f in dict.fromkeys(shared) if isinstance(f, str) and known.get(f, (0, 0))[0] > 0
    ]
    return size // Size(((tuple(positive), 1),)) if positive else size


def _over(value: float, divisor: float) -> float:
    """A quotient rounded down, of an infinity, too; of a number by an infinity 0 or -1."""
    if abs(value) == inf:
        return value if divisor < inf else (0 if value > 0 else value)
    return float(-1 if value < 0 else 0) if divisor == inf else value // divisor


def _product(left: Bounds, right: Bounds) -> Bounds:
    ends = [a * b if a and b else 0.0 for a in left for b in right]
    return min(ends), max(ends)


def _term(monomial: Monomial, coefficient: int) -> str:
    """A product; a quotient or remainder in it is in parentheses."""
    if not monomial:
        return str(coefficient)
    alone = len(monomial) == 1 and coefficient == 1
    words = [str(f) if alone or not _is_infix(f) else f"({f})" for f in monomial]
    return " * ".join([*words, *([str(coefficient)] if coefficient != 1 else [])])


def _is_infix(factor: Factor) -> bool:
    return isinstance(factor, Call) and factor.function in INFIX


def _primary(size: Size) -> str:
    """The size as an operand of `floordiv` and `mod`."""
    alone = len(size._all) < 2 and not str(size).startswith("-")
    factors = [f for monomial, _ in size.terms for f in monomial]
    simple = len(factors) + (size.constant != 0) < 2 and not any(map(_is_infix, factors))
    plain = alone and simple and all(c == 1 for _, c in size.terms)
    return str(size) if plain else f"({size})"
