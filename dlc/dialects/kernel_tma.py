"""
The tensor memory accelerator; mbarriers (`kernel_mbarriers`) say when it is done.

```
%A_map = kernel.tensor_map %A box [128, 16] : memref<100x2048xf32>
%A_ring = kernel.alloc_shared : memref<3x128x16xf32, #kernel.shared>
%full = kernel.alloc_mbarriers 3
…
kernel.mbarrier_expect_tx %full[%k mod 3], 8192
kernel.tma_load %A_map[%b * 128, %k * 16] -> %A_ring[%k mod 3, 0, 0], %full[%k mod 3] : …
kernel.mbarrier_wait %full[%k mod 3], parity (%k floordiv 3) mod 2
```

See the PTX ISA, "cp.async.bulk.tensor".
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    i64,
)
from xdsl.ir import Attribute, Block, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OperandVariable,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import Conditions, map_of
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_mbarriers import Index, MbarriersType, verify_barrier, verify_unconditional
from dlc.dialects.kernel_memory import element_bytes, is_shared
from dlc.dialects.layouts import PERIOD, WIDTHS, SwizzleAttr, shape_of
from dlc.dialects.places import parse_places, print_places
from dlc.dialects.type_directives import MemRef
from dlc.ir.bounds import bounds, within
from dlc.ir.elements import ELEMENTS, find_element
from dlc.ir.expr import Expr
from dlc.target import TENSOR_ALIGNMENT

MAX_RANK = 5
"""Dimensions of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)."""
MAX_BOX = 256
"""Elements of a box along a dimension (the same)."""


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """`!kernel.tensor_map`: what the tensor memory accelerator knows of a tensor."""

    name = "kernel.tensor_map"


@irdl_op_definition
class TensorMapOp(IRDLOperation):
    """
    `%A_map = kernel.tensor_map %A box [128, 16] (swizzle 64)? : memref<100x2048xf32>`

    An argument of the kernel as a tensor of the tensor memory accelerator, which copies boxes of
    this size; a parameter of the kernel that the launch makes. It stands in the kernel's body.
    Dimensions of extent 1 whose box is 1 are no dimensions of the map. A swizzle of 32, 64 or 128
    bytes is the length of a box's row in bytes: within every 128 bytes of shared memory, units of
    16 bytes trade places (PTX ISA, "Swizzling modes").
    """

    name = "kernel.tensor_map"
    ref = operand_def(MemRefType)
    box = prop_def(DenseArrayBase.constr(i64))
    swizzle = opt_prop_def(IntegerAttr.constr(i64))
    result = result_def(TensorMapType)
    custom_directives = (MemRef,)
    assembly_format = (
        "$ref `box` ` ` $box (`swizzle` $swizzle^)? attr-dict `:` custom<MemRef>(type($ref))"
    )
    traits = traits_def(Pure())

    def __init__(self, ref: SSAValue, box: Sequence[int], swizzle: int | None = None) -> None:
        super().__init__(
            operands=[ref],
            properties={
                "box": DenseArrayBase.from_list(i64, list(box)),
                "swizzle": None if swizzle is None else IntegerAttr(swizzle, i64),
            },
            result_types=[TensorMapType()],
        )

    @property
    def type(self) -> MemRefType:
        assert isinstance(self.ref.type, MemRefType)
        return self.ref.type

    @property
    def box_sizes(self) -> tuple[int, ...]:
        """The size of a box along each dimension of the memref, outermost first."""
        return tuple(int(n) for n in self.box.get_values())

    @property
    def box_bytes(self) -> int:
        """Bytes that a load writes and a barrier expects, also where the box leaves the tensor."""
        return prod(self.box_sizes) * element_bytes(self.type.element_type)

    @property
    def swizzle_bytes(self) -> int:
        """The swizzle in bytes; 0 for none."""
        return 0 if self.swizzle is None else self.swizzle.value.data

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the memref that the map has, outermost first."""
        return map_dims(shape_of(self.type), self.box_sizes)

    def verify_(self) -> None:
        block = self.ref.owner
        func = block.parent_op() if isinstance(block, Block) else None
        if func is None or (self.parent is not block and "lockstep" not in func.properties):
            raise VerifyException("expected an argument of the kernel in whose body the map stands")
        if len(self.box_sizes) != self.type.get_num_dims() or not self.box_sizes:
            raise VerifyException(
                f"expected a box size for each dimension of {self.type}, found "
                f"{list(self.box_sizes)}"
            )
        if obstacle := box_obstacle(self.type, self.box_sizes):
            raise VerifyException(obstacle)
        if self.swizzle is None:
            return
        row = self.box_sizes[self.dims[-1]] * element_bytes(self.type.element_type)
        if self.swizzle_bytes not in WIDTHS or self.swizzle_bytes != row:
            raise VerifyException(
                f"expected a swizzle of 32, 64 or 128 bytes, the length of a box's row, found "
                f"{self.swizzle_bytes} for a row of {row} bytes"
            )


def map_dims(shape: Sequence[int], box: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of a tensor map: those where the extent or the box is not 1, at least one."""
    dims = tuple(d for d, sizes in enumerate(zip(shape, box, strict=True)) if sizes != (1, 1))
    return dims or (len(shape) - 1,)


def box_obstacle(type: MemRefType[Attribute], box: Sequence[int]) -> str | None:
    """The reason why no box of these sizes can be copied from such a tensor; None if it can."""
    element, shape = type.element_type, shape_of(type)
    if find_element(element) is None:
        known = ", ".join(str(row.type) for row in ELEMENTS)
        return f"expected elements of one of the types {known}, found {element}"
    if 0 in shape:
        return f"expected no extent of 0, found {type}"
    if any(not 1 <= n <= MAX_BOX for n in box):
        return f"expected box sizes of 1 to {MAX_BOX}, found {list(box)}"
    dims = map_dims(shape, box)
    if len(dims) > MAX_RANK:
        return f"expected at most {MAX_RANK} dimensions that are not 1, found {len(dims)}"
    row = box[dims[-1]] * element_bytes(element)
    if row % TENSOR_ALIGNMENT:
        return f"expected rows of a box of a multiple of {TENSOR_ALIGNMENT} bytes, found {row}"
    return None


@irdl_custom_directive
class Copy(CustomDirective):
    """`%A_map[expr, …] -> %A_ring[expr, …], %full[expr]`: all subscripts in one map."""

    tensor_map: OperandVariable
    target: OperandVariable
    barriers: OperandVariable
    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        places = ("", self.tensor_map), ("->", self.target), (",", self.barriers)
        parse_places(parser, state, places, self.indices, self.map)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        target = self.target.get(op)
        assert isinstance(target.type, MemRefType)
        rank = target.type.get_num_dims()
        begin = len(map_of(self.map, op).results) - 1 - rank
        places = (
            ("", self.tensor_map.get(op), begin),
            ("->", target, rank),
            (",", self.barriers.get(op), None),
        )
        print_places(printer, state, op, places, self.indices, self.map)


class TmaLoadOpBase(IndexedOp, ABC):
    """A request of a box, which is written to shared memory and counts on an mbarrier."""

    tensor_map = operand_def(TensorMapType)
    target = operand_def(MemRefType)
    barriers = operand_def(MbarriersType)
    indices = var_operand_def(IndexType())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    MORE: ClassVar[int] = 0
    """Subscripts in the map after that of the mbarrier."""

    @property
    def map_op(self) -> TensorMapOp:
        """The definition of the tensor map."""
        assert isinstance(self.tensor_map.owner, TensorMapOp)
        return self.tensor_map.owner

    @property
    def _rank(self) -> int:
        assert isinstance(self.target.type, MemRefType)
        return self.target.type.get_num_dims()

    @property
    def coordinates(self) -> tuple[Expr, ...]:
        """The subscripts in the tensor at which the box begins, outermost dimension first."""
        return self.subscripts[: self._barrier - self._rank]

    @property
    def target_subscripts(self) -> tuple[Expr, ...]:
        """The element of the target that the box's first element is written to."""
        return self.subscripts[self._barrier - self._rank : self._barrier]

    @property
    def barrier(self) -> Expr:
        """The number of the mbarrier among its neighbours."""
        return self.subscripts[self._barrier]

    @property
    def _barrier(self) -> int:
        """Which of all subscripts is that of the mbarrier."""
        return len(self.map.data.results) - 1 - self.MORE

    def verify_(self) -> None:
        if not isinstance(self.tensor_map.owner, TensorMapOp):
            raise VerifyException("expected the map of a kernel.tensor_map")
        source, target, box = self.map_op.type, self.target.type, self.map_op.box_sizes
        assert isinstance(target, MemRefType)
        ranks = source.get_num_dims(), target.get_num_dims()
        count = sum(ranks) + 1 + self.MORE
        verify_unconditional(self, count, f"{source}, {target} and an mbarrier")
        verify_barrier(self.barriers, self.barrier)
        if not is_shared(self.target) or target.element_type != source.element_type:
            raise VerifyException(
                f"expected a target of {source.element_type} in shared memory, found {target}"
            )
        if not holds_box(target, [n for n in box if n != 1], self.map_op.swizzle_bytes):
            raise VerifyException(
                f"expected a target whose last dimensions are the box {list(box)}, dense or with "
                f"the map's swizzle, found {target}"
            )
        verify_coordinates(self.map_op, self.coordinates)


@irdl_op_definition
class TmaLoadOp(TmaLoadOpBase):
    """
    `kernel.tma_load %A_map[expr, …] -> %A_ring[expr, …], %full[expr] : memref`

    Requests the box that begins at these subscripts of the map's memref, which may lie outside:
    what does is 0. It is written to the target from the given element on, as a dense array or, if
    the map has a swizzle, as a panel of the same swizzle; its bytes count on the mbarrier. To be
    executed by one thread.
    """

    name = "kernel.tma_load"
    custom_directives = (Copy, Conditions, MemRef)
    assembly_format = (
        "custom<Copy>($tensor_map, $target, $barriers, $indices, $map)"
        " custom<Conditions>(ref($indices), $conditions) attr-dict"
        " `:` custom<MemRef>(type($target))"
    )

    def __init__(
        self,
        tensor_map: SSAValue,
        coordinates: Sequence[Expr],
        target: SSAValue,
        target_subscripts: Sequence[Expr],
        barriers: SSAValue,
        barrier: Index,
    ) -> None:
        exprs = [*coordinates, *target_subscripts, Expr.of(barrier)]
        indices, map, _ = index_parts(exprs, ())
        super().__init__(operands=[tensor_map, target, barriers, indices], properties={"map": map})


def start_obstacle(
    type: MemRefType[Attribute], box: Sequence[int], coordinates: Sequence[Expr]
) -> str | None:
    """
    The reason why no boxes that begin at these subscripts of a tensor can be copied; None if they
    can. Where a box begins in memory has to be a multiple of 16 bytes, as the tensor and its
    strides are: elsewhere the instruction is an illegal one. The PTX ISA does not say so; Triton's
    interpreter asks for it, too ("block offset start must be 16-byte aligned", issue 8657).
    """
    start = coordinates[map_dims(shape_of(type), box)[-1]]
    unit = TENSOR_ALIGNMENT // element_bytes(type.element_type)
    if start % unit == Expr():
        return None
    return (
        f"expected boxes that begin at a multiple of {TENSOR_ALIGNMENT} bytes of a row, "
        f"{unit} element{'s' * (unit > 1)}"
    )


def verify_coordinates(map: TensorMapOp, coordinates: Sequence[Expr]) -> None:
    """Checks that a box begins at 0 along what is no dimension of its map, and in a row aligned."""
    if obstacle := start_obstacle(map.type, map.box_sizes, coordinates):
        raise VerifyException(obstacle)
    for d, coordinate in enumerate(coordinates):
        if d not in map.dims and within(coordinate, 1):
            low, high = bounds(coordinate)
            raise VerifyException(
                f"expected 0 along dimension {d}, which is no dimension of the map, found "
                f"{low:g} to {high:g}"
            )


def holds_box(target: MemRefType[Attribute], box: Sequence[int], swizzle: int) -> bool:
    """
    True if a buffer's last dimensions hold a box, sizes of 1 left out, as it is written: whole, or
    as some of the rows.
    """
    shape, layout = shape_of(target), target.layout
    if len(shape) < len(box):
        return False
    last = list(shape[len(shape) - len(box) :])
    rows = len(box) > 1 and box[0] < last[0]
    if rows and not last[0] % box[0]:
        last[0] = box[0]
    if isinstance(layout, SwizzleAttr):
        panels = last[-1] / box[-1]
        fits = panels == 1 if len(box) > 2 else len(box) == 2 and panels.is_integer()
        fits = fits and not (rows and box[0] % PERIOD)
        return fits and layout.bytes.data == swizzle and last[:-1] == list(box[:-1])
    if swizzle or last != list(box):
        return False
    if isinstance(layout, StridedLayoutAttr):
        dense = [prod(box[d + 1 :]) for d in range(len(box))]
        return list(layout.get_strides())[len(shape) - len(box) :] == dense
    return isinstance(layout, NoneAttr)
