"""
The part of the `tile` dialect that fetches slabs of inputs ahead of their use: rings.

A *ring* holds in shared memory some of the slabs, one for each chunk of a loop, that the loop works
through.

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
same slot; this order is the whole contract. What keeps it is decided by `lower-stages` and
`place-barriers`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import inf

from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefLayoutAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
)
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
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

from dlc.dialects.axes import new_body
from dlc.dialects.directives import At, parse_extent, sizes_in, sizes_map
from dlc.dialects.effects import AllocatesResult
from dlc.dialects.index_syntax import parse_at, print_subscripts
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_memory import element_bytes, memref_type
from dlc.dialects.layouts import shape_of, verify_layout
from dlc.dialects.register_counts import set_obstacle
from dlc.dialects.size_index import size_expr
from dlc.dialects.sized_types import SizesAttr
from dlc.dialects.staging import SharedAttr, SlabOpBase, slab_type, steps_attr, verify_buffer
from dlc.dialects.type_directives import KnownRef, MemRef, parse_memref_type
from dlc.ir.attributes import i64_array
from dlc.ir.bounds import bounds, most
from dlc.ir.expr import Expr
from dlc.ir.sizes import NeedsNumber

PRODUCER = "producer"
"""The attribute of a ring of TMA whose chunks a warpgroup of its own requests."""
REGISTERS = "registers"
"""Beside it: the registers that a thread of that warpgroup keeps."""
MULTICAST = "multicast"
"""Of a ring of TMA that several blocks of a cluster hold alike: how many blocks, and how far their
numbers are apart."""
ASYNC, TMA = "async", "tma"
"""How a ring is filled: by cp.async, or by the tensor memory accelerator."""


@irdl_op_definition
class SlabOp(SlabOpBase):
    """`tile.slab %x[expr, …] [4, 1, 8]`: the slab of a ring's chunk; printed with its ring."""

    name = "tile.slab"
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(RingOp), MemoryReadEffect()))

    def verify_(self) -> None:
        self.verify_slab()


@irdl_op_definition
class RingOp(IRDLOperation):
    """
    `%r = tile.ring (async | tma)? %x(%n in 8)[expr, …] [4, 8] : memref -> memref<3x4x8xf32, …>`

    A ring of slots in shared memory, as many as the result's first dimension says, for chunks 0
    up to 8 of `%x`; the expressions say where the slab of chunk `%n` begins, which may have a
    `step` as that of a stage has. With `{producer}`, a warpgroup that computes no points requests
    the chunks of a `tma` ring once slots are free; with `{producer, registers = 40}`, its threads
    keep so many registers, and the others share the rest. With `{multicast = array<i64: 2, 1>}`,
    two blocks of a cluster whose numbers differ by 1 hold the same slabs: each requests a part of
    the rows for both.
    """

    name = "tile.ring"
    count = prop_def(AffineMapAttr | SizesAttr)
    kind = opt_prop_def(StringAttr)
    body = region_def("single_block")
    result = result_def(MemRefType)
    traits = traits_def(RecursiveMemoryEffect(), AllocatesResult())

    def __init__(self, count: int, body: Region, depth: int, kind: str | None = None) -> None:
        slab = body.block.last_op
        assert isinstance(slab, SlabOp)
        super().__init__(
            regions=[body],
            properties={
                "count": sizes_map((count,)),
                "kind": None if kind is None else StringAttr(kind),
            },
            result_types=[ring_type(slab, depth)],
        )

    @property
    def slab(self) -> SlabOp:
        """The operation that says which part of the source a chunk is."""
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
        """The number of chunks. A size is used as an integer is, as `dlc.ir.sizes` says."""
        return sizes_in(self.count)[0]

    @property
    def size(self) -> Expr:
        """The number of chunks as an index expression of the kernel."""
        return size_expr(self.chunks, self)

    @property
    def most_chunks(self) -> float:
        """The largest number of chunks that there can be."""
        return most(self.size)

    @property
    def ring_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.result.type, MemRefType)
        return self.result.type

    @property
    def depth(self) -> int:
        """The number of slots."""
        return shape_of(self.ring_type)[0]

    @property
    def element_bytes(self) -> int:
        return element_bytes(self.ring_type.element_type)

    def set_layout(self, layout: NoneAttr | MemRefLayoutAttr) -> None:
        """Gives the ring another layout, and its acquired slots the rest of it."""
        type = self.ring_type
        type = memref_type(type.element_type, shape_of(type), layout, type.memory_space)
        result = Rewriter.replace_value_with_new_type(self.result, type)
        for use in list(result.uses):
            if isinstance(use.operation, AcquireOp):
                slot = use.operation.result
                Rewriter.replace_value_with_new_type(slot, slot_type(type))

    @property
    def has_producer(self) -> bool:
        """True if a warpgroup of its own, which computes no points, requests all chunks."""
        return PRODUCER in self.attributes

    @property
    def kept_registers(self) -> int:
        """Registers that a thread of that warpgroup keeps; 0 if none gives any up."""
        kept = self.attributes.get(REGISTERS)
        return kept.value.data if isinstance(kept, IntegerAttr) else 0

    @property
    def multicast(self) -> tuple[int, int]:
        """How many blocks of a cluster hold the same, and how far their numbers are apart."""
        found = self.attributes.get(MULTICAST)
        if not isinstance(found, DenseArrayBase):
            return 1, 1
        count, apart = map(int, found.get_values())
        return count, apart

    @property
    def fill_kind(self) -> str | None:
        """`async`, `tma`, or None for copies by the threads themselves."""
        return None if self.kind is None else self.kind.data

    def axis_range(self, axis: SSAValue) -> tuple[float, float]:
        """Inclusive bounds of the chunk number, for `dlc.ir.expr.range_of`."""
        return 0, max(self.most_chunks - 1, 0)

    def verify_(self) -> None:
        if len(self.body.block.args) != 1 or not isinstance(self.chunk.type, IndexType):
            raise VerifyException("expected one argument of type index, the chunk's number")
        if [type(op) for op in self.body.block.ops] != [SlabOp]:
            raise VerifyException("expected a body that is one tile.slab")
        counts, said = sizes_in(self.count), self.count.data
        if len(counts) != 1 or (isinstance(said, AffineMap) and len(said.results) != 1):
            raise VerifyException(f"expected a number of chunks that is an integer, found {said}")
        try:
            enough = self.most_chunks >= 1
        except NeedsNumber as error:
            raise VerifyException(f"expected sizes that the kernel names, found {error}") from error
        if not enough:
            raise VerifyException(f"expected at least one chunk, found {self.chunks}")
        if self.fill_kind not in (None, ASYNC, TMA):
            raise VerifyException(f"expected the kind {ASYNC} or {TMA}, found {self.fill_kind}")
        if self.has_producer and self.fill_kind != TMA:
            raise VerifyException(f"expected the kind {TMA} of a ring with a producer")
        if MULTICAST in self.attributes:
            self._verify_multicast()
        if REGISTERS in self.attributes and not self.has_producer:
            raise VerifyException("expected registers of a producer, which the ring has not")
        if REGISTERS in self.attributes and (obstacle := set_obstacle(self.kept_registers)):
            raise VerifyException(f"expected {obstacle}, found {self.attributes[REGISTERS]}")
        if not shape_of(self.ring_type) or self.depth < 1:
            raise VerifyException(f"expected a number of slots in front, found {self.ring_type}")
        verify_buffer(self.result.type, ring_type(self.slab, self.depth), "a result")
        verify_layout(slot_type(self.ring_type))

    def _verify_multicast(self) -> None:
        found = self.attributes[MULTICAST]
        numbers = found.get_values() if isinstance(found, DenseArrayBase) else ()
        if self.fill_kind != TMA or len(numbers) != 2 or numbers[0] < 2 or numbers[1] < 1:
            raise VerifyException(
                f"expected a ring of {TMA} that two blocks or more hold alike, and how far their "
                f"numbers are apart, found {found}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> RingOp:
        kind = parser.parse_optional_keyword_in((ASYNC, TMA))
        source = parser.parse_unresolved_operand()
        with parser.in_parens():
            argument = parser.parse_argument(expect_type=False)
            parser.parse_keyword("in")
            count = parse_extent(parser)
        named, map, conditions = parse_at(parser)
        sizes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        steps: list[int] = []
        if parser.parse_optional_keyword("step"):
            steps = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parse_memref_type(parser)
        parser.parse_punctuation("->")
        result_type = parse_memref_type(parser)
        body = new_body(1, [argument.name.text[1:]])
        chunk = body.block.args[0]  # what stands behind the brackets may name it
        indices = [
            chunk if i.operand_name == chunk.name_hint else parser.resolve_operand(i, IndexType())
            for i in named
        ]
        slab = SlabOp.build(
            operands=[parser.resolve_operand(source, source_type), indices],
            properties={
                "map": map,
                "conditions": conditions,
                "sizes": i64_array(tuple(sizes)),
                "steps": steps_attr(steps),
            },
        )
        body.block.add_op(slab)
        return cls.build(
            regions=[body],
            properties={
                "count": sizes_map((count,)),
                "kind": None if kind is None else StringAttr(kind),
            },
            attributes=attributes,
            result_types=[result_type],
        )

    def print(self, printer: Printer) -> None:
        slab = self.slab
        if self.kind is not None:
            printer.print_string(f" {self.kind.data}")
        printer.print_string(" ")
        printer.print_ssa_value(slab.source)
        printer.enter_scope()
        with printer.in_parens():
            printer.print_ssa_value(self.chunk)
            printer.print_string(" in ")
            printer.print_string(str(self.chunks))
        print_subscripts(printer, slab.map.data, slab.indices)
        printer.exit_scope()
        printer.print_string(f" {list(slab.slab_sizes)}")
        if slab.steps is not None:
            printer.print_string(f" step {list(slab.slab_steps)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(slab.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)


def ring_type(slab: SlabOp, depth: int) -> MemRefType[Attribute]:
    """The type of a ring without padding: its slots, then the slab."""
    type = slab_type(slab.source_type, slab.slab_sizes)
    return memref_type(type.element_type, (depth, *shape_of(type)), space=SharedAttr())


def slot_type(ring: MemRefType[Attribute]) -> MemRefType[Attribute]:
    """The type of one slot of a ring; a layout goes on without the ring's own stride."""
    layout = ring.layout
    if isinstance(layout, StridedLayoutAttr):
        strides = list(layout.strides)[1:]
        layout = StridedLayoutAttr(strides) if strides else NoneAttr()
    return memref_type(ring.element_type, shape_of(ring)[1:], layout, ring.memory_space)


class ChunkOp(IndexedOp, ABC):
    """Base of operations on one chunk of a ring: `op %ring[expr]`."""

    ring = operand_def(MemRefType)
    indices = var_operand_def(IndexType())

    custom_directives = (KnownRef, At)
    assembly_format = (
        "custom<KnownRef>($ring, type($ring)) `` custom<At>($indices, $map, $conditions) attr-dict"
    )

    def __init__(
        self,
        ring: SSAValue,
        chunk: Expr | SSAValue | int,
        result_types: Sequence[Attribute] = (),
    ) -> None:
        indices, map, _ = index_parts([Expr.of(chunk)], ())
        super().__init__(
            operands=[ring, indices], properties={"map": map}, result_types=result_types
        )

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
    def least_chunk(self) -> float:
        """The least number that the chunk can have."""
        return 0

    @property
    def chunk_limit(self) -> float:
        """The first number that the chunk cannot have."""
        return self.source.most_chunks

    def verify_(self) -> None:
        if not isinstance(self.ring.owner, RingOp):
            raise VerifyException("expected the result of a tile.ring")
        self.verify_index(1, "a chunk")
        if self.conditions is not None:
            raise VerifyException("expected no conditions")
        low, high = bounds(self.chunk)
        if low < self.least_chunk or high >= self.chunk_limit:
            raise VerifyException(
                f"expected a chunk from 0 up to {self.chunk_limit:.0f}, found one that can be "
                f"{low if low < self.least_chunk else high:.0f}"
            )


@irdl_op_definition
class FillOp(ChunkOp):
    """`tile.fill %ring[expr]`: requests a chunk; nothing where the ring has not so many."""

    name = "tile.fill"
    traits = traits_def(MemoryWriteEffect())

    @property
    def chunk_limit(self) -> float:
        return inf


@irdl_op_definition
class AcquireOp(ChunkOp):
    """`%s = tile.acquire %ring[expr] : ring -> slot`: the chunk's slot, once it is filled."""

    name = "tile.acquire"
    result = result_def(MemRefType)
    custom_directives = (At, MemRef)
    assembly_format = (
        "$ring `` custom<At>($indices, $map, $conditions) attr-dict"
        " `:` custom<MemRef>(type($ring)) `->` custom<MemRef>(type($result))"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, ring: SSAValue, chunk: Expr | SSAValue | int) -> None:
        assert isinstance(ring.type, MemRefType)
        super().__init__(ring, chunk, [slot_type(ring.type)])

    def verify_(self) -> None:
        super().verify_()
        expected = slot_type(self.source.ring_type)
        if self.result.type != expected:
            raise VerifyException(f"expected a slot of type {expected}, found {self.result.type}")


@irdl_op_definition
class ReleaseOp(ChunkOp):
    """
    `tile.release %ring[expr]`: this thread has read the chunk's slot for the last time; nothing
    where there is none before the first chunk.
    """

    name = "tile.release"
    traits = traits_def(MemoryWriteEffect())

    @property
    def least_chunk(self) -> float:
        return -inf
