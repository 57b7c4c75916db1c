"""
The `flow` dialect: control flow of a program on tensors, the same in Torch, Tensor, Loop, Tile IR.

```
%h, %y = flow.for 512 carry (%c = %h0) scan (%x_t = %x)
    : (tensor<8xf32>), (tensor<512x8xf32>) -> (tensor<8xf32>), (tensor<512x8xf32>) {
  %n = …
  flow.yield %n, %n : tensor<8xf32>, tensor<8xf32>
}
%r = flow.if %p : tensor<i1> -> (tensor<4xf32>) {
  flow.yield %a : tensor<4xf32>
} else {
  flow.yield %b : tensor<4xf32>
}
%i, %v = flow.while carry (%n = %i0, %s = %v0) : (tensor<i64>, tensor<4xf32>) {
  %more = …
  flow.yield %more : tensor<i1>
} do (%n, %s) {
  flow.yield %m, %t : tensor<i64>, tensor<4xf32>
}
```

Bodies may use all values that are defined before; they compute and have no effects. What they do is
as in `@main`: passes work in each block. `plan-buffers` gives them memory, as `host.for`, `host.if`
and `host.while` (`dlc/dialects/host_flow.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, IntegerAttr, TensorType, i1
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.flow_syntax import (
    parse_bound,
    parse_types,
    parse_while,
    print_body,
    print_bound,
    print_if,
    print_types,
    print_while,
)
from dlc.dialects.layouts import shape_of
from dlc.dialects.size import SizeAttr, check_declared, number_attribute
from dlc.dialects.size_syntax import parse_size
from dlc.dialects.sized_types import sized_tensor
from dlc.ir.sizes import Size

FLAG = TensorType(i1, [])
"""The type of what is branched on."""


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`flow.yield %n, %y : tensor, tensor`: what a body gives."""

    name = "flow.yield"
    values = var_operand_def(TensorType)
    assembly_format = "($values^ `:` type($values))? attr-dict"
    traits = traits_def(Pure(), IsTerminator())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), ForOp | IfOp | WhileOp):
            raise VerifyException("expected to stand in a flow.for, flow.if or flow.while")


def yielded(region: Region) -> Sequence[SSAValue]:
    """What a body yields; VerifyException if it ends otherwise."""
    last = region.block.last_op
    if not isinstance(last, YieldOp):
        found = "nothing" if last is None else f"'{last.name}'"
        raise VerifyException(f"expected a body that ends in flow.yield, found {found}")
    return last.operands


def _expect(what: str, found: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    if list(found) != list(expected):
        texts = [", ".join(map(str, types)) or "none" for types in (expected, found)]
        raise VerifyException(f"expected {what} of types {texts[0]}, found {texts[1]}")


@irdl_op_definition
class ForOp(IRDLOperation):
    """
    `%last…, %all… = flow.for N carry (%c = %c0, …) scan (%x_t = %x, …) : … { … flow.yield … }`

    Runs its body N times, which is a number or a size. `%c` is `%c0` at first and then what the
    body yielded for it; `%x_t` is element t of `%x` along its first dimension, of which there are
    N. The body yields the next value of each `%c` and then elements of which the other results are
    made, along a new first dimension. `%last` is what was yielded last, `%c0` if N is 0.
    """

    name = "flow.for"
    count = prop_def(IntegerAttr[I64] | SizeAttr)
    inits = var_operand_def(TensorType)
    scanned = var_operand_def(TensorType)
    last = var_result_def(TensorType)
    stacked = var_result_def(TensorType)
    body = region_def("single_block")
    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        AttrSizedResultSegments(as_property=True),
    )
    traits = traits_def(Pure())

    def __init__(
        self, count: int, inits: Sequence[SSAValue], scanned: Sequence[SSAValue], body: Region
    ) -> None:
        pieces = yielded(body)[len(inits) :]
        super().__init__(
            operands=[list(inits), list(scanned)],
            result_types=[[v.type for v in inits], [stack_of(v.type, count) for v in pieces]],
            regions=[body],
            properties={"count": number_attribute(count)},
        )

    @property
    def trips(self) -> int:
        """N: a size where it is one, as extents of shapes are."""
        count = self.count
        return count.value.data if isinstance(count, IntegerAttr) else count.data  # pyright: ignore[reportReturnType]

    @property
    def carried(self) -> Sequence[SSAValue]:
        """What is carried, as the body has it."""
        return self.body.block.args[: len(self.inits)]

    @property
    def pieces(self) -> Sequence[SSAValue]:
        """The elements of what is scanned, as the body has them."""
        return self.body.block.args[len(self.inits) :]

    def verify_(self) -> None:
        if isinstance(self.trips, Size):
            check_declared(self, self.trips.names)
        elif self.trips < 0:
            raise VerifyException(f"expected a count of at least 0, found {self.trips}")
        for value in self.scanned:
            if shape_of(value)[:1] != (self.trips,):
                raise VerifyException(
                    f"expected to scan tensors of {self.trips} elements, found {value.type}"
                )
        carried = [v.type for v in self.inits]
        pieces = [piece_of(v.type) for v in self.scanned]
        _expect("arguments of the body", self.body.block.arg_types, [*carried, *pieces])
        given = [v.type for v in yielded(self.body)]
        _expect("carried values", given[: len(carried)], carried)
        _expect("last values", self.last.types, carried)
        stacks = [stack_of(type, self.trips) for type in given[len(carried) :]]
        _expect("stacked values", self.stacked.types, stacks)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        count = parse_size(parser)
        carried, inits = parse_bound(parser, "carry")
        pieces, scanned = parse_bound(parser, "scan")
        parser.parse_punctuation(":")
        types, sources = parse_types(parser), parse_types(parser, ",")
        parser.parse_punctuation("->")
        last, stacked = parse_types(parser), parse_types(parser, ",")
        arguments = [
            *(name.resolve(type) for name, type in zip(carried, types, strict=True)),
            *(name.resolve(piece_of(type)) for name, type in zip(pieces, sources, strict=True)),
        ]
        at = parser.pos
        return cls.build(
            operands=[
                parser.resolve_operands(inits, types, at),
                parser.resolve_operands(scanned, sources, at),
            ],
            result_types=[last, stacked],
            regions=[parser.parse_region(arguments)],
            properties={"count": number_attribute(count)},
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.trips}")
        print_bound(printer, "carry", self.carried, self.inits)
        print_bound(printer, "scan", self.pieces, self.scanned)
        printer.print_string(" : ")
        print_types(printer, self.inits.types)
        printer.print_string(", ")
        print_types(printer, self.scanned.types)
        printer.print_string(" -> ")
        print_types(printer, self.last.types)
        printer.print_string(", ")
        print_types(printer, self.stacked.types)
        print_body(printer, self.body)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class IfOp(IRDLOperation):
    """`%r… = flow.if %p : tensor<i1> -> (tensor…) { … } else { … }`."""

    name = "flow.if"
    flag = operand_def(TensorType)
    outputs = var_result_def(TensorType)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, flag: SSAValue, then: Region, otherwise: Region) -> None:
        types = [v.type for v in yielded(then)]
        super().__init__(operands=[flag], result_types=[types], regions=[then, otherwise])

    def verify_(self) -> None:
        _expect("a condition", [self.flag.type], [FLAG])
        for region in (self.then, self.otherwise):
            _expect("arguments of a branch", region.block.arg_types, [])
            _expect("values of a branch", [v.type for v in yielded(region)], self.outputs.types)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        flag = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_punctuation("->")
        types = parse_types(parser)
        then = parser.parse_region()
        parser.parse_keyword("else")
        return cls.build(
            operands=[parser.resolve_operand(flag, type)],
            result_types=[types],
            regions=[then, parser.parse_region()],
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        print_if(printer, self, self.outputs.types)


@irdl_op_definition
class WhileOp(IRDLOperation):
    """
    `%last… = flow.while carry (%c = %c0, …) : (tensor…) { … } do (%c) { … flow.yield … }`

    While the first body gives true, the second one gives the next value of each `%c`.
    """

    name = "flow.while"
    inits = var_operand_def(TensorType)
    last = var_result_def(TensorType)
    before = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(self, inits: Sequence[SSAValue], before: Region, body: Region) -> None:
        super().__init__(
            operands=[list(inits)],
            result_types=[[v.type for v in inits]],
            regions=[before, body],
        )

    @property
    def flag(self) -> SSAValue:
        """The condition, in the first body."""
        return yielded(self.before)[0]

    def verify_(self) -> None:
        types = [v.type for v in self.inits]
        _expect("last values", self.last.types, types)
        for region in (self.before, self.body):
            _expect("arguments of a body", region.block.arg_types, types)
        _expect("a condition", [v.type for v in yielded(self.before)], [FLAG])
        _expect("carried values", [v.type for v in yielded(self.body)], types)

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        new = cls(*parse_while(parser))
        new.attributes |= parser.parse_optional_attr_dict()
        return new

    def print(self, printer: Printer) -> None:
        print_while(printer, self)


FLOW = (ForOp, IfOp, WhileOp)
"""The operations that have bodies."""


def stack_of(type: Attribute, count: int) -> TensorType:
    """The type of so many tensors along a new first dimension."""
    assert isinstance(type, TensorType)
    return sized_tensor(type.element_type, [count, *shape_of(type)])


def piece_of(type: Attribute) -> TensorType:
    """The type of an element of a tensor along its first dimension."""
    assert isinstance(type, TensorType)
    return sized_tensor(type.element_type, shape_of(type)[1:])


def blocks_of(block: Block) -> list[Block]:
    """A block of a program, and those of the control flow in it, outside first."""
    found = [block]
    for op in block.ops:
        if isinstance(op, FLOW):
            for region in op.regions:
                found += blocks_of(region.block)
    return found


def is_before_loop(op: Operation, reader: Operation) -> bool:
    """True if `reader` stands in the body of a loop, and `op` outside of it."""
    inside = reader
    while (around := inside.parent_op()) is not None and inside.parent is not op.parent:
        if isinstance(around, ForOp | WhileOp):
            return True
        inside = around
    return False


def place_in(op: Operation, block: Block) -> Operation:
    """The operation of `block` that is `op` or has it inside."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


Flow = Dialect("flow", [ForOp, IfOp, WhileOp, YieldOp], [])
