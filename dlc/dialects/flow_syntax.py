"""Text that control flow on tensors and on buffers has in common."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer


def parse_bound(
    parser: Parser, keyword: str
) -> tuple[list[Parser.UnresolvedArgument], list[UnresolvedOperand]]:
    """`carry (%c = %c0, …)`: names of the body, and values."""
    parser.parse_keyword(keyword)

    def pair() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        name = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return name, parser.parse_unresolved_operand()

    pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)
    return [name for name, _ in pairs], [value for _, value in pairs]


def print_bound(
    printer: Printer, keyword: str, names: Sequence[SSAValue], values: Sequence[SSAValue]
) -> None:
    def pair(item: tuple[SSAValue, SSAValue]) -> None:
        printer.print_ssa_value(item[0])
        printer.print_string(" = ")
        printer.print_ssa_value(item[1])

    printer.print_string(f" {keyword} ")
    with printer.in_parens():
        printer.print_list(list(zip(names, values, strict=True)), pair)


def parse_types(parser: Parser, before: str = "") -> list[Attribute]:
    if before:
        parser.parse_characters(before)
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    with printer.in_parens():
        printer.print_list(types, printer.print_attribute)


def print_body(printer: Printer, body: Region) -> None:
    printer.print_string(" ")
    printer.print_region(body, print_entry_block_args=False, print_empty_block=False)
