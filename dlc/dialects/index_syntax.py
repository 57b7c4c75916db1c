"""
The syntax of index expressions and conditions in all dialects.

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

from xdsl.dialects.builtin import AffineMapAttr
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


class Dims:
    """Numbered dimensions: `d0`, `d1`, … and, after the first `count` of them, `i0`, `i1`, …."""

    def __init__(self, count: int, indices: int = 0) -> None:
        self.names = [f"d{n}" for n in range(count)] + [f"i{n}" for n in range(indices)]

    def parse(self, parser: Parser) -> AffineExpr:
        """Parses the name of a dimension."""
        pos = parser.pos
        name = parser.parse_identifier(f": one of {', '.join(self.names)}, or an integer")
        if name not in self.names:
            parser.raise_error(f"expected one of {', '.join(self.names)}", pos, parser.pos)
        return AffineDimExpr(self.names.index(name))


class Mentioned(list[UnresolvedOperand]):
    """The values that expressions mention, each once, in the order of the text."""

    def parse(self, parser: Parser) -> AffineExpr:
        """Parses a value, which is added if it is new."""
        operand = parser.parse_optional_unresolved_operand()
        if operand is None:
            parser.raise_error("expected an index: a value such as %i, or an integer")
        names = [(o.operand_name, o.index) for o in self]
        name = (operand.operand_name, operand.index)
        if name in names:
            return AffineDimExpr(names.index(name))
        self.append(operand)
        return AffineDimExpr(len(names))


Scope = Mentioned | Dims
"""What expressions may mention."""


def parse_expr(parser: Parser, scope: Scope) -> AffineExpr:
    """Parses one expression."""
    total = _parse_term(parser, scope)
    while True:
        if parser.parse_optional_punctuation("+"):
            total = _add(total, _parse_term(parser, scope))
        elif parser.parse_optional_punctuation("-"):
            total = _add(total, _scale(_parse_term(parser, scope), -1))
        else:
            return total


def _parse_term(parser: Parser, scope: Scope) -> AffineExpr:
    if parser.parse_optional_punctuation("-"):  # binds less than `mod`: -%i mod 2 is -(%i mod 2)
        return _scale(_parse_term(parser, scope), -1)
    value = _parse_primary(parser, scope)
    while True:
        pos = parser.pos
        if parser.parse_optional_punctuation("*"):
            factor = _parse_primary(parser, scope)
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


def _parse_primary(parser: Parser, scope: Scope) -> AffineExpr:
    if parser.parse_optional_punctuation("("):
        value = parse_expr(parser, scope)
        parser.parse_punctuation(")")
        return value
    if parser.parse_optional_punctuation("-"):
        return _scale(_parse_primary(parser, scope), -1)
    integer = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if integer is not None:
        return AffineConstantExpr(integer)
    return scope.parse(parser)


def parse_conditions(parser: Parser, scope: Scope) -> list[AffineExpr]:
    """Parses `(` condition (`,` condition)* `)`."""
    results: list[AffineExpr] = []

    def one() -> None:
        lhs = parse_expr(parser, scope)
        if parser.parse_optional_punctuation("<"):
            strict = parser.parse_optional_punctuation("=") is None
            results.append(_at_least(parse_expr(parser, scope), lhs, strict))
        elif parser.parse_optional_punctuation(">"):
            strict = parser.parse_optional_punctuation("=") is None
            results.append(_at_least(lhs, parse_expr(parser, scope), strict))
        else:
            parser.parse_punctuation("=", ": a condition compares with <, <=, >, >= or ==")
            parser.parse_punctuation("=")
            rhs = parse_expr(parser, scope)
            results.extend((_at_least(lhs, rhs, False), _at_least(rhs, lhs, False)))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
    return results


def parse_at(parser: Parser) -> tuple[Mentioned, AffineMapAttr, AffineMapAttr | None]:
    """Parses `[expr, …] (where (condition, …))?`: the values that it mentions, and the maps."""
    scope = Mentioned()
    exprs = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_expr(parser, scope)
    )
    where = parse_conditions(parser, scope) if parser.parse_optional_keyword("where") else []
    map, conditions = (AffineMap(len(scope), 0, tuple(part)) for part in (exprs, where))
    return scope, AffineMapAttr(map), AffineMapAttr(conditions) if where else None


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
    """The sum in the form that `dlc.ir.affine_forms.to_affine` gives, so that texts agree."""
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
