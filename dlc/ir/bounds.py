"""
What is known of index expressions wherever they are computed: asked here, never compared.

A condition is an expression that is meant to be >= 0. Whoever decides by one asks whether it is
`sure`, or whether it `never` holds, so that how bounds are found out is a matter of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue

from dlc.ir.expr import Expr, Range, range_of


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
    known condition counts with every positive factor that makes a term of the two equal.
    """
    if condition.range[0] >= 0:
        return True
    for k in known:
        factors = {1}
        for atom, coefficient in k.terms:
            wanted = condition.coefficients.get(atom, 0)
            if wanted % coefficient == 0 and wanted // coefficient > 0:
                factors.add(wanted // coefficient)
        if any((condition - k * factor).range[0] >= 0 for factor in factors):
            return True
    return False


def never(condition: Expr) -> bool:
    """True if a condition never holds."""
    return condition.range[1] < 0


def within(subscript: Expr, extent: int, known: Sequence[Expr] = ()) -> list[Expr]:
    """The conditions (each `>= 0`) that keep a subscript in `[0, extent)`, without sure ones."""
    needed = (subscript, Expr((), extent - 1) - subscript)
    return [c for c in needed if not sure(c, known)]
