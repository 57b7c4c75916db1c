"""
How index expressions and conditions are written in all dialects.

```
expr      ::= term ((`+` | `-`) term)*
term      ::= `-` term | primary (`*` integer | `floordiv` integer | `mod` integer)*
primary   ::= ssa-id | integer | `-` primary | `(` expr `)`
condition ::= expr (`<` | `<=` | `>` | `>=` | `==`) expr
```

An expression is stored as an `AffineExpr` over index operands, a condition as the expression that
is `>= 0` where it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

Terms = list[tuple[AffineExpr, int]]

Names = Sequence[SSAValue | str]
"""What dimension n of an affine expression is called."""


class Dims(list[SSAValue]):
    """
    Stands for `operands` where expressions are over numbered dimensions instead of SSA values:
    `d0`, `d1`, … and, after the first `count` of them, `i0`, `i1`, ….
    """

    def __init__(self, count: int, indices: int = 0) -> None:
        super().__init__()
        self.names = [f"d{n}" for n in range(count)] + [f"i{n}" for n in range(indices)]


class Mentioned(list[UnresolvedOperand]):
    """The values that expressions mention, each once, in the order of the text."""

    def dim(self, operand: UnresolvedOperand) -> AffineExpr:
        """The dimension that a value is."""
        names = [(o.operand_name, o.index) for o in self]
        name = (operand.operand_name, operand.index)
        if name not in names:
            self.append(operand)
            return AffineDimExpr(len(names))
        return AffineDimExpr(names.index(name))


Scope = Mentioned | Dims | list[SSAValue]
"""What expressions may mention."""


def parse_expr(parser: Parser, operands: Scope) -> AffineExpr:
    """Parses one expression; values that it mentions are added to `operands`."""
    total = _parse_term(parser, operands)
    while True:
        if parser.parse_optional_punctuation("+"):
            total = _add(total, _parse_term(parser, operands))
        elif parser.parse_optional_punctuation("-"):
            total = _add(total, _scale(_parse_term(parser, operands), -1))
        else:
            return total


def _parse_term(parser: Parser, operands: Scope) -> AffineExpr:
    if parser.parse_optional_punctuation("-"):  # binds less than `mod`: -%i mod 2 is -(%i mod 2)
        return _scale(_parse_term(parser, operands), -1)
    value = _parse_primary(parser, operands)
    while True:
        pos = parser.pos
        if parser.parse_optional_punctuation("*"):
            factor = _parse_primary(parser, operands)
            if isinstance(factor, AffineConstantExpr):
                value = _scale(value, factor.value)
            elif isinstance(value, AffineConstantExpr):
                value = _scale(factor, value.value)
            else:
                parser.raise_error("one side of `*` must be an integer", pos, parser.pos)
        elif keyword := parser.parse_optional_keyword_in(("floordiv", "mod")):
            divisor = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if divisor <= 0:
                parser.raise_error(f"`{keyword}` needs a positive integer", pos, parser.pos)
            kind = AffineBinaryOpKind.FloorDiv if keyword == "floordiv" else AffineBinaryOpKind.Mod
            value = AffineBinaryOpExpr(kind, value, AffineConstantExpr(divisor))
        else:
            return value


def _parse_primary(parser: Parser, operands: Scope) -> AffineExpr:
    if parser.parse_optional_punctuation("("):
        value = parse_expr(parser, operands)
        parser.parse_punctuation(")")
        return value
    if parser.parse_optional_punctuation("-"):
        return _scale(_parse_primary(parser, operands), -1)
    integer = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if integer is not None:
        return AffineConstantExpr(integer)
    if isinstance(operands, Dims):
        pos = parser.pos
        name = parser.parse_identifier(f": one of {', '.join(operands.names)}, or an integer")
        if name not in operands.names:
            parser.raise_error(f"expected one of {', '.join(operands.names)}", pos, parser.pos)
        return AffineDimExpr(operands.names.index(name))
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        parser.raise_error("expected an index: a value such as %i, or an integer")
    if isinstance(operands, Mentioned):
        return operands.dim(operand)
    value = parser.resolve_operand(operand, IndexType())
    if value not in operands:
        operands.append(value)
    return AffineDimExpr(operands.index(value))


def parse_conditions(parser: Parser, operands: Scope) -> list[AffineExpr]:
    """Parses `(` condition (`,` condition)* `)`."""
    results: list[AffineExpr] = []

    def one() -> None:
        lhs = parse_expr(parser, operands)
        if parser.parse_optional_punctuation("<"):
            strict = parser.parse_optional_punctuation("=") is None
            results.append(_at_least(parse_expr(parser, operands), lhs, strict))
        elif parser.parse_optional_punctuation(">"):
            strict = parser.parse_optional_punctuation("=") is None
            results.append(_at_least(lhs, parse_expr(parser, operands), strict))
        else:
            parser.parse_punctuation("=", ": a condition compares with <, <=, >, >= or ==")
            parser.parse_punctuation("=")
            rhs = parse_expr(parser, operands)
            results.extend((_at_least(lhs, rhs, False), _at_least(rhs, lhs, False)))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
    return results


def _at_least(lhs: AffineExpr, rhs: AffineExpr, strict: bool) -> AffineExpr:
    """The expression that is `>= 0` where `lhs >= rhs` (`>` if strict)."""
    lhs_terms, lhs_constant = _flatten(lhs)
    rhs_terms, rhs_constant = _flatten(rhs)
    terms = lhs_terms + [(e, -c) for e, c in rhs_terms]
    return _build(terms, lhs_constant - rhs_constant - int(strict))


def _scale(expr: AffineExpr, factor: int) -> AffineExpr:
    terms, constant = _flatten(expr)
    return _build([(e, c * factor) for e, c in terms], constant * factor)


def _add(lhs: AffineExpr, rhs: AffineExpr) -> AffineExpr:
    lhs_terms, lhs_constant = _flatten(lhs)
    rhs_terms, rhs_constant = _flatten(rhs)
    return _build(lhs_terms + rhs_terms, lhs_constant + rhs_constant)


def _flatten(expr: AffineExpr) -> tuple[Terms, int]:
    """The terms of a sum with their integer factors, and its constant."""
    if isinstance(expr, AffineConstantExpr):
        return [], expr.value
    if isinstance(expr, AffineBinaryOpExpr):
        if expr.kind is AffineBinaryOpKind.Add:
            (left, a), (right, b) = _flatten(expr.lhs), _flatten(expr.rhs)
            return left + right, a + b
        if expr.kind is AffineBinaryOpKind.Mul and isinstance(expr.rhs, AffineConstantExpr):
            terms, constant = _flatten(expr.lhs)
            factor = expr.rhs.value
            return [(e, c * factor) for e, c in terms], constant * factor
    return [(expr, 1)], 0


def _build(terms: Terms, constant: int) -> AffineExpr:
    """The sum in the form that `dlc.ir.expr.to_affine` gives, so that texts agree."""
    parts: list[AffineExpr] = [
        e if c == 1 else AffineBinaryOpExpr(AffineBinaryOpKind.Mul, e, AffineConstantExpr(c))
        for e, c in terms
    ]
    if constant or not parts:
        parts.append(AffineConstantExpr(constant))
    total = parts[0]
    for part in parts[1:]:
        total = AffineBinaryOpExpr(AffineBinaryOpKind.Add, total, part)
    return total


def print_expr(printer: Printer, expr: AffineExpr, operands: Names) -> None:
    """Prints with the fewest parentheses."""
    terms, constant = _flatten(expr)
    _print_sum(printer, terms, constant, operands)


def _print_sum(printer: Printer, terms: Terms, constant: int, operands: Names) -> None:
    for n, (term, factor) in enumerate(terms):
        if n:
            printer.print_string(" + " if factor > 0 else " - ")
        elif factor < 0:
            printer.print_string("-")
        _print_term(printer, term, operands)
        if abs(factor) != 1:
            printer.print_string(f" * {abs(factor)}")
    if not terms:
        printer.print_string(str(constant))
    elif constant:
        printer.print_string(f" {'+' if constant > 0 else '-'} {abs(constant)}")


def _print_term(printer: Printer, term: AffineExpr, operands: Names) -> None:
    if isinstance(term, AffineDimExpr):
        name = operands[term.position]
        if isinstance(name, str):
            printer.print_string(name)
        else:
            printer.print_ssa_value(name)
        return
    assert isinstance(term, AffineBinaryOpExpr)
    atomic = isinstance(term.lhs, AffineDimExpr)
    if not atomic:
        printer.print_string("(")
    print_expr(printer, term.lhs, operands)
    if not atomic:
        printer.print_string(")")
    keyword = "floordiv" if term.kind is AffineBinaryOpKind.FloorDiv else "mod"
    assert isinstance(term.rhs, AffineConstantExpr)
    printer.print_string(f" {keyword} {term.rhs.value}")


def print_condition(printer: Printer, expr: AffineExpr, operands: Names) -> None:
    """Prints `expr >= 0` with the constant on the right, as `<` where all factors are negative."""
    terms, constant = _flatten(expr)
    if terms and all(c < 0 for _, c in terms):
        _print_sum(printer, [(e, -c) for e, c in terms], 0, operands)
        printer.print_string(f" < {constant + 1}")
    else:
        _print_sum(printer, terms, 0, operands)
        printer.print_string(f" >= {-constant}")


def print_subscripts(printer: Printer, map: AffineMap, operands: Names) -> None:
    """Prints `[expr, expr, …]`."""
    with printer.in_square_brackets():
        printer.print_list(map.results, lambda e: print_expr(printer, e, operands))


def print_where(printer: Printer, map: AffineMap, operands: Names) -> None:
    """Prints ` where (condition, …)`."""
    printer.print_string(" where ")
    with printer.in_parens():
        printer.print_list(map.results, lambda e: print_condition(printer, e, operands))
