"""
A kernel in the graph of kernels that `@main` is, in a form shared by the loop and tile dialects.

```
%y = loop.kernel @rms_norm(%x: memref<32x2048xf32> = %a, %w: memref<2048xf32> align 4 = %b)
    -> (%y: memref<32x2048xf32>) schedule "tileify,…" {
  …
}
```

Outside, a kernel takes and gives tensors; inside, it reads and writes memrefs of the same shape,
inputs first, then outputs. `align` is what is known of an input's address in bytes (default 16).
An output is new memory, uninitialized, or full of zeros if it says `%y: memref<4xf32> zeroed`.
Names inside are a scope of their own.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
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
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import AtomicAddOpBase, LoadOpBase
from dlc.ir.verification import SoundByStructure

DEFAULT_ALIGNMENT = 16


@cache
def tensor_of(memref: Attribute) -> TensorType:
    """The tensor type that a memref holds."""
    assert isinstance(memref, MemRefType)
    return TensorType(memref.element_type, memref.get_shape())


def unique_name(base: str, used: set[str]) -> str:
    """`base`, numbered if it is in `used`, to which the name is added."""
    name, count = base, 1
    while name in used:
        count += 1
        name = f"{base}_{count}"
    used.add(name)
    return name


def parse_isolated_region(parser: Parser, arguments: Sequence[Parser.Argument]) -> Region:
    """Parses the body of an op that is isolated from above: names there may repeat names here."""
    outer, parser.ssa_values = parser.ssa_values, {}
    region = parser.parse_region(arguments)
    parser.ssa_values = outer
    return region


def forget_outer_names(printer: Printer) -> None:
    """Lets the names of an op that is isolated from above repeat names outside."""
    printer._ssa_names[-1].clear()  # pyright: ignore[reportPrivateUsage]


def print_schedule(printer: Printer, schedule: str) -> None:
    """Prints ` schedule "…"`, the quotes of schedules in it escaped so that it reads well."""
    escaped = schedule.replace("\\", "\\\\").replace('"', '\\"')
    printer.print_string(f' schedule "{escaped}"')


def positions(values: Sequence[int]) -> DenseArrayBase[I64] | None:
    """Which of some outputs are meant, as a property; None for none of them."""
    return DenseArrayBase.from_list(i64, list(values)) if values else None


def chosen(
    outputs: Sequence[BlockArgument], which: DenseArrayBase[I64] | None
) -> tuple[BlockArgument, ...]:
    """The outputs that `positions` says."""
    values = () if which is None else which.get_values()
    return tuple(output for n, output in enumerate(outputs) if n in values)


def verify_positions(which: DenseArrayBase[I64] | None, count: int) -> None:
    """Checks that `positions` are of some of `count` outputs, in order."""
    found = [] if which is None else [int(n) for n in which.get_values()]
    if found != [n for n in range(count) if n in found]:
        raise VerifyException(
            f"expected rising positions of zeroed outputs below {count}, found {found}"
        )


class KernelOpBase(SoundByStructure, IRDLOperation, ABC):
    """Base of the kernel operations; see the module's text."""

    sym_name = prop_def(SymbolNameConstraint())
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    alignments = prop_def(DenseArrayBase.constr(i64))
    zeroed = opt_prop_def(DenseArrayBase.constr(i64))
    schedule = opt_prop_def(StringAttr)
    body = region_def("single_block")

    traits = traits_def(Pure(), IsolatedFromAbove(), NoTerminator())

    def __init__(
        self,
        name: str,
        inputs: Sequence[SSAValue],
        body: Region,
        alignments: Sequence[int] | None = None,
        schedule: str | None = None,
        zeroed: Sequence[int] = (),
    ) -> None:
        types = [tensor_of(a.type) for a in body.block.args[len(inputs) :]]
        super().__init__(
            operands=[inputs],
            result_types=[types],
            regions=[body],
            properties={
                "sym_name": StringAttr(name),
                "alignments": DenseArrayBase.from_list(
                    i64, list(alignments or [DEFAULT_ALIGNMENT] * len(inputs))
                ),
                "zeroed": positions(zeroed),
                "schedule": None if schedule is None else StringAttr(schedule),
            },
        )

    @property
    def name_(self) -> str:
        return self.sym_name.data

    @property
    def refs(self) -> tuple[BlockArgument, ...]:
        """All memrefs, inputs first."""
        return tuple(self.body.block.args)

    @property
    def input_refs(self) -> tuple[BlockArgument, ...]:
        return self.refs[: len(self.inputs)]

    @property
    def output_refs(self) -> tuple[BlockArgument, ...]:
        return self.refs[len(self.inputs) :]

    @property
    def zeroed_refs(self) -> tuple[BlockArgument, ...]:
        """The outputs that are full of zeros when the kernel begins."""
        return chosen(self.output_refs, self.zeroed)

    def name_inputs(self, names: Sequence[str | None]) -> None:
        """Names the memrefs of inputs, and what is loaded of them if that had their names."""
        for ref, name in zip(self.input_refs, names, strict=True):
            for use in ref.uses:
                load = use.operation
                if isinstance(load, LoadOpBase) and load.result.name_hint == ref.name_hint:
                    load.result.name_hint = name
            ref.name_hint = name

    def alignment(self, ref: SSAValue) -> int:
        """What is known of a memref's address, in bytes."""
        index = self.refs.index(ref)  # pyright: ignore[reportArgumentType]
        values = self.alignments.get_values()
        return int(values[index]) if index < len(values) else DEFAULT_ALIGNMENT

    def verify_(self) -> None:
        outside = [*(v.type for v in self.inputs), *(v.type for v in self.outputs)]
        if len(outside) != len(self.refs):
            raise VerifyException(
                f"expected {len(outside)} memrefs inside for {len(self.inputs)} inputs and "
                f"{len(self.outputs)} outputs, found {len(self.refs)}"
            )
        for ref, tensor in zip(self.refs, outside, strict=True):
            if not isinstance(ref.type, MemRefType) or tensor_of(ref.type) != tensor:
                raise VerifyException(f"expected a memref of {tensor}, found {ref.type}")
        if len(self.alignments.get_values()) != len(self.inputs):
            raise VerifyException(
                f"expected an alignment for each of {len(self.inputs)} inputs, found "
                f"{len(self.alignments.get_values())}"
            )
        verify_positions(self.zeroed, len(self.outputs))
        for ref in self.zeroed_refs:
            for use in ref.uses:
                if not isinstance(use.operation, AtomicAddOpBase):
                    raise VerifyException(
                        f"expected a zeroed output that atomic adds alone use, found "
                        f"%{ref.name_hint}, which '{use.operation.name}' uses"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOpBase:
        name = parser.parse_symbol_name()
        arguments: list[Parser.Argument] = []
        operands: list[UnresolvedOperand] = []
        alignments: list[int] = []
        zeroed: list[int] = []

        def memref() -> None:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation(":")
            arguments.append(argument.resolve(parser.parse_type()))

        def bound() -> None:
            memref()
            aligned = parser.parse_optional_keyword("align")
            alignments.append(parser.parse_integer() if aligned else DEFAULT_ALIGNMENT)
            parser.parse_punctuation("=")
            operands.append(parser.parse_unresolved_operand())

        def output() -> None:
            memref()
            if parser.parse_optional_keyword("zeroed"):
                zeroed.append(len(arguments) - 1 - len(operands))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, bound)
        inputs = [
            parser.resolve_operand(operand, tensor_of(argument.type))
            for operand, argument in zip(operands, arguments, strict=True)
        ]
        parser.parse_punctuation("->")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, output)
        schedule = None
        if parser.parse_optional_keyword("schedule"):
            schedule = parser.parse_str_literal()
        region = parse_isolated_region(parser, arguments)
        op = cls(name.data, inputs, region, alignments, schedule, zeroed)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        forget_outer_names(printer)
        printer.print_string(" ")
        printer.print_symbol_name(self.name_)

        def memref(ref: BlockArgument) -> None:
            printer.print_ssa_value(ref)
            printer.print_string(": ")
            printer.print_attribute(ref.type)

        def bound(ref: BlockArgument) -> None:
            memref(ref)
            if (alignment := self.alignment(ref)) != DEFAULT_ALIGNMENT:
                printer.print_string(f" align {alignment}")
            printer.print_string(" = ")
            printer.print_ssa_value(self.inputs[ref.index])

        zeroed = self.zeroed_refs

        def output(ref: BlockArgument) -> None:
            memref(ref)
            if ref in zeroed:
                printer.print_string(" zeroed")

        with printer.in_parens():
            printer.print_list(self.input_refs, bound)
        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(self.output_refs, output)
        if self.schedule is not None:
            print_schedule(printer, self.schedule.data)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_op_attributes(self.attributes)
