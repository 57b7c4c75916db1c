"""
The part of the `tile` dialect that copies slabs of inputs into shared memory: stages and rings.

A *stage* is a slab, copied where it stands. A *ring* holds some of the slabs, one for each chunk
of a loop, that a loop works through; it is filled ahead of its use.

```
%ring = tile.ring async %A(%n in 128)[%bi * 128, %n * 16] [128, 16] : memref<100x2048xf32>
            -> memref<3x128x16xf32, #tile.shared>
%acc = tile.reduce add serial(%ko in 128) -> f32 {
  tile.fill %ring[%ko]
  %slot = tile.acquire %ring[%ko] : memref<3x128x16xf32, #tile.shared>
              -> memref<128x16xf32, #tile.shared>
  …
  tile.release %ring[%ko]
```

Fill, acquire and release of a chunk happen in this order, and a release before the next fill of the
same slot; this order is the whole contract. What keeps it is decided by `materialize-tiles`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import inf

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import (
    HasParent,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import IndexedOp, index_parts, parse_index, parse_memref_type
from dlc.dialects.index_syntax import print_subscripts
from dlc.dialects.kernel_memory import element_bytes, memref_type
from dlc.dialects.layouts import verify_layout
from dlc.ir.expr import Expr

ASYNC, TMA = "async", "tma"
"""How a ring is filled: by cp.async, or by the tensor memory accelerator."""


@irdl_attr_definition
class SharedAttr(ParametrizedAttribute):
    """`#tile.shared`: memory shared by the threads of a block."""

    name = "tile.shared"


class SlabOpBase(IndexedOp, ABC):
    """Base of operations that name a slab: where it begins in `source`, and its sizes."""

    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    sizes = prop_def(DenseArrayBase.constr(i64))

    @property
    def slab_sizes(self) -> tuple[int, ...]:
        """The sizes of the slab, one for each dimension of the source."""
        return tuple(int(n) for n in self.sizes.get_values())

    @property
    def source_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.source.type, MemRefType)
        return self.source.type

    def verify_slab(self) -> None:
        self.verify_index(self.source_type.get_num_dims(), self.source_type)
        if self.conditions is not None:
            raise VerifyException("expected no conditions: elements beyond the source are 0")
        sizes = list(self.slab_sizes)
        if len(sizes) != self.source_type.get_num_dims() or any(n < 1 for n in sizes):
            raise VerifyException(
                f"expected a positive size for each dimension of {self.source_type}, found {sizes}"
            )

    def print_slab(self, printer: Printer) -> None:
        print_subscripts(printer, self.map.data, self.indices)
        printer.print_string(f" [{', '.join(str(n) for n in self.slab_sizes)}]")


def _slab_properties(base: Sequence[Expr], sizes: Sequence[int]):
    """The index operands and the properties of an operation that names a slab."""
    indices, map, _ = index_parts(base, ())
    return indices, {"map": map, "sizes": DenseArrayBase.from_list(i64, list(sizes))}


def _parse_slab(parser: Parser):
    """Parses `[expr, …] [size, …]`: the index operands and the properties."""
    indices, map, conditions = parse_index(parser, subscripts=True)
    sizes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    sizes = DenseArrayBase.from_list(i64, sizes)
    return indices, {"map": map, "conditions": conditions, "sizes": sizes}


def slab_type(source: MemRefType[Attribute], sizes: Sequence[int]) -> MemRefType[Attribute]:
    """The type of a staged slab: sizes of 1 are dropped."""
    shape = tuple(n for n in sizes if n != 1)
    return memref_type(source.element_type, shape, space=SharedAttr())


def verify_buffer(found: Attribute, expected: MemRefType[Attribute], what: str) -> None:
    """Checks a buffer's type; it may have any layout of shared memory."""
    assert isinstance(found, MemRefType)
    plain = memref_type(found.element_type, found.get_shape(), space=found.memory_space)
    if plain != expected:
        raise VerifyException(f"expected {what} of type {expected}, found {found}")
    verify_layout(found)


@irdl_op_definition
class StageOp(SlabOpBase):
    """
    `%s = tile.stage %x[expr, …] [4, 1, 8] : memref -> memref<4x8xf32, #tile.shared>`

    A copy of the slab of `%x` that begins at the subscripts and has the given sizes, made together
    by all threads of the block. Dimensions of size 1 are dropped. Elements beyond `%x` are 0.
    """

    name = "tile.stage"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    result = result_def(MemRefType)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, source: SSAValue, base: Sequence[Expr], sizes: Sequence[int]) -> None:
        indices, properties = _slab_properties(base, sizes)
        assert isinstance(source.type, MemRefType)
        super().__init__(
            operands=[source, indices],
            properties=properties,
            result_types=[slab_type(source.type, sizes)],
        )

    def verify_(self) -> None:
        self.verify_slab()
        verify_buffer(self.result.type, slab_type(self.source_type, self.slab_sizes), "a result")

    @classmethod
    def parse(cls, parser: Parser) -> StageOp:
        source = parser.parse_unresolved_operand()
        indices, properties = _parse_slab(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_memref_type(parser)
        parser.parse_punctuation("->")
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            operands=[parser.resolve_operand(source, type), indices],
            properties=properties,
            attributes=attributes,
            result_types=[parse_memref_type(parser)],
        )
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        self.print_slab(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class SlabOp(SlabOpBase):
    """`tile.slab %x[expr, …] [4, 1, 8]`: the slab of a ring's chunk; printed with its ring."""

    name = "tile.slab"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(RingOp), MemoryReadEffect()))

    def __init__(self, source: SSAValue, base: Sequence[Expr], sizes: Sequence[int]) -> None:
        indices, properties = _slab_properties(base, sizes)
        super().__init__(operands=[source, indices], properties=properties)

    def verify_(self) -> None:
        self.verify_slab()


@irdl_op_definition
class RingOp(IRDLOperation):
    """
    `%r = tile.ring (async | tma)? %x(%n in 8)[expr, …] [4, 8] : memref -> memref<3x4x8xf32, …>`

    A ring of slots in shared memory, as many as the result's first dimension says, for chunks 0
    up to 8 of `%x`; the expressions say where the slab of chunk `%n` begins.
    """

    name = "tile.ring"
    count = prop_def(IntegerAttr.constr(i64))
    kind = opt_prop_def(StringAttr)
    body = region_def("single_block")
    result = result_def(MemRefType)
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, count: int, body: Region, depth: int, kind: str | None = None) -> None:
        slab = body.block.last_op
        assert isinstance(slab, SlabOp)
        super().__init__(
            regions=[body],
            properties={
                "count": IntegerAttr(count, i64),
                "kind": None if kind is None else StringAttr(kind),
            },
            result_types=[ring_type(slab, depth)],
        )

    @property
    def slab(self) -> SlabOp:
        """Which part of the source a chunk is."""
        slab = self.body.block.last_op
        assert isinstance(slab, SlabOp)
        return slab

    @property
    def chunk(self) -> BlockArgument:
        """The number of a chunk, as the slab's subscripts mention it."""
        return self.body.block.args[0]

    @property
    def axes(self) -> tuple[BlockArgument, ...]:
        return (self.chunk,)

    @property
    def chunks(self) -> int:
        return self.count.value.data

    @property
    def ring_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.result.type, MemRefType)
        return self.result.type

    @property
    def depth(self) -> int:
        """The number of slots."""
        return self.ring_type.get_shape()[0]

    @property
    def element_bytes(self) -> int:
        return element_bytes(self.ring_type.element_type)

    def set_layout(self, layout: NoneAttr | MemRefLayoutAttr) -> None:
        """Gives the ring another layout, and its acquired slots the rest of it."""
        type = self.ring_type
        type = memref_type(type.element_type, type.get_shape(), layout, type.memory_space)
        result = Rewriter.replace_value_with_new_type(self.result, type)
        for use in list(result.uses):
            if isinstance(use.operation, AcquireOp):
                slot = use.operation.result
                Rewriter.replace_value_with_new_type(slot, slot_type(type))

    @property
    def fill_kind(self) -> str | None:
        """`async`, `tma`, or None for copies by the threads themselves."""
        return None if self.kind is None else self.kind.data

    def axis_range(self, axis: SSAValue) -> tuple[float, float]:
        """Inclusive bounds of the chunk number, for `dlc.ir.expr.range_of`."""
        return 0, max(self.chunks - 1, 0)

    def verify_(self) -> None:
        if len(self.body.block.args) != 1 or not isinstance(self.chunk.type, IndexType):
            raise VerifyException("expected one argument of type index, the chunk's number")
        if [type(op) for op in self.body.block.ops] != [SlabOp]:
            raise VerifyException("expected a body that is one tile.slab")
        if self.chunks < 1:
            raise VerifyException(f"expected at least one chunk, found {self.chunks}")
        if self.fill_kind not in (None, ASYNC, TMA):
            raise VerifyException(f"expected the kind {ASYNC} or {TMA}, found {self.fill_kind}")
        if not self.ring_type.get_shape() or self.depth < 1:
            raise VerifyException(f"expected a number of slots in front, found {self.ring_type}")
        verify_buffer(self.result.type, ring_type(self.slab, self.depth), "a result")
        verify_layout(slot_type(self.ring_type))

    @classmethod
    def parse(cls, parser: Parser) -> RingOp:
        kind = parser.parse_optional_keyword_in((ASYNC, TMA))
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation("(")
        chunk = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_keyword("in")
        count = parser.parse_integer()
        parser.parse_punctuation(")")
        region = Region(Block(arg_types=[IndexType()]))
        # The subscripts stand outside of a region in the text, and yet name its argument.
        before = dict(parser.ssa_values)
        parser.ssa_values[chunk.name.text[1:]] = (region.block.args[0],)
        region.block.args[0].name_hint = chunk.name.text[1:]
        indices, properties = _parse_slab(parser)
        parser.ssa_values = before
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_memref_type(parser)
        parser.parse_punctuation("->")
        slab = SlabOp.__new__(SlabOp)
        IRDLOperation.__init__(
            slab, operands=[parser.resolve_operand(source, type), indices], properties=properties
        )
        region.block.add_op(slab)
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            regions=[region],
            properties={
                "count": IntegerAttr(count, i64),
                "kind": None if kind is None else StringAttr(kind),
            },
            attributes=attributes,
            result_types=[parse_memref_type(parser)],
        )
        return op

    def print(self, printer: Printer) -> None:
        if self.kind is not None:
            printer.print_string(f" {self.kind.data}")
        printer.print_string(" ")
        printer.print_ssa_value(self.slab.source)
        printer.enter_scope()
        with printer.in_parens():
            printer.print_ssa_value(self.chunk)
            printer.print_string(f" in {self.chunks}")
        self.slab.print_slab(printer)
        printer.exit_scope()
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.slab.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


def ring_type(slab: SlabOp, depth: int) -> MemRefType[Attribute]:
    """The type of a ring without padding: its slots, then the slab."""
    type = slab_type(slab.source_type, slab.slab_sizes)
    return memref_type(type.element_type, (depth, *type.get_shape()), space=SharedAttr())


def slot_type(ring: MemRefType[Attribute]) -> MemRefType[Attribute]:
    """The type of one slot of a ring; a layout goes on without the ring's own stride."""
    layout = ring.layout
    if isinstance(layout, StridedLayoutAttr):
        strides = list(layout.strides)[1:]
        layout = StridedLayoutAttr(strides) if strides else NoneAttr()
    return memref_type(ring.element_type, ring.get_shape()[1:], layout, ring.memory_space)


class ChunkOp(IndexedOp, ABC):
    """Base of operations on one chunk of a ring: `op %ring[expr]`."""

    ring = operand_def(MemRefType)
    indices = var_operand_def(IndexType())

    def __init__(self, ring: SSAValue, chunk: Expr | SSAValue | int) -> None:
        indices, map, _ = index_parts([Expr.of(chunk)], ())
        super().__init__(operands=[ring, indices], properties={"map": map})

    @property
    def source(self) -> RingOp:
        """The ring."""
        assert isinstance(self.ring.owner, RingOp)
        return self.ring.owner

    @property
    def chunk(self) -> Expr:
        """The number of the chunk."""
        return self.subscripts[0]

    @property
    def chunk_limit(self) -> float:
        """The first number that the chunk cannot have."""
        return self.source.chunks

    def verify_(self) -> None:
        if not isinstance(self.ring.owner, RingOp):
            raise VerifyException("expected the result of a tile.ring")
        self.verify_index(1, "a chunk")
        if self.conditions is not None:
            raise VerifyException("expected no conditions")
        low, high = self.chunk.range
        if low < 0 or high >= self.chunk_limit:
            raise VerifyException(
                f"expected a chunk from 0 up to {self.chunk_limit:.0f}, found one that can be "
                f"{low if low < 0 else high:.0f}"
            )

    @classmethod
    def parse(cls, parser: Parser):
        ring = parser.parse_unresolved_operand()
        indices, map, conditions = parse_index(parser, subscripts=True)
        attributes = parser.parse_optional_attr_dict()
        types = _parse_types(parser) if cls is AcquireOp else ()
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            operands=[_resolve_ring(parser, ring, types), indices],
            properties={"map": map, "conditions": conditions},
            attributes=attributes,
            result_types=list(types[1:]),
        )
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.ring)
        print_subscripts(printer, self.map.data, self.indices)
        printer.print_op_attributes(self.attributes)
        if self.results:
            printer.print_string(" : ")
            printer.print_attribute(self.ring.type)
            printer.print_string(" -> ")
            printer.print_attribute(self.results[0].type)


def _parse_types(parser: Parser) -> tuple[MemRefType, MemRefType]:
    parser.parse_punctuation(":")
    ring = parse_memref_type(parser)
    parser.parse_punctuation("->")
    return ring, parse_memref_type(parser)


def _resolve_ring(parser: Parser, ring, types: Sequence[Attribute]) -> SSAValue:
    """The ring that is named; without types in the text it must have been defined before."""
    if types:
        return parser.resolve_operand(ring, types[0])
    known = parser.ssa_values.get(ring.operand_name)
    if known is None:
        parser.raise_error(f"expected a ring that is defined above, found %{ring.operand_name}")
    return known[0]


@irdl_op_definition
class FillOp(ChunkOp):
    """`tile.fill %ring[expr]`: requests a chunk; nothing where the ring has not so many."""

    name = "tile.fill"
    ring = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    traits = traits_def(MemoryWriteEffect())

    @property
    def chunk_limit(self) -> float:
        return inf


@irdl_op_definition
class AcquireOp(ChunkOp):
    """`%s = tile.acquire %ring[expr] : ring -> slot`: the chunk's slot, once it is filled."""

    name = "tile.acquire"
    ring = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    result = result_def(MemRefType)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, ring: SSAValue, chunk: Expr | SSAValue | int) -> None:
        indices, map, _ = index_parts([Expr.of(chunk)], ())
        assert isinstance(ring.type, MemRefType)
        IRDLOperation.__init__(
            self,
            operands=[ring, indices],
            properties={"map": map},
            result_types=[slot_type(ring.type)],
        )

    def verify_(self) -> None:
        super().verify_()
        expected = slot_type(self.source.ring_type)
        if self.result.type != expected:
            raise VerifyException(f"expected a slot of type {expected}, found {self.result.type}")


@irdl_op_definition
class ReleaseOp(ChunkOp):
    """`tile.release %ring[expr]`: this thread has read the chunk's slot for the last time."""

    name = "tile.release"
    ring = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    traits = traits_def(MemoryWriteEffect())
