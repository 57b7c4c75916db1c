"""
Control flow of the host program, on buffers.

```
%a, %b = host.for %i in 512 carry (%h = %h0, %next = %spare) : (memref<8xf32>, memref<8xf32>) {
  %x_t = host.select %x[%i] : memref<512x8xf32> -> memref<8xf32>
  host.launch @cell(%h, %x_t) -> (%next)
  host.yield %next, %h
}
host.if %p : memref<i1> {
  host.launch @f(%x) -> (%y)
} else {
  host.launch @g(%x) -> (%y)
}
%c, %d = host.while carry (%v = %v0, %w = %spare) : (memref<4xf32>, memref<4xf32>) {
  host.launch @more(%v) -> (%flag)
  host.yield %flag
} do (%s, %t) {
  host.launch @step(%s) -> (%t)
  host.yield %t, %s
}
```

Loops carry buffers, not their contents: what a body yields, in another order, are the buffers that
it was given, so that two of them swap and nothing is copied. A condition is a byte of a buffer,
which the host waits for and reads each time that it is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import (
    I64,
    IndexType,
    IntegerAttr,
    MemRefType,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.flow_syntax import (
    parse_carried,
    parse_while,
    print_body,
    print_carried,
    print_if,
    print_while,
)
from dlc.dialects.host_order import Carrying, Contents, Ordered, PartOp
from dlc.dialects.kernel_memory import element_bytes, memref_type
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of, strides_of
from dlc.dialects.sized_types import sized_memref
from dlc.ir.sizes import ceildiv, divides


@irdl_op_definition
class SelectOp(PartOp):
    """`%x_t = host.select %x[%i] : memref<512x8xf32> -> memref<8xf32>`: one element."""

    name = "host.select"
    memory = operand_def(MemRefType)
    index = operand_def(IndexType)
    result = result_def(MemRefType)
    assembly_format = "$memory `[` $index `]` attr-dict `:` type($memory) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, memory: SSAValue, index: SSAValue, type: Attribute) -> None:
        super().__init__(operands=[memory, index], result_types=[type])

    @property
    def byte_range(self) -> None:
        return None

    @property
    def step(self) -> int:
        """The bytes from one element to the next."""
        assert isinstance(self.memory.type, MemRefType)
        size = element_bytes(self.memory.type.element_type)
        return strides_of(self.memory.type)[0] * size

    def verify_(self) -> None:
        whole, part = self.memory.type, self.result.type
        assert isinstance(whole, MemRefType)
        assert isinstance(part, MemRefType)
        if (
            shape_of(part) != shape_of(whole)[1:]
            or strides_of(part) != strides_of(whole)[1:]
            or part.element_type != whole.element_type
            or not shape_of(whole)
        ):
            raise VerifyException(f"expected an element of {whole}, found {part}")
        loop = self.index.owner.parent_op() if isinstance(self.index, BlockArgument) else None
        if not isinstance(loop, ForOp) or shape_of(whole)[0] != loop.trips:
            raise VerifyException(
                f"expected the counter of a host.for of {shape_of(whole)[0]} turns as the index"
            )


def stack_type(tensor: TensorType) -> MemRefType:
    """
    How tensors lie that are stacked along a new first dimension: each begins where kernels expect
    their outputs to begin.
    """
    element, shape = tensor.element_type, shape_of(tensor)
    size = element_bytes(element)
    together = DEFAULT_ALIGNMENT // size
    if divides(together, prod(shape[1:])):
        return memref_type(element, shape)
    padded = ceildiv(prod(shape[1:]), together) * together
    return sized_memref(element, shape, [padded, *strides_of(memref_type(element, shape[1:]))])


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`host.yield %next, %h`: the buffers that a loop goes on with; or its condition."""

    name = "host.yield"
    buffers = var_operand_def(MemRefType)
    assembly_format = "($buffers^ `:` type($buffers))? attr-dict"
    traits = traits_def(Pure(), IsTerminator())

    def __init__(self, buffers: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(buffers)])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), LoopOp):
            raise VerifyException("expected to stand in a host.for or host.while")


class LoopOp(Carrying, ABC):
    """Base of the loops."""

    inits = var_operand_def(MemRefType)
    last = var_result_def(MemRefType)

    @property
    def carried(self) -> Sequence[SSAValue]:
        return self.inits

    @property
    @abstractmethod
    def names(self) -> Sequence[Sequence[SSAValue]]:
        """What each body calls the carried buffers."""

    @property
    def next(self) -> Sequence[SSAValue]:
        """The buffers that the last body goes on with."""
        return _yielded(self.regions[-1])

    def buffers_of(self, name: SSAValue) -> Sequence[SSAValue]:
        """A turn hands each on under the name that is yielded in its place."""
        (place,) = {v.index(name) for v in map(list, (*self.names, self.last)) if name in v}
        found: list[int] = []
        own, given = list(self.names[-1]), self.next
        while place not in found:
            found.append(place)
            place = own.index(given[place])
        return [self.inits[n] for n in found]

    @abstractmethod
    def turn(self, state: Contents) -> None:
        """The effects of one turn."""

    @property
    def turns(self) -> bool:
        """True if there is one turn at least."""
        return False

    def leave(self, state: Contents, held: Sequence[int]) -> None:
        """The effects after the last turn, with contents in the carried buffers `held`."""

    def verify_carried(self) -> None:
        """Checks the types of what is carried, and the order of the program."""
        types = [v.type for v in self.inits]
        for found in (*self.names, self.last, self.next):
            if [v.type for v in found] != types:
                raise VerifyException(
                    f"expected to carry {', '.join(map(str, types))}, found "
                    f"{', '.join(str(v.type) for v in found)}"
                )
        if {*self.next} != {*self.names[-1]}:
            raise VerifyException("expected a body that yields each buffer that it carries, once")
        self.verify_program()

    def take_effect(self, state: Contents) -> None:
        held = [n for n, value in enumerate(self.inits) if value in state.holds]
        state.hand_over(self, self.inits)
        after: dict[SSAValue, Operation] = {}
        for _ in range(2):  # what the first turn leaves is what the next one finds
            before = {**state.holds}
            for names in self.names:
                state.holds |= {names[n]: self for n in held}
            self.turn(state)
            for n in held:
                state.read(self, self.next[n])
            after, state.holds = state.holds, {v: w for v, w in before.items() if v in state.holds}
        if self.turns:
            state.holds = after
        self.leave(state, held)
        state.holds |= {self.last[n]: self for n in held}


def _yielded(region: Region) -> Sequence[SSAValue]:
    last = region.block.last_op
    if not isinstance(last, YieldOp):
        raise VerifyException("expected a body that ends in host.yield")
    return last.operands


@irdl_op_definition
class ForOp(LoopOp):
    """`%r… = host.for %i in 512 carry (%h = %h0, …) : (memref…) { … host.yield … }`."""

    name = "host.for"
    count = prop_def(IntegerAttr[I64])
    body = region_def("single_block")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, count: int, inits: Sequence[SSAValue], body: Region) -> None:
        super().__init__(
            operands=[list(inits)],
            result_types=[[v.type for v in inits]],
            regions=[body],
            properties={"count": IntegerAttr(count, i64)},
        )

    @property
    def trips(self) -> int:
        return self.count.value.data

    @property
    def turns(self) -> bool:
        return self.trips > 0

    @property
    def counter(self) -> SSAValue:
        return self.body.block.args[0]

    @property
    def names(self) -> Sequence[Sequence[SSAValue]]:
        return [self.body.block.args[1:]]

    def verify_(self) -> None:
        if self.trips < 0:
            raise VerifyException(f"expected a count of at least 0, found {self.trips}")
        if not self.body.block.args or self.counter.type != IndexType():
            raise VerifyException("expected a body whose first argument is the counter")
        self.verify_carried()

    def turn(self, state: Contents) -> None:
        state.walk(self.body.block)
        for op in self.body.block.ops:
            # All elements are written, one in each turn.
            if isinstance(op, SelectOp) and op.index is self.counter and op.result in state.holds:
                state.holds.setdefault(op.memory, self)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        counter = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_keyword("in")
        count = parser.parse_integer()
        names, inits = parse_carried(parser)
        return cls.build(
            operands=[inits],
            result_types=[[v.type for v in inits]],
            regions=[parser.parse_region([counter, *names])],
            properties={"count": IntegerAttr(count, i64)},
            attributes=parser.parse_optional_attr_dict(),
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.counter)
        printer.print_string(f" in {self.trips}")
        print_carried(printer, self.names[0], self.inits)
        print_body(printer, self.body)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class WhileOp(LoopOp):
    """`%r… = host.while carry (…) : (memref…) { … host.yield %flag } do (…) { … host.yield … }`."""

    name = "host.while"
    before = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, inits: Sequence[SSAValue], before: Region, body: Region) -> None:
        super().__init__(
            operands=[list(inits)],
            result_types=[[v.type for v in inits]],
            regions=[before, body],
        )

    @property
    def flag(self) -> SSAValue:
        """The condition."""
        return _yielded(self.before)[0]

    @property
    def names(self) -> Sequence[Sequence[SSAValue]]:
        return [self.before.block.args, self.body.block.args]

    def verify_(self) -> None:
        _verify_flag(_yielded(self.before))
        self.verify_carried()

    def turn(self, state: Contents) -> None:
        state.walk(self.before.block)
        state.read(self, self.flag)
        state.walk(self.body.block)

    def leave(self, state: Contents, held: Sequence[int]) -> None:
        state.holds |= {self.names[0][n]: self for n in held}
        state.walk(self.before.block)

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        new = cls(*parse_while(parser))
        new.attributes |= parser.parse_optional_attr_dict()
        return new

    def print(self, printer: Printer) -> None:
        print_while(printer, self)


@irdl_op_definition
class IfOp(Ordered):
    """`host.if %p : memref<i1> { … } else { … }`."""

    name = "host.if"
    flag = operand_def(MemRefType)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect(), NoTerminator())

    def __init__(self, flag: SSAValue, then: Region, otherwise: Region) -> None:
        super().__init__(operands=[flag], regions=[then, otherwise])

    def verify_(self) -> None:
        _verify_flag([self.flag])
        self.verify_program()

    def take_effect(self, state: Contents) -> None:
        state.read(self, self.flag)
        blocks = (self.then.block, self.otherwise.block)
        state.either([lambda inner, block=block: inner.walk(block) for block in blocks])

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        flag = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(flag, parser.parse_type())
        then = parser.parse_region()
        parser.parse_keyword("else")
        otherwise = parser.parse_region()
        for region in (then, otherwise):
            if not region.blocks:
                region.add_block(Block())
        new = cls(operand, then, otherwise)
        new.attributes |= parser.parse_optional_attr_dict()
        return new

    def print(self, printer: Printer) -> None:
        print_if(printer, self)


def _verify_flag(values: Sequence[SSAValue]) -> None:
    if [v.type for v in values] != [memref_type(i1, ())]:
        found = ", ".join(str(v.type) for v in values)
        raise VerifyException(f"expected a condition in memref<i1>, found {found}")


BODIES = (ForOp, WhileOp, IfOp)
"""The operations that have bodies."""


def operations_of(block: Block) -> Iterator[Operation]:
    """The operations of a host program in the order of the text, those of bodies included."""
    for op in block.ops:
        yield op
        if isinstance(op, BODIES):
            for region in op.regions:
                yield from operations_of(region.block)
