"""
The custom directives that write types in the dialects' assembly formats.

| directive | text |
|---|---|
| `Types` | `(: type, …)?` |
| `ResultTypes` | `-> type` or `-> (type, …)` |
| `MemRef` | a type that is a memref |
| `LoadTypes` | `memref (-> vector)?` |
| `StoreTypes` | `memref (, vector)?` |
| `SelectTypes` | one type for both values and the result |
| `SameType` | `type, …` of operands, which the results share |
| `KnownRef` | a memref that is defined above, so that its type is known |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    OperandVariable,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

T = TypeVar("T", bound=Attribute)


@irdl_custom_directive
class Types(CustomDirective):
    """`(: type, …)?`: the types of operands, where there are any."""

    values: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types: Sequence[Attribute] = ()
        assert isinstance(self.values.inner, VariadicOperandVariable)
        if state.operands[self.values.inner.index]:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        self.values.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        if self.values.is_present(op):
            printer.print_string(" :")
            self.values.print(printer, state, op)


def parse_result_types(parser: Parser) -> list[Attribute]:
    """Parses `-> type` or `-> (type, …)`."""
    parser.parse_punctuation("->")
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else [*types]


def print_result_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """Prints what `parse_result_types` parses, with a space in front."""
    printer.print_string(" -> ")
    if len(types) == 1:
        printer.print_attribute(types[0])
    else:
        with printer.in_parens():
            printer.print_list(types, printer.print_attribute)


@irdl_custom_directive
class ResultTypes(CustomDirective):
    """`-> type` or `-> (type, …)`"""

    results: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.results.set(state, parse_result_types(parser))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_result_types(printer, self.results.get(op))


def parse_type_of(parser: Parser, kind: type[T], name: str) -> T:
    """Parses a type that must be of a kind, which `name` says in the error."""
    pos = parser.pos
    found = parser.parse_type()
    if not isinstance(found, kind):
        parser.raise_error(f"expected a {name} type, found {found}", pos, parser.pos)
    return found


def parse_memref_type(parser: Parser) -> MemRefType:
    """Parses a type that must be a memref."""
    return parse_type_of(parser, MemRefType, "memref")


@irdl_custom_directive
class MemRef(CustomDirective):
    """A type that is a memref."""

    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.type.set(state, (parse_memref_type(parser),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.type.print(printer, state, op)


@irdl_custom_directive
class LoadTypes(CustomDirective):
    """`memref (-> vector)?`: a load gives an element where no vector is named."""

    ref: TypeDirective
    result: TypeDirective
    default: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        memref = parse_memref_type(parser)
        vector = parser.parse_type() if parser.parse_optional_punctuation("->") else None
        assert isinstance(self.default.inner, OptionalOperandVariable)
        defaults = state.operands[self.default.inner.index] or ()
        self.ref.set(state, (memref,))
        self.result.set(state, (vector or memref.element_type,))
        self.default.set(state, (memref.element_type,) * len(defaults))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.ref.print(printer, state, op)
        _print_vector(printer, " ->", self.result, state, op)


@irdl_custom_directive
class StoreTypes(CustomDirective):
    """`memref (, vector)?`: a store takes an element where no vector is named."""

    ref: TypeDirective
    value: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        memref = parse_memref_type(parser)
        vector = parser.parse_type() if parser.parse_optional_punctuation(",") else None
        self.ref.set(state, (memref,))
        self.value.set(state, (vector or memref.element_type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.ref.print(printer, state, op)
        _print_vector(printer, ",", self.value, state, op)


def _print_vector(
    printer: Printer, mark: str, type: TypeDirective, state: PrintingState, op: IRDLOperation
) -> None:
    if isinstance(type.get(op)[0], VectorType):
        printer.print_string(mark)
        type.print(printer, state, op)


@irdl_custom_directive
class SelectTypes(CustomDirective):
    """One type for both values and the result."""

    value: TypeDirective
    default: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types: tuple[Attribute] = (parser.parse_type(),)
        for type in (self.value, self.default, self.result):
            type.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.value.print(printer, state, op)


@irdl_custom_directive
class SameType(CustomDirective):
    """The types of operands, which the results share."""

    values: TypeDirective
    results: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        self.values.set(state, types)
        self.results.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.values.print(printer, state, op)


@irdl_custom_directive
class KnownRef(CustomDirective):
    """A memref that is defined above, so that its type is known."""

    ref: OperandVariable
    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operand = parser.parse_unresolved_operand()
        known = parser.ssa_values.get(operand.operand_name)
        type = None if known is None else known[operand.index].type
        if not isinstance(type, MemRefType):
            parser.raise_error(
                f"expected a {self.ref.name} that is defined above, found {operand.span.text}"
                f"{'' if type is None else f' of type {type}'}",
                operand.span,
            )
        self.ref.set(state, operand)
        self.type.set(state, (type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.ref.print(printer, state, op)
