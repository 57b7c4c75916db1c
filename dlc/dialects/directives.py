"""
The custom directives of which the dialects' assembly formats are made; those of types are in
`type_directives.py`.

| directive | text |
|---|---|
| `Subscripts` | `[expr, …]` |
| `Conditions` | `(where (condition, …))?` |
| `At` | `[expr, …] (where (condition, …))?` |
| `Across` | `(across(expr, …))?` |
| `Where` | `(where (condition, …))?` of an operation without subscripts |
| `Value` | `expr` |
| `Else` | `(else %default)?` |
| `Name` | a string without quotes |

Expressions and conditions (`dlc.dialects.index_syntax`) are stored as affine maps over the index
operands. Several directives of an operation may add to them: the first one names `$indices`, the
others `ref($indices)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import AffineMapAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from dlc.dialects.index_syntax import (
    Mentioned,
    parse_conditions,
    parse_expr,
    print_expr,
    print_subscripts,
    print_where,
)
from dlc.dialects.size_syntax import parse_size
from dlc.dialects.sized_types import SizesAttr
from dlc.ir.sizes import Size


def mentioned(indices: VariadicOperandVariable, state: ParsingState) -> Mentioned:
    """The index operands that the text has named so far, for more to be added."""
    found = state.operands[indices.index]
    if not isinstance(found, Mentioned):
        found = Mentioned()
        indices.set(state, found)
    return found


def set_map(
    variable: AttributeVariable,
    state: ParsingState,
    indices: Mentioned,
    exprs: Sequence[AffineExpr],
) -> None:
    """States a map over the index operands; maps stated before get the new operands, too."""
    variable.set(state, AffineMapAttr(AffineMap(0, 0, tuple(exprs))))
    for name, found in state.properties.items():
        if isinstance(found, AffineMapAttr):
            map = AffineMap(len(indices), 0, found.data.results)
            state.properties[name] = AffineMapAttr(map)


def map_of(variable: AttributeVariable, op: IRDLOperation) -> AffineMap:
    """The map that a property must hold."""
    map = variable.get(op)
    assert isinstance(map, AffineMapAttr)
    return map.data


def parse_subscripts(
    parser: Parser, state: ParsingState, indices: VariadicOperandVariable, map: AttributeVariable
) -> None:
    """Parses `[expr, …]`."""
    scope = mentioned(indices, state)
    exprs = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_expr(parser, scope)
    )
    set_map(map, state, scope, exprs)


def parse_where(
    parser: Parser,
    state: ParsingState,
    indices: VariadicOperandVariable,
    conditions: AttributeVariable,
) -> None:
    """Parses `(where (condition, …))?`."""
    scope = mentioned(indices, state)
    if parser.parse_optional_keyword("where"):
        set_map(conditions, state, scope, parse_conditions(parser, scope))


def print_conditions(
    printer: Printer,
    state: PrintingState,
    op: IRDLOperation,
    indices: VariadicOperandVariable,
    conditions: AttributeVariable,
) -> None:
    """Prints what `parse_where` parses."""
    if conditions.is_present(op):
        print_where(printer, map_of(conditions, op), indices.get(op))
        state.should_emit_space, state.last_was_punctuation = True, False


@irdl_custom_directive
class Subscripts(CustomDirective):
    """`[expr, …]`"""

    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parse_subscripts(parser, state, self.indices, self.map)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_subscripts(printer, map_of(self.map, op), self.indices.get(op))


@irdl_custom_directive
class Conditions(CustomDirective):
    """`(where (condition, …))?`"""

    indices: VariadicOperandVariable
    conditions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parse_where(parser, state, self.indices, self.conditions)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_conditions(printer, state, op, self.indices, self.conditions)


@irdl_custom_directive
class At(CustomDirective):
    """`[expr, …] (where (condition, …))?`"""

    indices: VariadicOperandVariable
    map: AttributeVariable
    conditions: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parse_subscripts(parser, state, self.indices, self.map)
        parse_where(parser, state, self.indices, self.conditions)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_subscripts(printer, map_of(self.map, op), self.indices.get(op))
        print_conditions(printer, state, op, self.indices, self.conditions)


@irdl_custom_directive
class Across(CustomDirective):
    """`(across(expr, …))?`"""

    indices: VariadicOperandVariable
    points: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        scope = mentioned(self.indices, state)
        if parser.parse_optional_keyword("across"):
            exprs = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_expr(parser, scope)
            )
            set_map(self.points, state, scope, exprs)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        if self.points.is_present(op):
            indices = self.indices.get(op)
            printer.print_string(" across")
            with printer.in_parens():
                printer.print_list(
                    map_of(self.points, op).results, lambda e: print_expr(printer, e, indices)
                )
            state.should_emit_space, state.last_was_punctuation = True, False


class Where(At):
    """`(where (condition, …))?` of an operation without subscripts."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        set_map(self.map, state, mentioned(self.indices, state), ())
        parse_where(parser, state, self.indices, self.conditions)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_conditions(printer, state, op, self.indices, self.conditions)


class Value(At):
    """`expr`, of an operation without conditions."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        indices = mentioned(self.indices, state)
        set_map(self.map, state, indices, [parse_expr(parser, indices)])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_expr(printer, map_of(self.map, op).results[0], self.indices.get(op))


@irdl_custom_directive
class Else(CustomDirective):
    """`(else %default)?`"""

    default: OptionalOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        stated = parser.parse_optional_keyword("else")
        self.default.set(state, parser.parse_unresolved_operand() if stated else None)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        if self.default.is_present(op):
            printer.print_string(" else")
            self.default.print(printer, state, op)


@irdl_custom_directive
class Name(CustomDirective):
    """A string without quotes."""

    name: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        what = f": the name of a {self.name.name}"
        self.name.set(state, StringAttr(parser.parse_identifier(what)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        name = self.name.get(op)
        assert isinstance(name, StringAttr)
        state.print_whitespace(printer)
        printer.print_string(name.data)


@cache
def sizes_map(sizes: tuple[Size | int, ...]) -> AffineMapAttr | SizesAttr:
    """Numbers of points, as a property."""
    if any(isinstance(n, Size) and n.number is None for n in sizes):
        return SizesAttr(tuple(Size.of(n) for n in sizes))
    return AffineMapAttr(AffineMap(0, 0, tuple(AffineConstantExpr(int(n)) for n in sizes)))


def sizes_in(property: Attribute | None) -> tuple[int, ...]:
    """
    What `sizes_map` makes a property of: integers, and sizes, which are used as integers are and
    raise `NeedsNumber` where only a number will do.
    """
    if isinstance(property, SizesAttr):
        found = (size if size.number is None else size.number for size in property.data)
        return tuple(found)  # pyright: ignore[reportReturnType]
    assert isinstance(property, AffineMapAttr)
    kept = vars(property)  # which never changes
    if (sizes := kept.get("kept_sizes")) is None:
        results = property.data.results
        sizes = tuple(e.value for e in results if isinstance(e, AffineConstantExpr))
        kept["kept_sizes"] = sizes
    return sizes


def parse_extent(parser: Parser) -> Size | int:
    """Parses how many points something has: an integer, or a size."""
    size = parse_size(parser)
    return size if size.number is None else size.number
