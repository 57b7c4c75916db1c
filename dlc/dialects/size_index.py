"""Sizes as index values of a kernel: `%s = size.index s from 2 to 4096 hint 64`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.layouts import shape_of, strides_of
from dlc.dialects.sized_types import SizedStridesAttr
from dlc.ir.expr import Expr
from dlc.ir.sizes import Bounds, Call, NeedsNumber, Size, Symbol

WIDEST = 2**31 - 1
"""The most that a size of a kernel is where its declaration says no less."""


@irdl_op_definition
class SizeIndexOp(IRDLOperation):
    """
    `%s = size.index s from 2 (to 4096)? (hint 64)?`: a size of the program as an index value.

    A kernel says so at its beginning of each name that its types and extents have, with the values
    that the declaration allows: what is known of a size is known where the kernel stands
    alone. It stays where nothing computes with the value.
    """

    name = "size.index"

    size = prop_def(StringAttr)
    least = prop_def(IntegerAttr)
    most = opt_prop_def(IntegerAttr)
    hint = opt_prop_def(IntegerAttr)
    result = result_def(IndexType())
    traits = traits_def(CanonicalizedByDialect())

    def __init__(self, symbol: Symbol) -> None:
        numbers = {"least": symbol.least, "most": symbol.most, "hint": symbol.hint}
        given = {key: IntegerAttr(n, i64) for key, n in numbers.items() if n is not None}
        super().__init__(
            properties={"size": StringAttr(symbol.name), **given}, result_types=[IndexType()]
        )
        self.result.name_hint = symbol.name

    @property
    def symbol(self) -> Symbol:
        """The size, and the values that it may have."""
        most, hint = (None if a is None else a.value.data for a in (self.most, self.hint))
        return Symbol(self.size.data, self.least.value.data, most, hint)

    def index_range(self) -> Bounds:
        low, high = self.symbol.bounds
        return low, min(high, WIDEST)

    def verify_(self) -> None:
        low, high = self.symbol.bounds
        if not 0 <= low <= high:
            raise VerifyException(f"expected a range from at least 0 up, found {self.symbol}")

    @classmethod
    def parse(cls, parser: Parser) -> SizeIndexOp:
        name = parser.parse_identifier(": the name of a size")
        parser.parse_keyword("from")
        least = parser.parse_integer(allow_boolean=False)
        numbers = [
            parser.parse_integer(allow_boolean=False) if parser.parse_optional_keyword(k) else None
            for k in ("to", "hint")
        ]
        op = cls(Symbol(name, least, *numbers))
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.size.data}")
        for keyword, number in (("from", self.least), ("to", self.most), ("hint", self.hint)):
            if number is not None:
                printer.print_string(f" {keyword} {number.value.data}")
        printer.print_op_attributes(self.attributes)


def size_index(name: str, at: Operation) -> SizeIndexOp | None:
    """The value of a size in the kernel that `at` stands in, or is."""
    block = at.parent
    while not at.has_trait(IsolatedFromAbove) and (parent := at.parent_op()) is not None:
        at, block = parent, parent.parent
    building = block is not None and not at.has_trait(IsolatedFromAbove)
    inside = block.walk() if building and block is not None else at.walk()
    found = (op for op in inside if isinstance(op, SizeIndexOp) and op.size.data == name)
    return next(found, None)


def narrow_sizes(kernel: Operation, refs: Sequence[SSAValue]) -> None:
    """
    Takes from the values of a kernel's sizes those at which one of `refs` has more elements than a
    subscript of 32 bits reaches. NeedsNumber where that leaves out the likely ones.
    """
    ops = {op.size.data: op for op in kernel.walk() if isinstance(op, SizeIndexOp)}
    known = {name: op.index_range() for name, op in ops.items()}
    for ref in refs:
        elements = elements_spanned(ref)
        while elements.names and elements.bounds(known)[1] > WIDEST:
            name = max(elements.names, key=lambda name: known[name][1])
            low, high = known[name]
            if high <= ops[name].symbol.likely:
                raise NeedsNumber(elements)
            known[name] = low, max(high // 2, ops[name].symbol.likely)
    for name, op in ops.items():
        if known[name][1] < op.symbol.bounds[1]:
            op.most = IntegerAttr(int(known[name][1]), i64)


def elements_spanned(ref: SSAValue) -> Size:
    """At most so many elements lie from a buffer's first one to its last one."""
    if isinstance(ref.type, MemRefType) and isinstance(ref.type.layout, SizedStridesAttr):
        pairs = zip(shape_of(ref), strides_of(ref.type), strict=True)
        return sum((Size.of(extent) * stride for extent, stride in pairs), Size.of(1))
    elements = Size.of(1)
    for extent in shape_of(ref):
        elements *= extent
    return elements


def size_expr(size: Size | int, at: Operation) -> Expr:
    """
    A size as an index expression of the kernel that `at` stands in. NeedsNumber for a product of
    sizes, for what is no quotient by a number, for the larger of two where the values of names do
    not tell, and where the kernel does not say what a name is.
    """
    if isinstance(size, int):
        return Expr((), size)
    total = Expr((), size.constant)
    for monomial, coefficient in size.terms:
        match monomial:
            case (str() as name,):
                value = size_index(name, at)
                if value is None:
                    raise NeedsNumber(size)
                part = Expr(((value.result, 1),))
            case (Call("floordiv", left, right),) if (right.number or 0) > 0:
                part = size_expr(left, at) // right.constant
            case (Call("mod", left, right),) if (right.number or 0) > 0:
                part = size_expr(left, at) % right.constant
            case (Call("max" | "min" as function, left, right),):
                ends = size_bounds(left - right, at)
                if ends[0] < 0 < ends[1]:
                    raise NeedsNumber(size)
                part = size_expr(left if (ends[0] >= 0) == (function == "max") else right, at)
            case _:
                raise NeedsNumber(size)
        total = total + part * coefficient
    return total


def sizes_in(exprs: Iterable[Expr]) -> list[str]:
    """The sizes that index expressions mention, each once, in their order there."""
    values = (value.owner for expr in exprs for value in expr.values())
    return list(dict.fromkeys(op.size.data for op in values if isinstance(op, SizeIndexOp)))


def extents_at(ref: SSAValue | Attribute, at: Operation) -> list[Expr]:
    """The extents of a memref as index expressions where `at` stands. Errors as of `size_expr`."""
    return [size_expr(extent, at) for extent in shape_of(ref)]


def size_bounds(size: Size, at: Operation) -> Bounds:
    """Between which a size lies, as far as the kernel that `at` stands in says."""
    known: dict[str, Bounds] = {}
    for name in size.names:
        value = size_index(name, at)
        known[name] = (0, inf) if value is None else value.index_range()
    return size.bounds(known)


def size_hint(size: Size, at: Operation) -> int:
    """The value of a size at the sizes that are likely. NeedsNumber where nothing is said."""
    values: dict[str, int] = {}
    for name in size.names:
        if (value := size_index(name, at)) is None:
            raise NeedsNumber(size)
        values[name] = value.symbol.likely
    return size.evaluate(values)
