"""Running numbers taken apart by counts that only a launch knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.layouts import shape_of, strides_of
from dlc.dialects.size import SizeAttr
from dlc.dialects.size_index import SizeIndexOp, size_bounds, size_expr
from dlc.dialects.size_syntax import parse_size
from dlc.dialects.sized_types import SizedStridesAttr
from dlc.ir.expr import Expr
from dlc.ir.sizes import Bounds, NeedsNumber, Size


@irdl_custom_directive
class Count(CustomDirective):
    """`(s + 7) floordiv 8`: a size."""

    size: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.size.set(state, SizeAttr(parse_size(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        size = self.size.get(op)
        assert isinstance(size, SizeAttr)
        printer.print_string(str(size.data))


class PartOp(IRDLOperation, ABC):
    """A part of a running number, from 0 up to its `points`; `by` is what divides the number."""

    number = operand_def(IndexType())
    by = prop_def(SizeAttr)
    result = result_def(IndexType())
    custom_directives = (Count,)
    traits = traits_def(Pure())

    SIGN: ClassVar[str]
    """The operation in C, and on index expressions."""

    @property
    @abstractmethod
    def points(self) -> Size:
        """How many values it has."""

    def at(self, by: int) -> Expr:
        """The part where the divisor is a number."""
        number = Expr.of(self.number)
        return number // by if self.SIGN == "/" else number % by

    def index_range(self) -> Bounds:
        return 0, max(size_bounds(self.points, self)[1] - 1, 0)

    def index_top(self) -> Expr | None:
        """The last value, where that is an index expression."""
        try:
            return size_expr(self.points, self) - 1
        except NeedsNumber:
            return None

    def verify_(self) -> None:
        if self.by.data.number is not None:
            raise VerifyException(
                f"expected a divisor that is a size, found {self.by.data}: kernel.index divides by "
                "numbers"
            )


@irdl_op_definition
class QuotientOp(PartOp):
    """`%q = kernel.quotient %n by s in b`: `%n floordiv s`, which is below `b`."""

    name = "kernel.quotient"
    within = prop_def(SizeAttr)
    assembly_format = "$number `by` custom<Count>($by) `in` custom<Count>($within) attr-dict"
    SIGN: ClassVar[str] = "/"

    def __init__(self, number: SSAValue | Operation, by: Size, within: Size) -> None:
        properties = {"by": SizeAttr(by), "within": SizeAttr(within)}
        super().__init__(operands=[number], properties=properties, result_types=[IndexType()])

    @property
    def points(self) -> Size:
        return self.within.data


@irdl_op_definition
class RemainderOp(PartOp):
    """`%r = kernel.remainder %n by s`: `%n mod s`."""

    name = "kernel.remainder"
    assembly_format = "$number `by` custom<Count>($by) attr-dict"
    SIGN: ClassVar[str] = "%"

    def __init__(self, number: SSAValue | Operation, by: Size) -> None:
        properties = {"by": SizeAttr(by)}
        super().__init__(operands=[number], properties=properties, result_types=[IndexType()])

    @property
    def points(self) -> Size:
        return self.by.data


def _steps(type: Attribute) -> Sequence[Size | int]:
    """What subscripts of a buffer are multiplied with, which sizes may be among."""
    if isinstance(type, MemRefType) and isinstance(type.layout, SizedStridesAttr):
        return strides_of(type)
    return shape_of(type)[1:]


def kernel_sizes(kernel: Operation) -> list[SizeIndexOp]:
    """
    The sizes that a kernel computes with, in their order: a launch gives it their numbers. Places
    in its buffers are computed with all extents but the outermost, blocks by what divides them.
    """
    refs = kernel.regions[0].block.args
    counts = [Size.of(stride) for ref in refs for stride in _steps(ref.type)]
    counts += [op.by.data for op in kernel.walk() if isinstance(op, PartOp)]
    named = {name for count in counts for name in count.names}
    return [
        op
        for op in kernel.walk()
        if isinstance(op, SizeIndexOp) and (op.result.uses or op.size.data in named)
    ]
