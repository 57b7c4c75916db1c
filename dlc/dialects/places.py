"""Text of several places, `%slab[expr, …] -> %y_map[expr, …]`, whose subscripts are one map."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    OperandVariable,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from dlc.dialects.directives import map_of, mentioned, set_map
from dlc.dialects.index_syntax import parse_expr, print_subscripts


def parse_places(
    parser: Parser,
    state: ParsingState,
    places: Iterable[tuple[str, OperandVariable | None]],
    indices: VariadicOperandVariable,
    map: AttributeVariable,
) -> None:
    """
    Parses operands with their subscripts, each behind the punctuation that it is given with, or
    subscripts of no operand behind a keyword.
    """
    named = mentioned(indices, state)
    exprs: list[AffineExpr] = []
    for before, operand in places:
        if operand is None:
            parser.parse_keyword(before)
        elif before:
            parser.parse_punctuation("->" if before == "->" else ",")
        if operand is not None:
            operand.parse(parser, state)
        exprs.extend(
            parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_expr(parser, named)
            )
        )
    set_map(map, state, named, exprs)


def print_places(
    printer: Printer,
    state: PrintingState,
    op: IRDLOperation,
    places: Iterable[tuple[str, SSAValue | None, int | None]],
    indices: VariadicOperandVariable,
    map: AttributeVariable,
) -> None:
    """
    Prints operands behind punctuation, each with so many subscripts, or with all that follow;
    subscripts of no operand behind a keyword.
    """
    whole, begin = map_of(map, op), 0
    for before, operand, count in places:
        end = len(whole.results) if count is None else begin + count
        printer.print_string(", " if before == "," else f" {before} " if before else " ")
        if operand is not None:
            printer.print_ssa_value(operand)
        subscripts = AffineMap(whole.num_dims, 0, whole.results[begin:end])
        print_subscripts(printer, subscripts, indices.get(op))
        begin = end
    state.should_emit_space, state.last_was_punctuation = True, False
