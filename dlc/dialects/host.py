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
lay that nothing reads any more. `dlc/dialects/host_order.py` checks that this is so; control
flow is in `dlc/dialects/host_flow.py`.

Kernels whose last block goes on leave the counts of blocks at zero: one `host.zero` where a program
begins does for all that count there, one after the other. What runs a program may keep that memory
for the next call on the same stream, as zeros are left in it: see `ZeroOp.counts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    I64,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Dialect, SSAValue, Use
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

from dlc.dialects.frozen import frozen_in
from dlc.dialects.host_flow import ForOp, IfOp, SelectOp, WhileOp, YieldOp
from dlc.dialects.host_order import Contents, Ordered, PartOp, error, name_of
from dlc.dialects.kernel_blocks import counters_of
from dlc.dialects.kernel_func import Callee, FuncOp, LaunchOpBase
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of, span_bytes
from dlc.dialects.views import BufferViewOp
from dlc.ir.attributes import i64_attr

ONCE = "once"
BYTE = IntegerType(8, Signedness.UNSIGNED)
"""The elements of memory that slices are taken of."""


@irdl_op_definition
class SliceOp(PartOp):
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
            properties={"offset": i64_attr(offset)},
            result_types=[type],
        )

    @property
    def begin(self) -> int:
        """The first byte."""
        return self.offset.value.data

    @property
    def byte_range(self) -> tuple[int, int]:
        assert isinstance(self.result.type, MemRefType)
        return self.begin, self.begin + span_bytes(self.result.type)

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
class ZeroOp(Ordered):
    """`host.zero %y : memref<4xf32>`: fills a buffer with zeros."""

    name = "host.zero"
    ANSWERS: ClassVar = False
    buffer = operand_def(MemRefType)
    assembly_format = "$buffer attr-dict `:` type($buffer)"
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, buffer: SSAValue) -> None:
        super().__init__(operands=[buffer])

    @property
    def counts(self) -> bool:
        """True if the buffer is memory in which nothing is done but that kernels count blocks, each
        of which leaves it full of zeros."""
        if not isinstance(self.buffer.owner, memref.AllocOp):
            return False
        others = [use.operation for use in self.buffer.uses if use.operation is not self]
        pieces = [op.result for op in others if isinstance(op, SliceOp)]
        uses = [use for piece in pieces for use in piece.uses]
        return len(pieces) == len(others) and all(map(_counts_in, uses))

    def take_effect(self, state: Contents) -> None:
        state.write(self, self.buffer)
        state.zeros.append(state.extent(self.buffer))


def _counts_in(use: Use) -> bool:
    """True for a launch that counts blocks in what it is given there."""
    launch = use.operation
    if not isinstance(launch, LaunchOp) or launch.callee is None:
        return False
    refs = [*launch.callee.input_refs, *launch.callee.output_refs]
    return refs[use.index] in counters_of(launch.callee)


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
class LaunchOp(LaunchOpBase, Ordered):
    """
    `host.launch @k(%x, %w) -> (%y)`: runs a kernel, which reads `%x` and `%w` and writes `%y`.

    The types are those of the kernel. With `{once}`, what it writes is kept for the calls to come,
    which find the same `%x` and `%w`: it is an allocation that it alone writes.
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
        self.verify_program()

        if self.is_once:
            self._verify_once()

    @property
    def is_once(self) -> bool:
        """True if what it writes is kept for the calls to come."""
        return ONCE in self.attributes

    def _verify_once(self) -> None:
        main = self.parent_op()
        same = frozen_in(main) if isinstance(main, func.FuncOp) else ()
        for value in self.inputs:
            writers = [u.operation for u in value.uses if isinstance(u.operation, LaunchOp)]
            once = [w.is_once for w in writers if value in w.outputs]
            if value not in same and not (once and all(once)):
                raise VerifyException(f"expected {name_of(value)} to be the same at all calls")
        for value in self.outputs:
            others = [u.operation for u in value.uses if u.operation is not self]
            if not isinstance(value.owner, memref.AllocOp) or not all(
                isinstance(other, LaunchOp) and value not in other.outputs for other in others
            ):
                raise VerifyException(
                    f"expected {name_of(value)}, which is kept, to be an allocation that launches "
                    "read"
                )

    @property
    def title(self) -> str:
        return f"@{self.kernel_name}"

    def take_effect(self, state: Contents) -> None:
        for value in self.inputs:
            state.read(self, value)
        callee = self.callee
        assert callee is not None
        updated = self._updated(state, callee)
        for number, output in enumerate(self.outputs):
            inputs = [v for v in self.inputs if updated.get(output) is not v]
            for other in (*inputs, *self.outputs[:number]):
                if state.extent(output).meets(state.extent(other)):
                    expected = f"an output that shares no memory with {name_of(other)}"
                    raise error(self, expected, name_of(output))
        zeroed, counters = callee.zeroed_refs, counters_of(callee)
        pairs = list(zip(self.outputs, callee.output_refs, strict=True))
        for output, ref in pairs:
            if ref in zeroed and not state.is_zero(output):
                raise error(self, f"{name_of(output)} to be zeroed before", "no host.zero of it")
        for output, ref in pairs:
            state.write(self, output, in_place=output in updated, zeros=ref in counters)

    def _updated(self, state: Contents, callee: FuncOp) -> dict[SSAValue, SSAValue]:
        """The outputs that are inputs' memory, each with the input; VerifyException if not so."""
        found: dict[SSAValue, SSAValue] = {}
        pairs = dict(zip(callee.refs, (*self.inputs, *self.outputs), strict=True))
        for ref, source in callee.updated_refs.items():
            output, input = pairs[ref], pairs[source]
            here, there = state.extent(output), state.extent(input)
            if here != there:
                raise error(self, f"{name_of(output)} in the memory of {name_of(input)}", "other")
            found[output] = input
        return found


Host = Dialect(
    "host",
    [SliceOp, SelectOp, BufferViewOp, ZeroOp, LaunchOp, ForOp, WhileOp, IfOp, YieldOp],
    [],
)
