"""The syntax of sizes and facts, which `dlc/dialects/size.py` shows."""

from __future__ import annotations

from xdsl.parser import AttrParser

from dlc.ir.sizes import FOLDED, INFIX, Fact, Size


def parse_size(parser: AttrParser) -> Size:
    """Parses one size."""
    total = _parse_term(parser)
    while True:
        if parser.parse_optional_punctuation("+"):
            total += _parse_term(parser)
        elif parser.parse_optional_punctuation("-"):
            total -= _parse_term(parser)
        else:
            return total


def parse_fact(parser: AttrParser) -> Fact:
    """Parses one fact."""
    unequal = parser.parse_optional_keyword("not") is not None
    left = parse_size(parser)
    relation = "" if unequal else _parse_order(parser)
    if not relation:
        parser.parse_punctuation("=", ": sizes compare with ==, <, <=, > or >=")
        parser.parse_punctuation("=")
        relation = "!=" if unequal else "=="
    return Fact(left, relation, parse_size(parser))


def _parse_order(parser: AttrParser) -> str:
    for sign in ("<", ">"):
        if parser.parse_optional_punctuation(sign):
            return f"{sign}=" if parser.parse_optional_punctuation("=") else sign
    return ""


def _parse_term(parser: AttrParser) -> Size:
    if parser.parse_optional_punctuation("-"):
        return _parse_term(parser) * -1
    value = _parse_primary(parser)
    while True:
        pos = parser.pos
        if parser.parse_optional_punctuation("*"):
            value *= _parse_primary(parser)
        elif keyword := parser.parse_optional_keyword_in(INFIX):
            divisor = _parse_primary(parser)
            if divisor.number is not None and divisor.number <= 0:
                parser.raise_error(f"`{keyword}` needs a positive divisor", pos, parser.pos)
            value = FOLDED[keyword](value, divisor)
        else:
            return value


def _parse_primary(parser: AttrParser) -> Size:
    if parser.parse_optional_punctuation("("):
        size = parse_size(parser)
        parser.parse_punctuation(")")
        return size
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is not None:
        return Size.of(number)
    name = parser.parse_identifier(": a name of a size, or an integer")
    if name not in ("max", "min"):
        return Size.of(name)
    parser.parse_punctuation("(")
    left = parse_size(parser)
    parser.parse_punctuation(",")
    right = parse_size(parser)
    parser.parse_punctuation(")")
    return FOLDED[name](left, right)
