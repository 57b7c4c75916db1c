"""
The `size` dialect: extents of tensors that are known when a program is called.

```mlir
size.symbol @s from 2 to 4096 hint 128
size.fact s mod 16 == 0
func.func @main(%x: tensor<?x64xf32, #size.of<s>>) -> tensor<?x4xf32, #size.of<s * 16>> {
  %y = torch.aten "view.default"(self = %x) {size = [#size.value<s * 16>, 4]}
      : (tensor<?x64xf32, #size.of<s>>) -> tensor<?x4xf32, #size.of<s * 16>>
```

A module declares each name that sizes are made of, with the values that it may have and, as `hint`,
one that is likely; facts are what else holds of them. In a type `#size.of<…>` has one size for each
`?`, in order; among attributes it is a list of numbers, and `#size.value<…>` is one, as
`%n = size.value s * 2 : f32` is in a body. Sizes have one form (`dlc/ir/sizes.py`), so types are
equal where they are written alike.

```
size ::= term ((`+` | `-`) term)*
term ::= `-`? primary ((`*` | `floordiv` | `mod`) primary)*
primary ::= name | integer | (`max` | `min`) `(` size `,` size `)` | `(` size `)`
fact ::= size (`==` | `<` | `<=` | `>` | `>=`) size | `not` size `==` size
```

In Loop IR and below extents of loops' axes, extents and strides of buffers in global memory,
numbers of chunks and the grid of a kernel may be sizes, and a kernel says at its beginning what
values each name may have, which is an index value there (`dlc.dialects.size_index`).

```mlir
%y = loop.kernel @relu(%x: memref<?x64xf32, #size.of<s>> = %x) -> (%y: memref<?x64xf32, …>) {
  %s = size.index s from 2 to 4096 hint 128
  loop.for %i in s, %j in 64 { … }
```

`size.reshape` gives a tensor another shape where subscripts would be divided by a size: elements
stay where they are in memory.

```mlir
%y = size.reshape %x : tensor<?x?x64xf32, #size.of<b, s>> -> tensor<?x64xf32, #size.of<b * s>>
```

`specialize` puts numbers in the place of names, in any IR.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TypeVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Data, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from dlc.diagnostics import did_you_mean, fail
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.size_index import SizeIndexOp
from dlc.dialects.size_syntax import parse_fact, parse_size
from dlc.dialects.sized_types import SizedStridesAttr, SizesAttr, sized_tensor, sizes_of
from dlc.dialects.tensor_directives import Tensors
from dlc.ir.sizes import Fact, NeedsNumber, Size, Symbol

Op = TypeVar("Op", bound=IRDLOperation)


@irdl_attr_definition
class SizeAttr(Data[Size]):
    """`#size.value<s * 2>`: a number that is a size."""

    name = "size.value"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Size:
        with parser.in_angle_brackets():
            return parse_size(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


@irdl_attr_definition
class FactAttr(Data[Fact]):
    """`#size.holds<s mod 16 == 0>`, which an operation prints without what is around it."""

    name = "size.holds"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Fact:
        with parser.in_angle_brackets():
            return parse_fact(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


@irdl_op_definition
class SymbolOp(IRDLOperation):
    """
    Declares a name that sizes are made of.

    ```
    size.symbol @s from 2 (to 4096)? (hint 128)?
    ```

    A size is at least 0. Programs of PyTorch take sizes from 2 on, as 0 and 1 are other programs.
    """

    name = "size.symbol"

    sym_name = prop_def(SymbolNameConstraint())
    least = prop_def(IntegerAttr)
    most = opt_prop_def(IntegerAttr)
    hint = opt_prop_def(IntegerAttr)

    traits = traits_def(SymbolOpInterface(), HasParent(ModuleOp))

    def __init__(self, symbol: Symbol) -> None:
        numbers = {"least": symbol.least, "most": symbol.most, "hint": symbol.hint}
        given = {key: IntegerAttr(n, i64) for key, n in numbers.items() if n is not None}
        super().__init__(properties={"sym_name": StringAttr(symbol.name), **given})

    @property
    def symbol(self) -> Symbol:
        """What it declares."""
        most, hint = (None if a is None else a.value.data for a in (self.most, self.hint))
        return Symbol(self.sym_name.data, self.least.value.data, most, hint)

    def verify_(self) -> None:
        symbol = self.symbol
        low, high = symbol.bounds
        if low < 0 or low > high:
            raise VerifyException(f"expected a range from at least 0 up, found {symbol}")
        if symbol.hint is not None and not low <= symbol.hint <= high:
            raise VerifyException(f"expected a hint of {symbol}, found {symbol.hint}")

    @classmethod
    def parse(cls, parser: Parser) -> SymbolOp:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("from")
        least = parser.parse_integer(allow_boolean=False)
        numbers = [
            parser.parse_integer(allow_boolean=False) if parser.parse_optional_keyword(k) else None
            for k in ("to", "hint")
        ]
        op = cls(Symbol(name, least, *numbers))
        if (attributes := parser.parse_optional_attr_dict_with_keyword()) is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for keyword, number in (("from", self.least), ("to", self.most), ("hint", self.hint)):
            if number is not None:
                printer.print_string(f" {keyword} {number.value.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)


@irdl_op_definition
class FactOp(IRDLOperation):
    """
    Says what holds of sizes wherever the program is used.

    ```
    size.fact s mod 16 == 0
    ```
    """

    name = "size.fact"

    holds = prop_def(FactAttr)

    traits = traits_def(HasParent(ModuleOp))

    def __init__(self, fact: Fact) -> None:
        super().__init__(properties={"holds": FactAttr(fact)})

    def verify_(self) -> None:
        check_declared(self, self.holds.data.names)

    @classmethod
    def parse(cls, parser: Parser) -> FactOp:
        op = cls(parse_fact(parser))
        if (attributes := parser.parse_optional_attr_dict_with_keyword()) is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.holds.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)


@irdl_op_definition
class ValueOp(IRDLOperation):
    """
    `%n = size.value s * 2 : f32`: a size as a number, rounded as a constant of the type is.

    `specialize` makes an `arith.constant` of it.
    """

    name = "size.value"

    size = prop_def(SizeAttr)
    result = result_def(AnyAttr())

    traits = traits_def(Pure())

    def __init__(self, size: Size, type: Attribute) -> None:
        super().__init__(properties={"size": SizeAttr(size)}, result_types=[type])

    def verify_(self) -> None:
        check_declared(self, self.size.data.names)

    @classmethod
    def parse(cls, parser: Parser) -> ValueOp:
        size = parse_size(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(size, parser.parse_type())
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.size.data}")
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


class LiesWithin(IRDLOperation, ABC):
    """An operation whose result lies in the memory of its first operand."""


@irdl_op_definition
class ReshapeOp(LiesWithin):
    """
    `%y = size.reshape %x : tensor -> tensor`: the elements in row-major order, of another shape.

    It stands in Tensor IR and in `@main` of the IRs after it, where tensors that it takes have
    memory of their own, row by row. `specialize` makes an index map of it in Tensor IR.
    """

    name = "size.reshape"

    source = operand_def(TensorType)
    result = result_def(TensorType)
    custom_directives = (Tensors,)
    assembly_format = (
        "$source `:` custom<Tensors>(type($source)) `->` custom<Tensors>(type($result)) attr-dict"
    )
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[source], result_types=[sized_tensor(element_of(source), shape)])

    def verify_(self) -> None:
        for value in (self.source, self.result):
            check_sizes(self, value.type)
        if element_of(self.source) != element_of(self.result):
            raise VerifyException(
                f"expected a result of element type {element_of(self.source)}, found "
                f"{element_of(self.result)}"
            )
        # Of sizes only facts may tell that the products are one number.
        counts = [Size.of(prod(shape_of(value))) for value in (self.source, self.result)]
        if None not in (counts[0].number, counts[1].number) and counts[0] != counts[1]:
            raise VerifyException(f"expected {counts[0]} elements, found {counts[1]}")


def in_memory(value: SSAValue) -> SSAValue:
    """The tensor in whose memory a tensor lies: itself, or what it is a reshape or view of."""
    while isinstance(value.owner, LiesWithin):
        value = value.owner.operands[0]
    return value


def in_memory_of(tensor: SSAValue) -> Iterator[SSAValue]:
    """The tensors that lie in the memory of one: itself, and what is a reshape or view of it."""
    yield tensor
    for use in tensor.uses:
        if isinstance(use.operation, LiesWithin):
            yield from in_memory_of(use.operation.results[0])


def symbols_in(module: Operation) -> dict[str, Symbol]:
    """What a module declares, by name."""
    return {op.sym_name.data: op.symbol for op in _of(module, SymbolOp)}


def symbols_around(op: Operation) -> dict[str, Symbol]:
    """What the module around an operation declares, by name."""
    while (parent := op.parent_op()) is not None:
        op = parent
    return symbols_in(op)


def _of(module: Operation, kind: type[Op]) -> Iterator[Op]:
    for region in module.regions:
        for block in region.blocks:
            yield from (op for op in block.ops if isinstance(op, kind))


def refuse_sizes(module: ModuleOp) -> None:
    """OpError for a module that still has sizes."""
    for op in module.ops:
        if isinstance(op, SymbolOp):
            name = op.sym_name.data
            number = f"{name}={op.symbol.likely}"
            example = f'specialize{{sizes="{number}"}} binds it, as --sizes {number} does'
            fail(op, f"expected numbers for all sizes, found @{name}", example)


@contextmanager
def needing_numbers(op: Operation, what: str) -> Iterator[None]:
    """OpError of `op` where `what` is to be done with a size that only a number can be used for."""
    try:
        yield
    except NeedsNumber as needs:
        hint = "give the size a number before: --sizes, or the pass specialize"
        fail(op, f"{what} {needs}", hint)


def check_declared(op: Operation, names: Sequence[str]) -> None:
    """VerifyException for a name that the module around `op` does not declare."""
    if not names:
        return
    known = symbols_around(op)
    for name in names:
        if name not in known:
            what = did_you_mean(name, known, "@") or ""
            raise VerifyException(f"expected a declared size, found `{name}`; {what}".strip("; "))


def check_sizes(op: Operation, type: Attribute) -> None:
    """VerifyException for a type of a value of `op` that has not one declared size a `?`."""
    if not isinstance(type, TensorType | MemRefType) or type.has_static_shape():
        return
    sizes = sizes_of(type)
    unknown = sum(extent.data == DYNAMIC_INDEX for extent in type.shape)
    if len(sizes) != unknown:
        raise VerifyException(
            f"expected #size.of with a size for each `?`, {unknown} in all, found {type}"
        )
    check_declared(op, [name for size in sizes for name in size.names])


def numbers_attribute(numbers: Sequence[Size | int]) -> DenseArrayBase | SizesAttr:
    """A list of sizes or numbers among attributes."""
    sizes = tuple(Size.of(number) for number in numbers)
    known = [size.number for size in sizes if size.number is not None]
    return DenseArrayBase.from_list(i64, known) if len(known) == len(sizes) else SizesAttr(sizes)


def number_attribute(number: Size | int) -> IntegerAttr | SizeAttr:
    """A size or a number among attributes."""
    size = Size.of(number)
    return SizeAttr(size) if size.number is None else IntegerAttr(size.number, i64)


Sizes = Dialect(
    "size",
    [SymbolOp, FactOp, ValueOp, SizeIndexOp, ReshapeOp],
    [SizesAttr, SizedStridesAttr, SizeAttr, FactAttr],
)
