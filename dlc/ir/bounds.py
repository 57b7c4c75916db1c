"""
What is known of index expressions wherever they are computed: asked here, never compared.

A condition is an expression that is meant to be >= 0. Whoever decides by one asks whether it is
`sure`, or whether it `never` holds, so that how bounds are found out is a matter of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import SSAValue

from dlc.ir.expr import Atom, Expr, Mod, Range, divided, range_of, top_of


def bounds(of: Expr | SSAValue) -> Range:
    """Inclusive bounds of an expression or an index value; infinite where nothing is known."""
    return of.range if isinstance(of, Expr) else range_of(of)


def least(of: Expr | SSAValue) -> float:
    """A number that an expression or an index value is never below."""
    return bounds(of)[0]


def most(of: Expr | SSAValue) -> float:
    """A number that an expression or an index value is never above."""
    return bounds(of)[1]


def hint(of: Expr | SSAValue) -> int:
    """The number that schedules and estimates assume: the only one, or else the largest."""
    return int(most(of))


def sure(condition: Expr, known: Iterable[Expr] = ()) -> bool:
    """
    True if a condition always holds, by bounds alone or given one of `known`, each being >= 0. A
    known condition counts with every positive factor that makes a term of the two equal; those of
    one value alone, with its bounds within quotients.
    """
    if condition.range[0] >= 0:
        return True
    if _has_size(condition) and any(_least_of_sizes(condition, way) >= 0 for way in (False, True)):
        return True
    known = list(known)
    for k in known:
        factors = {1}
        for atom, coefficient in k.terms:
            wanted = condition.coefficients.get(atom, 0)
            if wanted % coefficient == 0 and wanted // coefficient > 0:
                factors.add(wanted // coefficient)
        if any((condition - k * factor).range[0] >= 0 for factor in factors):
            return True
    limits = _limits(known)
    return bool(limits) and _range_given(condition, limits)[0] >= 0


def _limits(known: Iterable[Expr]) -> dict[SSAValue, Range]:
    """The bounds of values of which a known condition is a multiple and a constant."""
    found: dict[SSAValue, Range] = {}
    for k in known:
        match k.terms:
            case ((SSAValue() as value, coefficient),):
                low, high = found.get(value, range_of(value))
                if coefficient > 0:
                    low = max(low, -(k.constant // coefficient))
                else:
                    high = min(high, k.constant // -coefficient)
                found[value] = low, high
            case _:
                pass
    return found


def _range_given(expr: Expr, limits: Mapping[SSAValue, Range]) -> Range:
    """The range of an expression where values have these bounds."""
    low = high = float(expr.constant)
    for atom, coefficient in expr.terms:
        ends = [coefficient * end for end in _atom_given(atom, limits)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_given(atom: Atom, limits: Mapping[SSAValue, Range]) -> Range:
    if isinstance(atom, SSAValue):
        return limits.get(atom, range_of(atom))
    low, high = _range_given(atom.base, limits)
    if isinstance(atom, Mod):
        whole = 0 <= low and high < atom.divisor
        return (low, high) if whole else (0, atom.divisor - 1)
    return divided((low, high), atom.divisor)


def _has_size(condition: Expr) -> bool:
    """True if a size of the program is added in a condition, which an axis may cancel."""
    return any(
        coefficient > 0 and any(hasattr(v.owner, "symbol") for v in _values(atom))
        for atom, coefficient in condition.terms
    )


def _values(atom: Atom) -> Sequence[SSAValue]:
    return (atom,) if isinstance(atom, SSAValue) else atom.base.values()


def _least_of_sizes(condition: Expr, quotients: bool) -> float:
    """
    A number that a condition is never below: index values that end with a size are put where they
    make it least, at 0 or at their last point, multiples of quotients count as what they are never
    above or below, and the sizes that this leaves count by bounds. `quotients` says to put
    values within those where they make it least, too.
    """
    while True:
        for atom, coefficient in condition.terms:
            if (least := _where_least(atom, coefficient, quotients)) is not None:
                rest = Expr(tuple(term for term in condition.terms if term[0] != atom))
                condition = rest + condition.constant + least
                break
        else:
            return condition.range[0]


def _where_least(atom: Atom, coefficient: int, quotients: bool) -> Expr | None:
    """What a multiple of an atom is never below, if that is told by sizes."""
    if isinstance(atom, SSAValue):
        if (top := top_of(atom)) is None:
            return None
        return Expr() if coefficient > 0 else top * coefficient
    if isinstance(atom, Mod):
        return None
    extreme = _extreme(atom.base, coefficient < 0) if quotients else None
    if extreme is not None:
        return extreme // atom.divisor * coefficient
    if coefficient % atom.divisor:
        return None
    times = coefficient // atom.divisor
    return (atom.base - (atom.divisor - 1 if times > 0 else 0)) * times


def _extreme(base: Expr, most: bool) -> Expr | None:
    """
    What an expression is never above, or never below, with the index values that end with a size at
    their last points or at 0; None if there are none.
    """
    if not any(isinstance(atom, SSAValue) and top_of(atom) is not None for atom, _ in base.terms):
        return None
    found = Expr((), base.constant)
    for atom, coefficient in base.terms:
        top = top_of(atom) if isinstance(atom, SSAValue) else None
        if top is None:
            found = found + Expr(((atom, coefficient),))
        elif (coefficient > 0) == most:
            found = found + top * coefficient
    return found


def never(condition: Expr) -> bool:
    """True if a condition never holds."""
    return condition.range[1] < 0


def within(subscript: Expr, extent: Expr | int, known: Sequence[Expr] = ()) -> list[Expr]:
    """The conditions (each `>= 0`) that keep a subscript in `[0, extent)`, without sure ones."""
    needed = (subscript, Expr.of(extent) - 1 - subscript)
    return [c for c in needed if not sure(c, known)]
