"""
The tensor memory accelerator, and the barriers in shared memory that say when it is done.

```
%A_map = kernel.tensor_map %A box [128, 16] : memref<100x2048xf32>
%A_ring = kernel.alloc_shared : memref<3x128x16xf32, #kernel.shared>
%full = kernel.alloc_mbarriers 3
…
kernel.mbarrier_expect_tx %full[%k mod 3], 8192
kernel.tma_load %A_map[%b * 128, %k * 16] -> %A_ring[%k mod 3, 0, 0], %full[%k mod 3] : …
kernel.mbarrier_wait %full[%k mod 3], parity (%k floordiv 3) mod 2
```

An mbarrier runs through phases 0, 1, 2, …; a phase ends when as many threads have arrived as the
barrier was initialized for and all bytes that were expected in it have been written. Waiting is by
the phase's parity: the phase before the first counts as ended, so a first wait for parity 1 passes.
See the PTX ISA, "mbarrier" and "cp.async.bulk.tensor".
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineExpr, AffineMap
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
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import IndexedOp, index_parts, parse_memref_type
from dlc.dialects.index_syntax import parse_expr, print_expr, print_subscripts
from dlc.dialects.kernel_memory import element_bytes, is_shared
from dlc.dialects.layouts import WIDTHS, SwizzleAttr
from dlc.ir.expr import Expr

MAX_RANK = 5
"""Dimensions of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)."""
MAX_BOX = 256
"""Elements of a box along a dimension (the same)."""
BOX_UNIT = 16
"""Bytes that divide a row of a box (the same)."""
BOX_ALIGNMENT = 128
"""Bytes that divide a box's address in shared memory (PTX ISA, "cp.async.bulk.tensor")."""
MAX_TX = 1 << 20
"""Bytes that a phase of an mbarrier can wait for, and one more (PTX ISA, "tx-count")."""


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """`!kernel.tensor_map`: what the tensor memory accelerator knows of a tensor."""

    name = "kernel.tensor_map"


@irdl_attr_definition
class MbarriersType(ParametrizedAttribute, TypeAttribute):
    """`!kernel.mbarriers`: some mbarriers in shared memory."""

    name = "kernel.mbarriers"


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
    swizzle = opt_prop_def(IntegerAttr)
    result = result_def(TensorMapType)
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
        """What a load writes and a barrier has to expect, also where the box leaves the tensor."""
        return prod(self.box_sizes) * element_bytes(self.type.element_type)

    @property
    def swizzle_bytes(self) -> int:
        """The swizzle in bytes; 0 for none."""
        return 0 if self.swizzle is None else self.swizzle.value.data

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the memref that the map has, outermost first."""
        return map_dims(self.type.get_shape(), self.box_sizes)

    def verify_(self) -> None:
        if self.ref not in getattr(self.parent, "args", ()):
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

    @classmethod
    def parse(cls, parser: Parser) -> TensorMapOp:
        ref = parser.parse_unresolved_operand()
        parser.parse_keyword("box")
        box = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        swizzle = parser.parse_integer() if parser.parse_optional_keyword("swizzle") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(ref, parse_memref_type(parser)), box, swizzle)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.ref)
        printer.print_string(f" box [{', '.join(map(str, self.box_sizes))}]")
        if self.swizzle is not None:
            printer.print_string(f" swizzle {self.swizzle_bytes}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.type)


def map_dims(shape: Sequence[int], box: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of a tensor map: those where the extent or the box is not 1, at least one."""
    dims = tuple(d for d, sizes in enumerate(zip(shape, box, strict=True)) if sizes != (1, 1))
    return dims or (len(shape) - 1,)


def box_obstacle(type: MemRefType[Attribute], box: Sequence[int]) -> str | None:
    """Why a box of these sizes cannot be copied from such a tensor; None if it can."""
    element, shape = type.element_type, type.get_shape()
    integers = isinstance(element, IntegerType) and element.bitwidth in (1, 8, 16, 32, 64)
    floats = isinstance(element, BFloat16Type | Float16Type | Float32Type | Float64Type)
    if not integers and not floats:
        return (
            "expected elements of f16, bf16, f32, f64 or integers of 1, 8, 16, 32 or 64 bits, "
            f"found {element}"
        )
    if 0 in shape:
        return f"expected no extent of 0, found {type}"
    if any(not 1 <= n <= MAX_BOX for n in box):
        return f"expected box sizes of 1 to {MAX_BOX}, found {list(box)}"
    dims = map_dims(shape, box)
    if len(dims) > MAX_RANK:
        return f"expected at most {MAX_RANK} dimensions that are not 1, found {len(dims)}"
    row = box[dims[-1]] * element_bytes(element)
    if row % BOX_UNIT:
        return f"expected rows of a box of a multiple of {BOX_UNIT} bytes, found {row}"
    return None


@irdl_op_definition
class AllocMbarriersOp(IRDLOperation):
    """`%full = kernel.alloc_mbarriers 3`: three mbarriers in shared memory, uninitialized."""

    name = "kernel.alloc_mbarriers"
    count = prop_def(IntegerAttr.constr(i64))
    result = result_def(MbarriersType)
    assembly_format = "$count attr-dict"
    traits = traits_def(MemoryAllocEffect())

    def __init__(self, count: int) -> None:
        super().__init__(
            properties={"count": IntegerAttr(count, i64)}, result_types=[MbarriersType()]
        )

    def verify_(self) -> None:
        if self.count.value.data < 1:
            raise VerifyException(f"expected at least one mbarrier, found {self.count.value.data}")


def _verify_index(op: IndexedOp, count: int, of: str) -> None:
    op.verify_index(count, of)
    if op.conditions is not None:
        raise VerifyException("expected no conditions: put the operation into an scf.if")


def _verify_barrier(barriers: SSAValue, number: Expr) -> None:
    alloc = barriers.owner
    if not isinstance(alloc, AllocMbarriersOp):
        raise VerifyException("expected mbarriers of a kernel.alloc_mbarriers")
    count = alloc.count.value.data
    low, high = number.range
    if low < 0 or high >= count:
        raise VerifyException(
            f"expected the number of one of {count} mbarriers, found one of {low:g} to {high:g}"
        )


def _parse_barrier(parser: Parser, indices: list[SSAValue]) -> tuple[SSAValue, AffineExpr]:
    """Parses `%full[expr]`."""
    barriers = parser.parse_operand(MbarriersType())
    with parser.in_square_brackets():
        return barriers, parse_expr(parser, indices)


class MbarrierOpBase(IndexedOp, ABC):
    """`kernel.mbarrier_… %full[expr] (, number)?`: acts on one mbarrier."""

    NUMBER: ClassVar[str | None] = None
    """The property that the number is."""

    barriers = operand_def(MbarriersType)
    indices = var_operand_def(IndexType())

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, barriers: SSAValue, barrier: Expr | SSAValue | int, number: int | None = None
    ) -> None:
        indices, map, _ = index_parts([Expr.of(barrier)], ())
        super().__init__(
            operands=[barriers, indices], properties={"map": map, **self._number(number)}
        )

    @classmethod
    def _number(cls, number: int | None) -> dict[str, Attribute]:
        if cls.NUMBER is None or number is None:
            return {}
        return {cls.NUMBER: IntegerAttr(number, i64)}

    @property
    def barrier(self) -> Expr:
        """The number of the mbarrier among its neighbours."""
        return self.subscripts[0]

    def verify_(self) -> None:
        _verify_index(self, 1, "an mbarrier")
        _verify_barrier(self.barriers, self.barrier)

    @classmethod
    def parse(cls, parser: Parser) -> MbarrierOpBase:
        indices: list[SSAValue] = []
        barriers, expr = _parse_barrier(parser, indices)
        number = None
        if cls.NUMBER is not None:
            parser.parse_punctuation(",")
            number = parser.parse_integer()
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            operands=[barriers, indices],
            properties={
                "map": AffineMapAttr(AffineMap(len(indices), 0, (expr,))),
                **cls._number(number),
            },
            attributes=parser.parse_optional_attr_dict(),
        )
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.barriers)
        with printer.in_square_brackets():
            print_expr(printer, self.map.data.results[0], self.indices)
        if self.NUMBER is not None:
            number = self.properties[self.NUMBER]
            assert isinstance(number, IntegerAttr)
            printer.print_string(f", {number.value.data}")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class MbarrierInitOp(MbarrierOpBase):
    """`kernel.mbarrier_init %full[expr], 8`: starts phase 0; eight arrivals end each phase."""

    NUMBER: ClassVar = "count"
    name = "kernel.mbarrier_init"
    count = prop_def(IntegerAttr.constr(i64))

    def verify_(self) -> None:
        MbarrierOpBase.verify_(self)
        if self.count.value.data < 1:
            raise VerifyException(f"expected a count >= 1, found {self.count.value.data}")


@irdl_op_definition
class MbarrierArriveOp(MbarrierOpBase):
    """`kernel.mbarrier_arrive %empty[expr]`: one arrival; accesses before it are done."""

    name = "kernel.mbarrier_arrive"


@irdl_op_definition
class MbarrierExpectTxOp(MbarrierOpBase):
    """
    `kernel.mbarrier_expect_tx %full[expr], 8192`

    One arrival, and the phase also waits for that many bytes of asynchronous copies (PTX ISA,
    mbarrier.arrive.expect_tx).
    """

    NUMBER: ClassVar = "bytes"
    name = "kernel.mbarrier_expect_tx"
    bytes = prop_def(IntegerAttr.constr(i64))

    def verify_(self) -> None:
        MbarrierOpBase.verify_(self)
        if not 0 <= self.bytes.value.data < MAX_TX:
            raise VerifyException(
                f"expected 0 to {MAX_TX - 1} bytes, found {self.bytes.value.data}"
            )


@irdl_op_definition
class MbarrierWaitOp(IndexedOp):
    """
    `kernel.mbarrier_wait %full[expr], parity expr`

    Until the phase of this parity has ended: the current one, or else the one before it. What was
    written before the arrivals and by the copies of that phase is seen after it.
    """

    name = "kernel.mbarrier_wait"
    barriers = operand_def(MbarriersType)
    indices = var_operand_def(IndexType())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        barriers: SSAValue,
        barrier: Expr | SSAValue | int,
        parity: Expr | SSAValue | int,
    ) -> None:
        indices, map, _ = index_parts([Expr.of(barrier), Expr.of(parity)], ())
        super().__init__(operands=[barriers, indices], properties={"map": map})

    @property
    def barrier(self) -> Expr:
        """The number of the mbarrier among its neighbours."""
        return self.subscripts[0]

    @property
    def parity(self) -> Expr:
        """0 or 1."""
        return self.subscripts[1]

    def verify_(self) -> None:
        _verify_index(self, 2, "an mbarrier and a parity")
        _verify_barrier(self.barriers, self.barrier)
        low, high = self.parity.range
        if low < 0 or high > 1:
            raise VerifyException(f"expected a parity of 0 or 1, found {low:g} to {high:g}")

    @classmethod
    def parse(cls, parser: Parser) -> MbarrierWaitOp:
        indices: list[SSAValue] = []
        barriers, expr = _parse_barrier(parser, indices)
        parser.parse_punctuation(",")
        parser.parse_keyword("parity")
        exprs = (expr, parse_expr(parser, indices))
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            operands=[barriers, indices],
            properties={"map": AffineMapAttr(AffineMap(len(indices), 0, exprs))},
            attributes=parser.parse_optional_attr_dict(),
        )
        return op

    def print(self, printer: Printer) -> None:
        barrier, parity = self.map.data.results
        printer.print_string(" ")
        printer.print_ssa_value(self.barriers)
        with printer.in_square_brackets():
            print_expr(printer, barrier, self.indices)
        printer.print_string(", parity ")
        print_expr(printer, parity, self.indices)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class TmaLoadOp(IndexedOp):
    """
    `kernel.tma_load %A_map[expr, …] -> %A_ring[expr, …], %full[expr] : memref`

    Requests the box that begins at these subscripts of the map's memref, which may lie outside:
    what does is 0. It is written to the target from the given element on, as a dense array or, if
    the map has a swizzle, as a panel of the same swizzle; its bytes count on the mbarrier. To be
    executed by one thread.
    """

    name = "kernel.tma_load"
    tensor_map = operand_def(TensorMapType)
    target = operand_def(MemRefType)
    barriers = operand_def(MbarriersType)
    indices = var_operand_def(IndexType())
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        tensor_map: SSAValue,
        coordinates: Sequence[Expr],
        target: SSAValue,
        target_subscripts: Sequence[Expr],
        barriers: SSAValue,
        barrier: Expr | SSAValue | int,
    ) -> None:
        exprs = [*coordinates, *target_subscripts, Expr.of(barrier)]
        indices, map, _ = index_parts(exprs, ())
        super().__init__(operands=[tensor_map, target, barriers, indices], properties={"map": map})

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
        """Where the box begins in the tensor, outermost dimension first."""
        return self.subscripts[: -1 - self._rank]

    @property
    def target_subscripts(self) -> tuple[Expr, ...]:
        """The element of the target that the box's first element is written to."""
        return self.subscripts[-1 - self._rank : -1]

    @property
    def barrier(self) -> Expr:
        """The number of the mbarrier among its neighbours."""
        return self.subscripts[-1]

    def verify_(self) -> None:
        if not isinstance(self.tensor_map.owner, TensorMapOp):
            raise VerifyException("expected the map of a kernel.tensor_map")
        source, target, box = self.map_op.type, self.target.type, self.map_op.box_sizes
        assert isinstance(target, MemRefType)
        ranks = source.get_num_dims(), target.get_num_dims()
        _verify_index(self, sum(ranks) + 1, f"{source}, {target} and an mbarrier")
        _verify_barrier(self.barriers, self.barrier)
        if not is_shared(self.target) or target.element_type != source.element_type:
            raise VerifyException(
                f"expected a target of {source.element_type} in shared memory, found {target}"
            )
        if not holds_box(target, [n for n in box if n != 1], self.map_op.swizzle_bytes):
            raise VerifyException(
                f"expected a target whose last dimensions are the box {list(box)}, dense or with "
                f"the map's swizzle, found {target}"
            )
        for d, coordinate in enumerate(self.coordinates):
            if d not in self.map_op.dims and coordinate.range != (0, 0):
                raise VerifyException(
                    f"expected 0 along dimension {d}, which is no dimension of the map, found "
                    f"{coordinate.range[0]:g} to {coordinate.range[1]:g}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> TmaLoadOp:
        indices: list[SSAValue] = []

        def subscripts() -> list[AffineExpr]:
            return parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_expr(parser, indices)
            )

        tensor_map = parser.parse_operand(TensorMapType())
        exprs = subscripts()
        parser.parse_punctuation("->")
        target = parser.parse_unresolved_operand()
        exprs += subscripts()
        parser.parse_punctuation(",")
        barriers, expr = _parse_barrier(parser, indices)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_memref_type(parser)
        op = cls.__new__(cls)
        IRDLOperation.__init__(
            op,
            operands=[tensor_map, parser.resolve_operand(target, type), barriers, indices],
            properties={"map": AffineMapAttr(AffineMap(len(indices), 0, (*exprs, expr)))},
            attributes=attributes,
        )
        return op

    def print(self, printer: Printer) -> None:
        exprs = self.map.data.results
        parts = exprs[: -1 - self._rank], exprs[-1 - self._rank : -1], exprs[-1:]
        operands = self.tensor_map, self.target, self.barriers
        for before, operand, part in zip((" ", " -> ", ", "), operands, parts, strict=True):
            printer.print_string(before)
            printer.print_ssa_value(operand)
            map = AffineMap(self.map.data.num_dims, 0, part)
            print_subscripts(printer, map, self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.target.type)


def holds_box(target: MemRefType[Attribute], box: Sequence[int], swizzle: int) -> bool:
    """Can the last dimensions of a buffer hold a box, sizes of 1 left out, as it is written?"""
    shape, layout = target.get_shape(), target.layout
    if len(shape) < len(box):
        return False
    last = list(shape[len(shape) - len(box) :])
    if isinstance(layout, SwizzleAttr):
        panels = last[-1] / box[-1]
        fits = panels == 1 if len(box) > 2 else len(box) == 2 and panels.is_integer()
        return fits and layout.bytes.data == swizzle and last[:-1] == list(box[:-1])
    if swizzle or last != list(box):
        return False
    if isinstance(layout, StridedLayoutAttr):
        dense = [prod(box[d + 1 :]) for d in range(len(box))]
        return list(layout.get_strides())[len(shape) - len(box) :] == dense
    return isinstance(layout, NoneAttr)


@irdl_op_definition
class FenceMbarrierInitOp(IRDLOperation):
    """`kernel.fence_mbarrier_init`: asynchronous copies see the mbarriers initialized before it."""

    name = "kernel.fence_mbarrier_init"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class FenceProxyAsyncOp(IRDLOperation):
    """
    `kernel.fence_proxy_async`: the thread's ordinary accesses of shared memory before it come
    before asynchronous copies that are requested after it.
    """

    name = "kernel.fence_proxy_async"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class SyncWarpOp(IRDLOperation):
    """`kernel.sync_warp`: the lanes of a warp meet; their accesses before it are seen after it."""

    name = "kernel.sync_warp"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()
