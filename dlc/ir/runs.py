"""Expressions along runs of neighbours, which no quotient tells apart."""

from __future__ import annotations

from math import gcd

from xdsl.ir import SSAValue

from dlc.ir.expr import Atom, Expr, FloorDiv, Mod, range_of


def along_run(expr: Expr, lane: SSAValue) -> Expr:
    """
    The expression with quotients and remainders taken apart where `lane` runs within what divides
    the rest: with lanes from 0 to 7, `(8 t + lane) floordiv 64` is `8 t floordiv 64`, and
    `(8 t + lane) mod 64` is `8 t mod 64 + lane`.
    """
    return Expr.weighted_sum((_apart(atom, lane), c) for atom, c in expr.terms) + expr.constant


def _apart(atom: Atom, lane: SSAValue) -> Expr:
    whole = Expr(((atom, 1),))
    if not isinstance(atom, FloorDiv | Mod):
        return whole
    step = atom.base.coefficient(lane)
    first, last = range_of(lane)
    if not step or step < 0 or first < 0:
        return whole
    run = Expr.of(lane) * step
    rest = atom.base - run
    if last * step >= gcd(atom.divisor, rest.constant, *(c for _, c in rest.terms)):
        return whole
    return rest // atom.divisor if isinstance(atom, FloorDiv) else rest % atom.divisor + run
