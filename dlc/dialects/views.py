"""
Views: a box of a tensor, where it lies, as a kernel updates it.

```
%v = kernel.view %x[0, 832, 0, 0] : tensor<8x992x14x14xf32> -> tensor<8x32x14x14xf32>
%u = kernel.launch @conv(%h, %w, %v) : (…, tensor<8x32x14x14xf32>) -> (tensor<8x32x14x14xf32>)
%y = kernel.whole %v with %u : tensor<8x32x14x14xf32> -> tensor<8x992x14x14xf32>
```

Kernels that differ in the places of a tensor to which they store are one kernel so, whose memref
has the extents of the box and the strides of the tensor. Once memory is planned, the box is a
buffer:

```
%v = host.view %x[0, 832, 0, 0] : memref<8x992x14x14xf32>
    -> memref<8x32x14x14xf32, strided<[194432, 196, 14, 1]>>
host.launch @conv(%h, %w, %v) -> (%v)
```
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, TensorType, i64
from xdsl.ir import Attribute, SSAValue
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

from dlc.dialects.host_order import PartOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, element_of, shape_of, strides_of
from dlc.dialects.size import LiesWithin
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.type_directives import SameType
from dlc.ir.attributes import i64_array


@irdl_custom_directive
class Place(CustomDirective):
    """`[0, 832, 0, 0]`: where a box begins along each dimension."""

    place: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        square = parser.Delimiter.SQUARE
        numbers = parser.parse_comma_separated_list(square, parser.parse_integer)
        self.place.set(state, i64_array(tuple(numbers)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        place = self.place.get(op)
        assert isinstance(place, DenseArrayBase)
        state.print_whitespace(printer)
        printer.print_string(f"[{', '.join(map(str, place.get_values()))}]")


def _verify_box(begin: Sequence[int], part: Attribute, whole: Attribute) -> None:
    """Checks that a box, of known extents, lies in what it is a part of."""
    extents, around = shape_of(part), shape_of(whole)
    same = len(begin) == len(extents) == len(around)
    if not same or not all(isinstance(n, int) for n in (*extents, *around)):
        raise VerifyException(f"expected a box of known extents in {whole}, found {part}")
    for first, extent, most in zip(begin, extents, around, strict=True):
        if first < 0 or first + extent > most:
            raise VerifyException(
                f"expected a box within {whole}, found {part} at {', '.join(map(str, begin))}"
            )


class BoxOp(IRDLOperation, ABC):
    """An operation whose only result is a box of something."""

    place = prop_def(DenseArrayBase.constr(i64))

    @property
    def begin(self) -> tuple[int, ...]:
        """Where the box begins along each dimension."""
        return tuple(map(int, self.place.get_values()))

    @property
    def box(self) -> tuple[slice, ...]:
        """The places along each dimension."""
        pairs = zip(self.begin, shape_of(self.results[0]), strict=True)
        return tuple(slice(first, first + extent) for first, extent in pairs)


@irdl_op_definition
class ViewOp(BoxOp, LiesWithin):
    """`%v = kernel.view %x[0, 832] : tensor<8x992xf32> -> tensor<8x32xf32>`: a box of a tensor."""

    name = "kernel.view"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    custom_directives = (Place,)
    assembly_format = (
        "$source `` custom<Place>($place) attr-dict `:` type($source) `->` type($result)"
    )
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, begin: Sequence[int], extents: Sequence[int]) -> None:
        super().__init__(
            operands=[source],
            properties={"place": i64_array(tuple(begin))},
            result_types=[sized_tensor(element_of(source), extents)],
        )

    def verify_(self) -> None:
        _verify_box(self.begin, self.result.type, self.source.type)
        if element_of(self.result) != element_of(self.source):
            raise VerifyException(f"expected a box of {self.source.type}, found {self.result.type}")


@runtime_checkable
class Updating(Protocol):
    """A kernel in a graph, or a launch of one."""

    def changes(self, tensor: SSAValue) -> bool:
        """True if a tensor, one of its inputs, is updated in place."""
        ...


@irdl_op_definition
class WholeOp(IRDLOperation):
    """
    `%y = kernel.whole %v with %u : tensor<8x32xf32> -> tensor<8x992xf32>`: the tensor that `%v` is
    a view of, once a kernel has updated the view, which is `%u` then. Nothing else of that tensor's
    memory is used any more but the result.
    """

    name = "kernel.whole"
    view = operand_def(TensorType)
    part = operand_def(TensorType)
    result = result_def(TensorType)
    custom_directives = (SameType,)
    assembly_format = (
        "$view `with` $part attr-dict `:` custom<SameType>(type($view), type($part))"
        " `->` type($result)"
    )
    traits = traits_def(Pure())

    def __init__(self, view: ViewOp, part: SSAValue) -> None:
        super().__init__(operands=[view.result, part], result_types=[view.source.type])

    @property
    def viewed(self) -> ViewOp:
        """Where the part lies."""
        view = self.view.owner
        assert isinstance(view, ViewOp)
        return view

    def verify_(self) -> None:
        view, kernel = self.view.owner, self.part.owner
        if not isinstance(view, ViewOp) or view.source.type != self.result.type:
            raise VerifyException(f"expected a view of {self.result.type}")
        if not isinstance(kernel, Updating) or not kernel.changes(self.view):
            raise VerifyException("expected what a kernel gives that updates the view in place")
        if not self.part.has_one_use():
            raise VerifyException("expected an updated view that nothing else uses")


@irdl_op_definition
class BufferViewOp(BoxOp, PartOp):
    """
    `%v = host.view %x[0, 832] : memref<8x992xf32> -> memref<8x32xf32, strided<[992, 1]>>`: a box of
    a buffer. What it touches counts as the whole buffer: between its rows lies what others touch.
    """

    name = "host.view"
    memory = operand_def(MemRefType)
    result = result_def(MemRefType)
    custom_directives = (Place,)
    assembly_format = (
        "$memory `` custom<Place>($place) attr-dict `:` type($memory) `->` type($result)"
    )
    traits = traits_def(Pure())

    def __init__(self, memory: SSAValue, begin: Sequence[int], type: Attribute) -> None:
        super().__init__(
            operands=[memory],
            properties={"place": i64_array(tuple(begin))},
            result_types=[type],
        )

    @property
    def byte_range(self) -> None:
        return None

    @property
    def offset(self) -> int:
        """The bytes from the first element of the buffer to that of the box."""
        assert isinstance(self.memory.type, MemRefType)
        return offset_bytes(self.begin, self.memory.type)

    def verify_(self) -> None:
        whole, part = self.memory.type, self.result.type
        assert isinstance(whole, MemRefType)
        assert isinstance(part, MemRefType)
        _verify_box(self.begin, part, whole)
        if part.element_type != whole.element_type or strides_of(part) != strides_of(whole):
            raise VerifyException(f"expected a box with the strides of {whole}, found {part}")
        if self.offset % DEFAULT_ALIGNMENT:  # which is what kernels take for granted
            raise VerifyException(
                f"expected a box at a multiple of {DEFAULT_ALIGNMENT} bytes, found {self.offset}"
            )


def offset_bytes(begin: Sequence[int], memref: MemRefType[Attribute]) -> int:
    """The bytes from the first element of a memref to the one at a place."""
    pairs = zip(begin, strides_of(memref), strict=True)
    return sum(n * step for n, step in pairs) * element_bytes(memref.element_type)
