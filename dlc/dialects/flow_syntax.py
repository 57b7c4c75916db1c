"""Text that control flow on tensors and on buffers has in common."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, Region, SSAValue
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


def parse_carried(parser: Parser) -> tuple[list[Parser.Argument], list[SSAValue]]:
    """`carry (%c = %c0, …) : (type, …)`: arguments of the body, and values."""
    names, values = parse_bound(parser, "carry")
    parser.parse_punctuation(":")
    types = parse_types(parser)
    inits = parser.resolve_operands(values, types, parser.pos)
    return [n.resolve(t) for n, t in zip(names, types, strict=True)], list(inits)


def print_carried(printer: Printer, names: Sequence[SSAValue], inits: Sequence[SSAValue]) -> None:
    print_bound(printer, "carry", names, inits)
    printer.print_string(" : ")
    print_types(printer, [v.type for v in inits])


def parse_while(parser: Parser) -> tuple[list[SSAValue], Region, Region]:
    """`carry (%c = %c0, …) : (type…) { … } do (%c, …) { … }`: values and both bodies."""
    names, inits = parse_carried(parser)
    before = parser.parse_region(names)
    parser.parse_keyword("do")
    again = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
    )
    arguments = [a.resolve(v.type) for a, v in zip(again, inits, strict=True)]
    return inits, before, parser.parse_region(arguments)


def print_while(printer: Printer, op: Operation) -> None:
    before, body = op.regions
    print_carried(printer, before.block.args, op.operands)
    print_body(printer, before)
    printer.print_string(" do ")
    with printer.in_parens():
        printer.print_list(body.block.args, printer.print_ssa_value)
    print_body(printer, body)
    printer.print_op_attributes(op.attributes)


def print_if(printer: Printer, op: Operation, results: Sequence[Attribute] | None = None) -> None:
    """`%flag : type (-> (type, …))? { … } else { … }`"""
    (flag,), (then, otherwise) = op.operands, op.regions
    printer.print_string(" ")
    printer.print_ssa_value(flag)
    printer.print_string(" : ")
    printer.print_attribute(flag.type)
    if results is not None:
        printer.print_string(" -> ")
        print_types(printer, results)
    print_body(printer, then)
    printer.print_string(" else")
    print_body(printer, otherwise)
    printer.print_op_attributes(op.attributes)
