"""
The signature of a kernel, in a form shared by the loop, tile and kernel dialects.

```
%y = loop.kernel @rms_norm(%x: memref<32x2048xf32> = %a, %w: memref<2048xf32> align 4 = %b)
    -> (%y: memref<32x2048xf32>) schedule "tileify,…" {
  …
}
```

A kernel reads and writes memrefs: inputs first, then outputs. `align` is what is known of an
input's address in bytes (default 16). An output is new memory, uninitialized, or full of zeros
if it says `%y: memref<4xf32> zeroed`. Names inside are a scope of their own.

`%y: memref<4xf32> updates %x` is an output in the memory of an input, whose data it holds at first:
what is not stored stays. Nothing uses the tensor that was there afterwards (`in_place.py`). Of
`%y: memref<4xf32> partial`, new memory, the kernel stores a part; those that update it, the rest.

In the graph of kernels that `@main` is, a kernel of the loop or tile dialect takes and gives
tensors of the shapes that the memrefs have; a `kernel.func` is launched by its name.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import ClassVar, Self, TypeVar

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import AtomicAddOpBase, LoadOpBase
from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.effects import PureUnlessLaunched
from dlc.dialects.in_place import verify_in_place, verify_partial, verify_reads
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of
from dlc.dialects.sized_types import sized_tensor
from dlc.escapes import mlir_string
from dlc.ir.attributes import i64_array
from dlc.ir.verification import SoundByStructure

TUNED = "tuned"
"""The attribute of a kernel of Loop IR that says by what measurement its schedule was found."""
NEW = -1
"""The number of the input that an output updates which is memory of its own."""
PARTIAL = -2
"""The same, if the kernel stores a part of the output only."""


@cache
def tensor_of(memref: Attribute) -> TensorType:
    """The tensor type that a memref holds."""
    assert isinstance(memref, MemRefType)
    return sized_tensor(memref.element_type, shape_of(memref))


def positions(values: Sequence[int]) -> DenseArrayBase[I64] | None:
    """The positions of some outputs, as a property; None for none of them."""
    return i64_array(tuple(values)) if values else None


Properties = dict[str, Attribute | None]


class KernelSignature(SoundByStructure, IRDLOperation, ABC):
    """Base of all kernels; see the module's text."""

    sym_name = prop_def(SymbolNameConstraint())
    alignments = prop_def(DenseArrayBase.constr(i64))
    zeroed = opt_prop_def(DenseArrayBase.constr(i64))
    updates = opt_prop_def(DenseArrayBase.constr(i64))
    """For each output the number of the input that it updates, -1 if it is new memory, -2 if it is
    new memory of which a part is stored."""
    schedule = opt_prop_def(StringAttr)
    body = region_def("single_block")

    IN_GRAPH: ClassVar[bool] = False
    """True if inputs are bound to tensors, the operands, and outputs are results."""

    @staticmethod
    def signature(
        name: str,
        alignments: Sequence[int],
        schedule: str | None,
        zeroed: Sequence[int],
        updates: Sequence[int] = (),
    ) -> Properties:
        """The properties that all kernels have."""
        return {
            "sym_name": StringAttr(name),
            "alignments": i64_array(tuple(alignments)),
            "zeroed": positions(zeroed),
            "updates": None if all(n == NEW for n in updates) else positions(updates),
            "schedule": None if schedule is None else StringAttr(schedule),
        }

    @property
    def name_(self) -> str:
        return self.sym_name.data

    @property
    def refs(self) -> tuple[BlockArgument, ...]:
        """All memrefs, inputs first."""
        return tuple([a for a in self.body.block.args if isinstance(a.type, MemRefType)])

    @property
    def input_refs(self) -> tuple[BlockArgument, ...]:
        return self.refs[: len(self.alignments)]

    @property
    def output_refs(self) -> tuple[BlockArgument, ...]:
        return self.refs[len(self.alignments) :]

    @property
    def zeroed_refs(self) -> tuple[BlockArgument, ...]:
        """The outputs that are full of zeros when the kernel begins."""
        which = () if self.zeroed is None else self.zeroed.get_values()
        return tuple(output for n, output in enumerate(self.output_refs) if n in which)

    @property
    def updated_refs(self) -> Mapping[BlockArgument, BlockArgument]:
        """The outputs that lie in the memory of an input, each with the input."""
        if self.updates is None:
            return {}
        pairs = zip(self.output_refs, self.updates.get_values(), strict=False)
        return {output: self.input_refs[n] for output, n in pairs if 0 <= n < len(self.alignments)}

    def updated_of(self, inputs: Sequence[SSAValue]) -> list[SSAValue]:
        """Those of a launch's inputs that the kernel updates."""
        return [inputs[self.input_refs.index(ref)] for ref in self.updated_refs.values()]

    @property
    def partial_refs(self) -> tuple[BlockArgument, ...]:
        """The outputs, new memory, of which the kernel stores a part."""
        numbers = () if self.updates is None else self.updates.get_values()
        pairs = zip(self.output_refs, numbers, strict=False)
        return tuple(output for output, n in pairs if n == PARTIAL)

    def set_updates(
        self,
        updated: Mapping[BlockArgument, BlockArgument],
        partial: Sequence[BlockArgument] = (),
    ) -> None:
        """States for outputs which inputs they update, and which are stored in part."""
        inputs, outputs = self.input_refs, self.output_refs
        new = {output: PARTIAL if output in partial else NEW for output in outputs}
        numbers = [inputs.index(updated[o]) if o in updated else new[o] for o in outputs]
        self.updates = None if all(n == NEW for n in numbers) else positions(numbers)

    def partial_of(self, outputs: Sequence[SSAValue]) -> list[SSAValue]:
        """Those of a launch's outputs of which the kernel stores a part."""
        return [outputs[self.output_refs.index(ref)] for ref in self.partial_refs]

    @property
    def constant_refs(self) -> tuple[BlockArgument, ...]:
        """The inputs whose memory the kernel does not write."""
        updated = self.updated_refs.values()
        return tuple(ref for ref in self.input_refs if ref not in updated)

    def alignment(self, ref: SSAValue) -> int:
        """The known alignment of a memref's address, in bytes: of an updated input if it is one."""
        if self.updates is not None:
            ref = self.updated_refs.get(ref, ref)  # pyright: ignore[reportArgumentType, reportCallIssue]
        known = zip(self.input_refs, self.alignments.get_values(), strict=False)
        return next((int(n) for input, n in known if input is ref), DEFAULT_ALIGNMENT)

    def verify_zeroed(self) -> None:
        """Checks that `zeroed` names some of the outputs, in order."""
        found = [] if self.zeroed is None else [int(n) for n in self.zeroed.get_values()]
        count = len(self.output_refs)
        if found != [n for n in range(count) if n in found]:
            raise VerifyException(
                f"expected rising positions of zeroed outputs below {count}, found {found}"
            )

    def verify_updates(self) -> None:
        """Checks that outputs update inputs of their types, each input one output at most."""
        if self.updates is None:
            return
        numbers = [int(n) for n in self.updates.get_values()]
        inputs, outputs = self.input_refs, self.output_refs
        if len(numbers) != len(outputs) or not all(PARTIAL <= n < len(inputs) for n in numbers):
            raise VerifyException(
                f"expected for each of {len(outputs)} outputs the input below {len(inputs)} that "
                f"it updates, {NEW} or {PARTIAL}, found {numbers}"
            )
        updated = self.updated_refs
        if len({*updated.values()}) < len(updated):
            raise VerifyException("expected outputs that update different inputs, found one twice")
        for output, input in updated.items():
            if output.type != input.type:
                raise VerifyException(
                    f"expected %{output.name_hint} to be of the type of %{input.name_hint}, which "
                    f"it updates, found {output.type} and {input.type}"
                )
            if output in self.zeroed_refs:
                raise VerifyException(
                    f"expected %{output.name_hint} to be zeroed or to update %{input.name_hint}, "
                    "found both"
                )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        arguments: list[Parser.Argument] = []
        alignments: list[int] = []
        bound: list[UnresolvedOperand] = []
        zeroed: list[int] = []
        updates: list[int] = []

        def argument() -> None:
            start = parser.pos
            arguments.append(argument := parser.parse_argument())
            if cls.IN_GRAPH and not isinstance(argument.type, MemRefType):
                parser.raise_error(f"expected a memref, found {argument.type}", start, parser.pos)

        def input() -> None:
            argument()
            aligned = parser.parse_optional_keyword("align")
            alignments.append(parser.parse_integer() if aligned else DEFAULT_ALIGNMENT)
            if cls.IN_GRAPH:
                parser.parse_punctuation("=")
                bound.append(parser.parse_unresolved_operand())

        def output() -> None:
            argument()
            if parser.parse_optional_keyword("zeroed"):
                zeroed.append(len(arguments) - 1 - len(alignments))
            if parser.parse_optional_keyword("updates"):
                updates.append(updated())
            else:
                updates.append(PARTIAL if parser.parse_optional_keyword("partial") else NEW)

        def updated() -> int:
            wanted = parser.parse_unresolved_operand()
            names = [f"%{argument.name.text[1:]}" for argument in arguments[: len(alignments)]]
            if wanted.span.text not in names:
                parser.raise_error(
                    f"expected an input of the kernel, found {wanted.span.text}", wanted.span
                )
            return names.index(wanted.span.text)

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, input)
        parser.parse_punctuation("->")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, output)
        own = cls.parse_own(parser)
        stated = parser.parse_optional_keyword("schedule")
        schedule = parser.parse_str_literal() if stated else None
        tensors = [tensor_of(a.type) for a in arguments] if cls.IN_GRAPH else []
        inputs = parser.resolve_operands(bound, tensors[: len(bound)], parser.pos)
        outer, parser.ssa_values = parser.ssa_values, {}  # names inside may repeat names outside
        region = parser.parse_region(arguments)
        parser.ssa_values = outer
        return cls.build(
            operands=[inputs] if cls.IN_GRAPH else [],
            result_types=[tensors[len(bound) :]] if cls.IN_GRAPH else [],
            regions=[region],
            properties=cls.signature(name.data, alignments, schedule, zeroed, updates) | own,
            attributes=parser.parse_optional_attr_dict(),
        )

    @classmethod
    def parse_own(cls, parser: Parser) -> Properties:
        """Parses the properties that not all kernels have."""
        return {}

    def print_own(self, printer: Printer) -> None:
        """Prints what `parse_own` parses."""

    def print(self, printer: Printer) -> None:
        printer.ssa_names.clear()  # names inside may repeat names outside
        zeroed, updated, partial = self.zeroed_refs, self.updated_refs, self.partial_refs

        def memref(ref: BlockArgument) -> None:
            printer.print_ssa_value(ref)
            printer.print_string(": ")
            printer.print_attribute(ref.type)
            alignment = self.alignment(ref)
            if alignment != DEFAULT_ALIGNMENT and ref not in updated:
                printer.print_string(f" align {alignment}")
            if ref in zeroed:
                printer.print_string(" zeroed")
            if ref in updated:
                printer.print_string(" updates ")
                printer.print_ssa_value(updated[ref])
            if ref in partial:
                printer.print_string(" partial")
            if self.IN_GRAPH and ref.index < len(self.operands):
                printer.print_string(" = ")
                printer.print_ssa_value(self.operands[ref.index])

        printer.print_string(" ")
        printer.print_symbol_name(self.name_)
        with printer.in_parens():
            printer.print_list(self.input_refs, memref)
        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(self.output_refs, memref)
        self.print_own(printer)
        if self.schedule is not None:
            printer.print_string(f" schedule {mlir_string(self.schedule.data)}")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_op_attributes(self.attributes)


class KernelOpBase(KernelSignature, ABC):
    """
    A kernel in the graph of kernels: its inputs are bound to tensors, its results are tensors that
    hold its outputs.
    """

    IN_GRAPH: ClassVar = True

    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(
        PureUnlessLaunched(), IsolatedFromAbove(), NoTerminator(), CanonicalizedByDialect()
    )

    def __init__(
        self,
        name: str,
        inputs: Sequence[SSAValue],
        body: Region,
        alignments: Sequence[int] | None = None,
        schedule: str | None = None,
        zeroed: Sequence[int] = (),
        updates: Sequence[int] = (),
    ) -> None:
        alignments = alignments or [DEFAULT_ALIGNMENT] * len(inputs)
        super().__init__(
            operands=[inputs],
            result_types=[[tensor_of(a.type) for a in body.block.args[len(inputs) :]]],
            regions=[body],
            properties=self.signature(name, alignments, schedule, zeroed, updates),
        )

    def changes(self, tensor: SSAValue) -> bool:
        """True if an input is updated in place."""
        return tensor in self.updated_of(self.inputs)

    def name_inputs(self, names: Sequence[str | None]) -> None:
        """Names the memrefs of inputs, and what is loaded of them if that had their names."""
        for ref, name in zip(self.input_refs, names, strict=True):
            for use in ref.uses:
                load = use.operation
                if isinstance(load, LoadOpBase) and load.result.name_hint == ref.name_hint:
                    load.result.name_hint = name
            ref.name_hint = name

    def verify_(self) -> None:
        outside = [*(v.type for v in self.inputs), *(v.type for v in self.outputs)]
        inside = self.body.block.args
        if len(outside) != len(inside):
            raise VerifyException(
                f"expected {len(outside)} memrefs inside for {len(self.inputs)} inputs and "
                f"{len(self.outputs)} outputs, found {len(inside)}"
            )
        for ref, tensor in zip(inside, outside, strict=True):
            if not isinstance(ref.type, MemRefType) or tensor_of(ref.type) != tensor:
                raise VerifyException(f"expected a memref of {tensor}, found {ref.type}")
        if len(self.alignments) != len(self.inputs):
            raise VerifyException(
                f"expected an alignment for each of {len(self.inputs)} inputs, found "
                f"{len(self.alignments)}"
            )
        self.verify_updates()
        verify_in_place(self, self.updated_of(self.inputs))
        verify_partial(self.partial_of(self.outputs))
        for output, input in self.updated_refs.items():
            verify_reads(output, input)
        self.verify_zeroed()
        for ref in self.zeroed_refs:
            for use in ref.uses:
                if not isinstance(use.operation, AtomicAddOpBase):
                    raise VerifyException(
                        f"expected a zeroed output that atomic adds alone use, found "
                        f"%{ref.name_hint}, which '{use.operation.name}' uses"
                    )


KernelKind = TypeVar("KernelKind", bound=KernelSignature)


def kernels_in(op: Operation, kind: type[KernelKind]) -> list[KernelKind]:
    """The kernels of a kind in an operation, in program order: no kernel is in another."""
    return [inner for inner in around_kernels(op) if isinstance(inner, kind)]


def around_kernels(op: Operation) -> Iterator[Operation]:
    """The operations in an operation, in program order, but for what is in kernels."""
    for inner in (o for region in op.regions for block in region.blocks for o in block.ops):
        yield inner
        if inner.regions and not isinstance(inner, KernelSignature):
            yield from around_kernels(inner)
