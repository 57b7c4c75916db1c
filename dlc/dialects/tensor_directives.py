"""
The custom directives of Tensor IR's assembly formats.

| directive | text |
|---|---|
| `Tensors` | one or several types that are tensors |
| `Ranked` | the type of a tensor with as many dimensions as the maps before |
| `Bound` | `(%a = %x, …) : tensor, … -> tensor { … }` |
| `Sources` | `(d0, …)([s, …])? -> %a[expr, …] (where (condition, …))?, … (else scalar)?` |
| `Gathered`, `Walked` | `(d0, …) -> %x[expr, …]` |
| `Scattered` | `(d0, …) -> [expr, …]` |
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, StringAttr, TensorType
from xdsl.dialects.utils import parse_assignment, print_assignment
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OperandVariable,
    ParsingState,
    PrintingState,
    RegionVariable,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from dlc.dialects.directives import map_of
from dlc.dialects.index_syntax import (
    Dims,
    parse_conditions,
    parse_expr,
    print_subscripts,
    print_where,
)
from dlc.dialects.type_directives import parse_type_of


def _parse_tensor(parser: Parser) -> TensorType:
    return parse_type_of(parser, TensorType, "tensor")


def _parse_tensors(parser: Parser, state: ParsingState, types: TypeDirective) -> None:
    """Parses the type of a tensor, or, of several operands, `tensor, …`."""
    found: Sequence[Attribute] = ()
    if not isinstance(types.inner, VariadicOperandVariable):
        found = (_parse_tensor(parser),)
    elif state.operands[types.inner.index]:
        found = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: _parse_tensor(parser)
        )
    types.set(state, found)


@irdl_custom_directive
class Tensors(CustomDirective):
    """The type of a tensor, or, of several operands, `tensor, …`."""

    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        _parse_tensors(parser, state, self.types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.types.print(printer, state, op)


@irdl_custom_directive
class Ranked(CustomDirective):
    """The type of a tensor with as many dimensions as the maps before."""

    type: TypeDirective
    maps: AttributeVariable
    sizes: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        type, maps = _parse_tensor(parser), state.properties[self.maps.name]
        assert isa(maps, ArrayAttr[AffineMapAttr])
        names = _names(state.properties.get(self.sizes.name))
        if type.get_num_dims() != (rank := maps.data[0].data.num_dims - len(names)):
            parser.raise_error(f"expected a result of rank {rank}")
        self.type.set(state, (type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.type.print(printer, state, op)


@irdl_custom_directive
class Bound(CustomDirective):
    """`(%a = %x, …) : tensor, … -> tensor { … }`: a body over the elements of tensors."""

    inputs: VariadicOperandVariable
    types: TypeDirective
    result: TypeDirective
    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        bound = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_assignment(parser)
        )
        self.inputs.set(state, [operand for _, operand in bound])
        parser.parse_punctuation(":")
        _parse_tensors(parser, state, self.types)
        parser.parse_punctuation("->")
        _parse_tensors(parser, state, self.result)
        types = state.operand_types[self.inputs.index] or ()
        if len(types) != len(bound):
            parser.raise_error(f"expected {len(bound)} operand types but had {len(types)}")
        elements = [type.element_type for type in types if isinstance(type, TensorType)]
        arguments = [
            argument.resolve(element)
            for (argument, _), element in zip(bound, elements, strict=True)
        ]
        self.body.set(state, parser.parse_region(arguments))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        inputs, body = self.inputs.get(op), self.body.get(op)
        assert isinstance(body, Region)
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(
                zip(body.block.args, inputs, strict=True),
                lambda pair: print_assignment(printer, *pair),
            )
        printer.print_string(" :")
        self.types.print(printer, state, op)
        printer.print_string(" ->")
        self.result.print(printer, state, op)
        printer.print_string(" ")
        printer.print_region(body, print_entry_block_args=False)


def _parse_dims(parser: Parser, indices: int) -> Dims:
    """Parses `(d0, …)`; the names that may stand in subscripts, `indices` of them `i0`, …."""
    names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
    scope = Dims(len(names), indices)
    expected = scope.names[: len(names)]
    if names != expected:
        parser.raise_error(f"expected dimensions ({', '.join(expected)})")
    return scope


def _names(sizes: Attribute | None) -> list[str]:
    """The sizes that maps mention."""
    return [s.data for s in sizes if isinstance(s, StringAttr)] if isa(sizes, ArrayAttr) else []


def _parse_source(parser: Parser, scope: Dims) -> tuple[UnresolvedOperand, AffineMap]:
    """Parses `%a[expr, …]`."""
    return parser.parse_unresolved_operand(), _parse_subscripts(parser, scope)


def _parse_subscripts(parser: Parser, scope: Dims) -> AffineMap:
    """Parses `[expr, …]`."""
    results = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_expr(parser, scope)
    )
    return AffineMap(len(scope.names), 0, tuple(results))


@irdl_custom_directive
class Sources(CustomDirective):
    """`(d0, …)([s, …])? -> %a[expr, …] (where (condition, …))?, … (else scalar)?`"""

    sources: VariadicOperandVariable
    maps: AttributeVariable
    conditions: AttributeVariable
    fill: AttributeVariable
    sizes: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        scope = _parse_dims(parser, 0)
        square = parser.Delimiter.SQUARE
        if named := parser.parse_optional_comma_separated_list(square, parser.parse_identifier):
            self.sizes.set(state, ArrayAttr(map(StringAttr, named)))
            scope.names += named
        parser.parse_punctuation("->")
        maps: list[AffineMapAttr] = []
        conditions: list[AffineMapAttr] = []

        def one() -> UnresolvedOperand:
            source, map = _parse_source(parser, scope)
            stated = parser.parse_optional_keyword("where")
            where = parse_conditions(parser, scope) if stated else []
            maps.append(AffineMapAttr(map))
            conditions.append(AffineMapAttr(AffineMap(len(scope.names), 0, tuple(where))))
            return source

        self.sources.set(state, parser.parse_comma_separated_list(parser.Delimiter.NONE, one))
        self.maps.set(state, ArrayAttr(maps))
        self.conditions.set(state, ArrayAttr(conditions))
        if parser.parse_optional_keyword("else"):
            self.fill.set(state, parser.parse_attribute())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        maps, conditions = self.maps.get(op), self.conditions.get(op)
        assert isa(maps, ArrayAttr[AffineMapAttr])
        assert isa(conditions, ArrayAttr[AffineMapAttr])
        sizes = _names(self.sizes.get(op))
        names = Dims(maps.data[0].data.num_dims - len(sizes)).names
        named = f"[{', '.join(sizes)}]" if sizes else ""
        printer.print_string(f" ({', '.join(names)}){named} -> ")
        names += sizes

        def one(number: int) -> None:
            printer.print_ssa_value(self.sources.get(op)[number])
            print_subscripts(printer, maps.data[number].data, names)
            if (where := conditions.data[number].data).results:
                print_where(printer, where, names)

        printer.print_list(range(len(maps)), one)
        if (fill := self.fill.get(op)) is not None:
            printer.print_string(" else ")
            printer.print_attribute(fill)


@irdl_custom_directive
class Gathered(CustomDirective):
    """`(d0, …) -> %x[expr, …]`, where `i0`, … are elements of the index tensors."""

    source: OperandVariable
    map: AttributeVariable
    indices: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        indices = len(state.operands[self.indices.index] or ())
        _parse_read(parser, state, self.source, self.map, indices)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        map = map_of(self.map, op)
        _print_read(printer, state, self.source.get(op), map, len(self.indices.get(op)))


@irdl_custom_directive
class Walked(CustomDirective):
    """`(d0, …) -> %x[expr, …]`, where `i0` is a place that an operation walks over."""

    source: OperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        _parse_read(parser, state, self.source, self.map, 1)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        _print_read(printer, state, self.source.get(op), map_of(self.map, op), 1)


@irdl_custom_directive
class Scattered(CustomDirective):
    """`(d0, …) -> [expr, …]`, where `i0`, … are elements of the index tensors."""

    map: AttributeVariable
    indices: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        scope = _parse_dims(parser, len(state.operands[self.indices.index] or ()))
        parser.parse_punctuation("->")
        self.map.set(state, AffineMapAttr(_parse_subscripts(parser, scope)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        map, indices = map_of(self.map, op), len(self.indices.get(op))
        names = Dims(map.num_dims - indices, indices).names
        printer.print_string(f" ({', '.join(names[: map.num_dims - indices])}) -> ")
        print_subscripts(printer, map, names)
        state.should_emit_space, state.last_was_punctuation = True, False


def _parse_read(
    parser: Parser,
    state: ParsingState,
    read: OperandVariable,
    at: AttributeVariable,
    indices: int,
) -> None:
    """Parses `(d0, …) -> %x[expr, …]`, where so many names `i0`, … may stand, too."""
    scope = _parse_dims(parser, indices)
    parser.parse_punctuation("->")
    source, map = _parse_source(parser, scope)
    read.set(state, source)
    at.set(state, AffineMapAttr(map))


def _print_read(
    printer: Printer, state: PrintingState, source: SSAValue, map: AffineMap, indices: int
) -> None:
    """Prints what `_parse_read` parses, with a space in front."""
    rank = map.num_dims - indices
    names = Dims(rank, indices).names
    printer.print_string(f" ({', '.join(names[:rank])}) -> ")
    printer.print_ssa_value(source)
    print_subscripts(printer, map, names)
    state.should_emit_space, state.last_was_punctuation = True, False
