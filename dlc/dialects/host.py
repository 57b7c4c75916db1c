"""
The `host` dialect: the program around the kernels, with memory assigned (Kernel IR's `@main`).

```
func.func @main(%x: memref<64x64xf32>, %w: memref<64x64xf32>) -> memref<64x64xf32> {
  %workspace = memref.alloc() {alignment = 256 : i64} : memref<32768xui8>
  %h = host.slice %workspace at 0 : memref<32768xui8> -> memref<64x64xf32>
  host.launch @mm(%x, %w) -> (%h)
  %y = memref.alloc() {alignment = 256 : i64} : memref<64x64xf32>
  host.zero %y : memref<64x64xf32>
  host.launch @mm_sum(%h, %w) -> (%y)
  func.return %y : memref<64x64xf32>
}
```

Operations take effect in the order of the text, as on one stream: so a slice may lie where another
lay that nothing reads any more. `verify_order` checks that this is so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    I64,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.diagnostics import fail
from dlc.dialects.kernel_func import Callee, LaunchOpBase
from dlc.dialects.kernel_op import DEFAULT_ALIGNMENT
from dlc.dialects.layouts import shape_of, span_bytes

BYTE = IntegerType(8, Signedness.UNSIGNED)
"""The elements of memory that slices are taken of."""


@irdl_op_definition
class SliceOp(IRDLOperation):
    """`%h = host.slice %workspace at 4096 : memref<8192xui8> -> memref<32x32xf32>`: bytes of it."""

    name = "host.slice"
    memory = operand_def(MemRefType)
    offset = prop_def(IntegerAttr[I64])
    result = result_def(MemRefType)
    assembly_format = "$memory `at` $offset attr-dict `:` type($memory) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, memory: SSAValue, offset: int, type: Attribute) -> None:
        super().__init__(
            operands=[memory],
            properties={"offset": IntegerAttr(offset, i64)},
            result_types=[type],
        )

    @property
    def begin(self) -> int:
        """The first byte."""
        return self.offset.value.data

    def verify_(self) -> None:
        source, type = self.memory.type, self.result.type
        assert isinstance(source, MemRefType)
        assert isinstance(type, MemRefType)
        if source.element_type != BYTE or source.get_num_dims() != 1:
            raise VerifyException(f"expected a slice of a memref of bytes (?xui8), found {source}")
        if self.begin % DEFAULT_ALIGNMENT:  # which is what kernels take for granted
            raise VerifyException(
                f"expected an offset that {DEFAULT_ALIGNMENT} divides, found {self.begin}"
            )
        end = self.begin + span_bytes(type)
        if self.begin < 0 or end > shape_of(source)[0]:
            raise VerifyException(
                f"expected bytes within 0 to {shape_of(source)[0]}, found {self.begin} to {end}"
            )


@irdl_op_definition
class ZeroOp(IRDLOperation):
    """`host.zero %y : memref<4xf32>`: fills a buffer with zeros."""

    name = "host.zero"
    buffer = operand_def(MemRefType)
    assembly_format = "$buffer attr-dict `:` type($buffer)"
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, buffer: SSAValue) -> None:
        super().__init__(operands=[buffer])


@irdl_custom_directive
class Buffers(CustomDirective):
    """`(%x, …)`: buffers that are defined above, so that their types are known."""

    buffers: VariadicOperandVariable
    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        buffers = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        self.buffers.set(state, buffers)
        self.types.set(state, [_known_type(parser, buffer) for buffer in buffers])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        with printer.in_parens():
            printer.print_list(self.buffers.get(op), printer.print_ssa_value)


def _known_type(parser: Parser, buffer: UnresolvedOperand) -> Attribute:
    known = parser.ssa_values.get(buffer.operand_name)
    type = None if known is None else known[buffer.index].type
    if not isinstance(type, MemRefType):
        what = "which nothing before defines" if type is None else f"of type {type}"
        parser.raise_error(f"expected a buffer, found {buffer.span.text}, {what}", buffer.span)
    return type


@irdl_op_definition
class LaunchOp(LaunchOpBase):
    """
    `host.launch @k(%x, %w) -> (%y)`: runs a kernel, which reads `%x` and `%w` and writes `%y`.

    The types are those of the kernel.
    """

    name = "host.launch"
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (Callee, Buffers)
    assembly_format = (
        "custom<Callee>($kernel) `` custom<Buffers>($inputs, type($inputs))"
        " `->` custom<Buffers>($outputs, type($outputs)) attr-dict"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, kernel: str, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
    ) -> None:
        super().__init__(operands=[inputs, outputs], properties={"kernel": SymbolRefAttr(kernel)})

    def verify_(self) -> None:
        callee = self.callee
        if callee is None:
            raise VerifyException(f"expected a kernel.func named {self.kernel}, found none")
        self.verify_types(
            self.inputs,
            self.outputs,
            [ref.type for ref in callee.input_refs],
            [ref.type for ref in callee.output_refs],
        )
        later = self.next_op
        while later is not None and not isinstance(later, LaunchOp):
            later = later.next_op
        if later is None and self.parent is not None:  # the last launch answers for the program
            verify_order(self.parent)


def main_of(module: ModuleOp) -> func.FuncOp:
    """The function `@main` of a module; OpError if there is none with a body."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main" and op.body.blocks:
            return op
    fail(module, "expected a function @main, found none")


@dataclass(frozen=True)
class Extent:
    """The bytes `[begin, end)` of an argument or an allocation."""

    root: SSAValue
    begin: int
    end: int

    @staticmethod
    def of(buffer: SSAValue) -> Extent:
        """The bytes of a buffer."""
        assert isinstance(buffer.type, MemRefType)
        size = span_bytes(buffer.type)
        if isinstance(piece := buffer.owner, SliceOp):
            return Extent(piece.memory, piece.begin, piece.begin + size)
        return Extent(buffer, 0, size)

    def meets(self, other: Extent) -> bool:
        return self.root is other.root and self.begin < other.end and other.begin < self.end


def verify_order(block: Block) -> None:
    """
    Raises `VerifyException` for a program that reads a buffer before it is written or after another
    one was written over it, that writes an argument, whose kernel writes what it reads or another
    of its outputs, or adds to what is not zero, and for one that returns a part of an allocation.
    """
    state = _State()
    for op in block.ops:
        match op:
            case LaunchOp():
                state.launch(op)
            case ZeroOp():
                state.write(op, op.buffer)
            case func.ReturnOp():
                for value in op.arguments:
                    state.give(op, value)
            case _:
                pass


@dataclass
class _State:
    """The writes so far."""

    holds: dict[SSAValue, Operation] = field(default_factory=dict)
    """The operation that wrote the contents of a buffer."""
    lost: dict[SSAValue, tuple[SSAValue, Operation]] = field(default_factory=dict)
    """The buffer that was written over another one, and the operation that did."""
    extents: dict[SSAValue, Extent] = field(default_factory=dict)

    def extent(self, value: SSAValue) -> Extent:
        if value not in self.extents:
            self.extents[value] = Extent.of(value)
        return self.extents[value]

    def launch(self, op: LaunchOp) -> None:
        for value in op.inputs:
            self.read(op, value)
        for number, output in enumerate(op.outputs):
            for other in (*op.inputs, *op.outputs[:number]):
                if self.extent(output).meets(self.extent(other)):
                    expected = f"an output that shares no memory with {_name(other)}"
                    raise _error(op, expected, _name(output))
        callee = op.callee
        assert callee is not None
        zeroed = callee.zeroed_refs
        for output, ref in zip(op.outputs, callee.output_refs, strict=True):
            if ref in zeroed and not isinstance(self.holds.get(output), ZeroOp):
                raise _error(op, f"{_name(output)} to be zeroed before", "no host.zero of it")
        for output in op.outputs:
            self.write(op, output)

    def read(self, op: Operation, value: SSAValue) -> None:
        extent = self.extent(value)
        if isinstance(value, BlockArgument) or extent.begin == extent.end or value in self.holds:
            return
        if value not in self.lost:
            raise _error(op, f"{_name(value)} to be written before it is read", "no write of it")
        other, writer = self.lost[value]
        raise _error(
            op,
            f"{_name(value)} to hold what was written to it",
            f"{_name(other)}, which {_title(writer)} writes over it",
        )

    def write(self, op: LaunchOp | ZeroOp, value: SSAValue) -> None:
        extent = self.extent(value)
        if not isinstance(extent.root.owner, memref.AllocOp):
            raise _error(op, "writes to allocations only", f"{_name(value)}, which is none")
        for other in [v for v in self.holds if self.extent(v).meets(extent)]:
            del self.holds[other]
            self.lost[other] = (value, op)
        self.holds[value] = op

    def give(self, op: func.ReturnOp, value: SSAValue) -> None:
        if not isinstance(value, BlockArgument) and not isinstance(value.owner, memref.AllocOp):
            raise _error(op, "results that are allocations of their own", _name(value))
        self.read(op, value)


def _error(op: Operation, expected: str, found: str) -> VerifyException:
    return VerifyException(f"{_title(op)}: expected {expected}, found {found}")


def _title(op: Operation) -> str:
    return f"@{op.kernel_name}" if isinstance(op, LaunchOp) else op.name


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint or 'buffer'}"


Host = Dialect("host", [SliceOp, ZeroOp, LaunchOp], [])
