"""Index expressions and conditions in C: 32-bit where their bounds allow it, else 64-bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from dlc.backend.cuda.print.c_text import Level, Text, binary, call, cast, integer
from dlc.dialects.indexed_op import simplify_where
from dlc.ir.bounds import bounds, never, sure
from dlc.ir.expr import Atom, Expr, FloorDiv, Mod, Range

_INT_MIN, MOST_INT = -(2**31), 2**31 - 1


class WideIndexError(ValueError):
    """An index that does not fit in 64 bits."""


Use = Callable[[SSAValue], Text]
"""The function that gives an index value its text."""


def index_type(value: SSAValue) -> str:
    """The C type of an index value: `int` where that holds all that it can be."""
    if _is_int(bounds(value)):
        return "int"
    owner = value.owner
    if isinstance(owner, arith.IndexCastOp):
        source = owner.input.type
        if isinstance(source, IntegerType) and source.width.data <= 32:
            return "int"
    return "long long"


def _is_int(range: Range) -> bool:
    return range[0] >= _INT_MIN and range[1] <= MOST_INT


def counter_type(loop: scf.ForOp) -> str:
    """The C type of a loop's index, which is a step beyond its last value in the end."""
    last = bounds(loop.ub)[1] - 1 + bounds(loop.step)[1]
    index = loop.body.block.args[0]
    return index_type(index) if last <= MOST_INT else "long long"


def _product_range(atom: Atom, coefficient: int) -> Range:
    return bounds(Expr(((atom, coefficient),)))


def is_narrow(expr: Expr) -> bool:
    """True if `expr` can be computed in `int`, whatever the order of its sums and products."""
    bases = (atom.base for atom, _ in expr.terms if not isinstance(atom, SSAValue))
    return all(map(is_narrow, bases)) and _is_int(_sums(expr))


def _sums(expr: Expr) -> Range:
    """What lies between these can be the sum of any of the terms of `expr`."""
    low, high = min(expr.constant, 0), max(expr.constant, 0)
    for atom, coefficient in expr.terms:
        a, b = _product_range(atom, coefficient)
        low, high = low + min(a, 0), high + max(b, 0)
    return low, high


def _check_wide(expr: Expr) -> None:
    """WideIndexError for an index that can leave `long long`, as far as its values are known."""
    for end in _sums(expr):
        if math.isfinite(end) and not -(2**63) <= end < 2**63:
            raise WideIndexError(f"expected indices of 64 bits, found one that can be {end:.0f}")


class IndexText:
    """Prints index expressions; `helpers` collects the prelude functions that they call."""

    def __init__(self, use: Use, helpers: set[str]) -> None:
        self._use = use
        self._helpers = helpers

    def expr(self, expr: Expr) -> Text:
        """`expr` with as few parentheses, casts and minus signs as possible."""
        if not expr.terms:
            return integer(expr.constant)
        wide = not is_narrow(expr)
        if wide:
            _check_wide(expr)
        terms = sorted(expr.terms, key=lambda term: term[1] < 0)  # what is subtracted comes last
        total: Text | None = None
        if terms[0][1] < 0 and expr.constant > 0:
            total = integer(expr.constant, wide=wide)
        leads = total is not None
        for number, (atom, coefficient) in enumerate(terms):
            first = number == 0 and not leads
            widen = wide and (first or not _is_int(_product_range(atom, coefficient)))
            part = self._term(atom, coefficient if first else abs(coefficient), widen)
            sign = "+" if coefficient > 0 else "-"
            total = part if total is None else binary(total, sign, part)
        assert total is not None
        if expr.constant and not leads:
            sign = "+" if expr.constant > 0 else "-"
            total = binary(total, sign, integer(abs(expr.constant)))
        return total

    def _term(self, atom: Atom, coefficient: int, widen: bool) -> Text:
        text = self._atom(atom)
        if widen and not self._is_wide(atom):
            text = cast("long long", text)
        if coefficient == 1:
            return text
        if coefficient == -1:
            return Text(f"-{text.at(Level.UNARY)}", Level.UNARY, text.depth)
        return binary(text, "*", integer(coefficient))

    def _atom(self, atom: Atom) -> Text:
        if isinstance(atom, SSAValue):
            return self._use(atom)
        base, divisor = self.expr(atom.base), integer(atom.divisor)
        if sure(atom.base):
            return binary(base, "/" if isinstance(atom, FloorDiv) else "%", divisor)
        helper = "floor_div" if isinstance(atom, FloorDiv) else "floor_mod"
        self._helpers.add(helper)
        type = "int" if is_narrow(atom.base) and not self._is_wide(atom) else "long long"
        return call(f"{helper}<{type}>", base, divisor)

    def _is_wide(self, atom: Atom) -> bool:
        """True if the atom has type `long long` in C."""
        if isinstance(atom, FloorDiv | Mod):
            return not is_narrow(atom.base) or any(map(self._is_wide, _atoms(atom.base)))
        return index_type(atom) != "int"

    def conditions(self, conditions: Sequence[Expr]) -> Text | None:
        """All conditions, each `>= 0`, joined; None where their bounds make all of them sure."""
        left = simplify_where(conditions)
        if not left:
            return None
        if any(map(never, left)):
            return Text("false")
        parts: list[Text] = []
        while left:
            condition = left.pop(0)
            opposite = condition * -1
            if opposite in left:
                left.remove(opposite)
                parts.append(self._compare(condition, equal=True))
            else:
                parts.append(self._compare(condition))
        return reduce(lambda lhs, rhs: binary(lhs, "&&", rhs), parts)

    def _compare(self, condition: Expr, *, equal: bool = False) -> Text:
        """`condition >= 0`, or `== 0`: what is added here, what is subtracted there."""
        added = Expr(tuple(t for t in condition.terms if t[1] > 0))
        taken = Expr(tuple((a, -c) for a, c in condition.terms if c < 0))
        constant = condition.constant
        if equal:
            if not added.terms:
                added, taken, constant = taken, added, -constant
            return binary(self.expr(added), "==", self.expr(taken - constant))
        if not added.terms and constant == 0 and sure(taken):
            return binary(self.expr(taken), "==", integer(0))
        if not added.terms:
            return binary(self.expr(taken), "<", integer(constant + 1))
        if not taken.terms:
            return binary(self.expr(added), ">=", integer(-constant))
        strict = constant < 0
        rest = constant + 1 if strict else constant
        if condition.terms[0][1] > 0:
            return binary(self.expr(added + rest), ">" if strict else ">=", self.expr(taken))
        return binary(self.expr(taken), "<" if strict else "<=", self.expr(added + rest))


def _atoms(expr: Expr) -> list[Atom]:
    return [atom for atom, _ in expr.terms]
