"""
Products of matrices in shared memory that a warpgroup, four warps, computes asynchronously.

```
%a = kernel.matrix_descriptor %A_smem[%ti * 64, 0] leading 16 stride 1024 swizzle 128 : memref<…>
%b = kernel.matrix_descriptor %B_smem[0, 0] leading 8192 stride 1024 swizzle 128 : memref<…>
kernel.wgmma_fence %acc : memref<1x16x4xf32, #kernel.local>
kernel.wgmma <m64n128k16, bf16> %acc[0, 0, 0], %a, %b n_major : memref<…>
kernel.wgmma_commit
kernel.wgmma_wait 0, %acc : memref<…>
```

All 128 threads of a warpgroup meet at each of these but descriptors. From its issue to the end of a
wait for its group, a product is *in flight*: it reads its factors and adds to its sums at any time,
which nothing else may touch. A fence stands between other accesses of its sums and it. A may lie in
registers, too (`kernel.wgmma_held`). It reads
through the asynchronous proxy: where threads have written its factors, each has executed a
`kernel.fence_proxy_async` since. See the PTX ISA, "Asynchronous Warpgroup Level Matrix
Instructions".
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
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

from dlc.dialects.access import element_type
from dlc.dialects.directives import At, Conditions
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_func import enclosing_func, verify_chip
from dlc.dialects.kernel_mbarriers import verify_unconditional
from dlc.dialects.kernel_memory import is_local, is_shared, memref_of
from dlc.dialects.layouts import UNIT, WIDTHS, shape_of
from dlc.dialects.mma_layouts import FACTORS, HELD_FACTOR, MmaAttr
from dlc.dialects.places import parse_places, print_places
from dlc.dialects.type_directives import MemRef
from dlc.ir.bounds import bounds, within
from dlc.ir.expr import Expr
from dlc.target import WARPGROUP, Feature, Target

OFFSET_LIMIT = 1 << 18
"""Bytes that an address or an offset of a descriptor stays below: 14 bits, in units of 16."""
ROW_GROUP = 8
"""Rows, or points of K, after which the stride is taken."""
SUMS = 4
"""Sums of a thread in each 8 columns."""


def verify_warpgroups(op: Operation, feature: Feature = "wgmma") -> Target | None:
    """
    Checks that an operation's block is of whole warpgroups, and that its chip has a feature; the
    chip, if the operation stands in a module.
    """
    func = enclosing_func(op)
    if func is not None and func.block_size % WARPGROUP:
        raise VerifyException(
            f"expected a block of whole warpgroups of {WARPGROUP} threads, all of which meet, "
            f"found one of {func.block_size} threads"
        )
    return verify_chip(op, feature)


@irdl_op_definition
class MatrixDescriptorOp(IndexedOp):
    """
    `%d = kernel.matrix_descriptor %s[expr, …] leading 16 stride 1024 swizzle 128 : memref`

    Where and how a matrix lies in shared memory, as 64 bits: the address of an
    element, two offsets in bytes and a swizzle (PTX ISA, "Matrix Descriptor Format"). Rows of the
    swizzle's width (of 16 bytes, if it is 0) follow each other, 8 of them; the next 8 begin
    `stride` bytes further on. Where rows lie along K, `leading` counts without a swizzle only: the
    distance of the second 16 bytes along K. Where they lie along the other dimension, it is that of
    what follows a row's width (without a swizzle, the two change their parts). All threads of a
    warpgroup give the same.
    """

    name = "kernel.matrix_descriptor"
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    leading = prop_def(IntegerAttr.constr(i64))
    stride = prop_def(IntegerAttr.constr(i64))
    swizzle = prop_def(IntegerAttr.constr(i64))
    result = result_def(i64)
    custom_directives = (At, MemRef)
    assembly_format = (
        "$ref `` custom<At>($indices, $map, $conditions) `leading` $leading `stride` $stride"
        " `swizzle` $swizzle attr-dict `:` custom<MemRef>(type($ref))"
    )
    traits = traits_def(Pure())

    def __init__(
        self, ref: SSAValue, subscripts: Sequence[Expr], leading: int, stride: int, swizzle: int
    ) -> None:
        indices, map, _ = index_parts(subscripts, ())
        super().__init__(
            operands=[ref, indices],
            properties={
                "map": map,
                "leading": IntegerAttr(leading, i64),
                "stride": IntegerAttr(stride, i64),
                "swizzle": IntegerAttr(swizzle, i64),
            },
            result_types=[i64],
        )

    @property
    def fields(self) -> tuple[int, int, int]:
        """The leading offset, the stride and the swizzle, in bytes."""
        return self.leading.value.data, self.stride.value.data, self.swizzle.value.data

    def verify_(self) -> None:
        ref = memref_of(self.ref)
        verify_unconditional(self, ref.get_num_dims(), str(ref))
        if not is_shared(self.ref):
            raise VerifyException(f"expected a buffer in shared memory, found {ref}")
        if (found := ref.element_type) not in FACTORS:
            known = ", ".join(map(str, FACTORS))
            raise VerifyException(f"expected elements of one of {known}, found {found}")
        *offsets, swizzle = self.fields
        for name, offset in zip(("leading", "stride"), offsets, strict=True):
            if offset % UNIT or not 0 <= offset < OFFSET_LIMIT:
                raise VerifyException(
                    f"expected a {name} offset of a multiple of {UNIT} bytes below {OFFSET_LIMIT}, "
                    f"found {offset}"
                )
        if swizzle not in (0, *WIDTHS):
            raise VerifyException(
                f"expected a swizzle of 32, 64 or 128 bytes, or 0 for none, found {swizzle}"
            )


class WgmmaOpBase(IndexedOp, ABC):
    """A request of C + A · B, of which B and C are told alike wherever A lies."""

    shape = prop_def(MmaAttr)
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    b = operand_def(i64)
    n_major = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @property
    def described(self) -> dict[str, SSAValue]:
        """The descriptors of the factors that lie in shared memory, by their names."""
        return {"B": self.b}

    @property
    def factors(self) -> tuple[MatrixDescriptorOp, ...]:
        """What tells where factors lie in shared memory."""
        found = [value.owner for value in self.described.values()]
        return tuple(op for op in found if isinstance(op, MatrixDescriptorOp))

    @property
    def majors(self) -> tuple[bool, ...]:
        """For each of these, False if its rows lie along K."""
        return (self.n_major is not None,)

    @property
    def held(self) -> SSAValue | None:
        """The local memory that A lies in, if it does."""
        return None

    @property
    def sums_at(self) -> tuple[Expr, ...]:
        """The first of a thread's sums."""
        return self.subscripts[: memref_of(self.ref).get_num_dims()]

    def verify_product(self) -> None:
        """Checks all but A."""
        verify_warpgroups(self)
        if not self.shape.is_of_warpgroup:
            raise VerifyException(f"expected a product of a warpgroup, found {self.shape}")
        elements = dict(zip("AB", self.shape.elements, strict=True))
        for name, value in self.described.items():
            if not isinstance(descriptor := value.owner, MatrixDescriptorOp):
                raise VerifyException(
                    f"expected the result of a kernel.matrix_descriptor for {name}"
                )
            element = elements[name]
            if (found := element_type(descriptor.ref.type)) != element:
                raise VerifyException(f"expected elements of {element} for {name}, found {found}")
        if not self.shape.reads_across and any(self.majors):
            factors = self.shape.factors.data
            raise VerifyException(f"expected factors of {factors} whose rows lie along K")
        self._verify_sums()

    def _verify_sums(self) -> None:
        ref = memref_of(self.ref)
        shape, tiles = shape_of(ref), self.shape.sizes.n // ROW_GROUP
        sums = self.shape.multiplied.sums[0]
        fits = is_local(self.ref) and ref.element_type == sums
        if not fits or len(shape) < 2 or shape[-1] != SUMS or shape[-2] < tiles:
            raise VerifyException(
                f"expected local memory of {tiles} x {SUMS} sums in {sums} or more, found {ref}"
            )
        *_, first, inner = self.sums_at
        if not inner.is_constant or inner.constant or within(first, shape[-2] - tiles + 1):
            low, high = bounds(first)
            raise VerifyException(
                f"expected sums from [0, 0] to [{shape[-2] - tiles}, 0] on, found [{low:g} to "
                f"{high:g}, {bounds(inner)[1]:g}]"
            )


@irdl_op_definition
class WgmmaOp(WgmmaOpBase):
    """
    `kernel.wgmma <m64n128k16, bf16> %acc[expr, …], %a (m_major)?, %b (n_major)? : memref`

    Requests C + A · B: A and B are matrices in shared memory that descriptors tell, A (m, k) with
    rows along K, or along M if it is `m_major`; B (k, n) with columns along K, or rows along N if
    it is `n_major`, which those of 8 and 32 bits are not. C are the sums that a thread has in local
    memory of `… x tiles x 4` elements, from the given one on, 4 for each 8 columns; the result is
    added to it. The products are exact and added in f32, along K in ascending order (as far as
    known), those of integers in i32: see `kernel.mma`.
    """

    name = "kernel.wgmma"
    a = operand_def(i64)
    m_major = opt_prop_def(UnitAttr)
    custom_directives = (At, MemRef)
    assembly_format = (
        "$shape $ref `` custom<At>($indices, $map, $conditions) `,` $a (`m_major` $m_major^)?"
        " `,` $b (`n_major` $n_major^)? attr-dict `:` custom<MemRef>(type($ref))"
    )

    def __init__(
        self,
        shape: MmaAttr,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        a: SSAValue,
        b: SSAValue,
        *,
        m_major: bool = False,
        n_major: bool = False,
    ) -> None:
        indices, map, _ = index_parts(subscripts, ())
        super().__init__(
            operands=[a, ref, indices, b],
            properties={
                "shape": shape,
                "map": map,
                "m_major": UnitAttr() if m_major else None,
                "n_major": UnitAttr() if n_major else None,
            },
        )

    @property
    def described(self) -> dict[str, SSAValue]:
        return {"A": self.a, "B": self.b}

    @property
    def majors(self) -> tuple[bool, ...]:
        return self.m_major is not None, self.n_major is not None

    def verify_(self) -> None:
        ref = memref_of(self.ref)
        verify_unconditional(self, ref.get_num_dims(), str(ref))
        self.verify_product()


@irdl_custom_directive
class HeldFactor(CustomDirective):
    """`%acc[expr, …], %p[expr, …]`: all subscripts in one map."""

    ref: OperandVariable
    a: OperandVariable
    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parse_places(parser, state, (("", self.ref), (",", self.a)), self.indices, self.map)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        ref = self.ref.get(op)
        places = ("", ref, memref_of(ref).get_num_dims()), (",", self.a.get(op), None)
        print_places(printer, state, op, places, self.indices, self.map)


@irdl_op_definition
class WgmmaHeldOp(WgmmaOpBase):
    """
    `kernel.wgmma_held <m64n128k16, bf16> %acc[expr, …], %p[expr, …], %b (n_major)? : memref, …`

    As `kernel.wgmma`, of an A (64, 16) that the warpgroup holds: each thread has 8 elements of it,
    from the given one on, in local memory of `… x 8`. Each warp has 16 rows, as `kernel.mma` has
    them. While the product is in flight, nothing may touch them, as the sums; a fence stands
    between what has written them and it.
    """

    name = "kernel.wgmma_held"
    a = operand_def(MemRefType)
    custom_directives = (HeldFactor, Conditions, MemRef)
    assembly_format = (
        "$shape custom<HeldFactor>($ref, $a, $indices, $map)"
        " custom<Conditions>(ref($indices), $conditions) `,` $b (`n_major` $n_major^)? attr-dict"
        " `:` custom<MemRef>(type($ref)) `,` custom<MemRef>(type($a))"
    )

    def __init__(
        self,
        shape: MmaAttr,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        a: SSAValue,
        a_subscripts: Sequence[Expr],
        b: SSAValue,
        *,
        n_major: bool = False,
    ) -> None:
        indices, map, _ = index_parts([*subscripts, *a_subscripts], ())
        super().__init__(
            operands=[a, ref, indices, b],
            properties={
                "shape": shape,
                "map": map,
                "n_major": UnitAttr() if n_major else None,
            },
        )

    @property
    def held(self) -> SSAValue:
        return self.a

    @property
    def held_at(self) -> tuple[Expr, ...]:
        """The first of a thread's elements of A."""
        return self.subscripts[memref_of(self.ref).get_num_dims() :]

    def verify_(self) -> None:
        ref, held = memref_of(self.ref), memref_of(self.a)
        verify_unconditional(self, ref.get_num_dims() + held.get_num_dims(), f"{ref} and {held}")
        self.verify_product()
        if self.shape.sizes.k != HELD_FACTOR.columns:
            raise VerifyException(f"expected a product of halves, found {self.shape}")
        shape, width = shape_of(held), HELD_FACTOR.width
        fits = is_local(self.a) and held.element_type == self.shape.elements[0]
        if not fits or not shape or shape[-1] != width:
            raise VerifyException(
                f"expected local memory of … x {width} elements of {self.shape.elements[0]} for A, "
                f"found {held}"
            )
        *outer, inner = self.held_at
        if not inner.is_constant or inner.constant:
            raise VerifyException(
                f"expected all {width} elements of A, found those from {inner} on"
            )
        for subscript, extent in zip(outer, shape, strict=False):
            if within(subscript, extent):
                low, high = bounds(subscript)
                raise VerifyException(f"expected A in {held}, found one at {low:g} to {high:g}")


class WgmmaSumsOp(IRDLOperation, ABC):
    """What orders products and other accesses of their sums, and of factors that threads hold."""

    sums = var_operand_def(MemRefType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        verify_warpgroups(self)
        for ref in self.sums:
            if not is_local(ref):
                raise VerifyException(f"expected local memory, found {ref.type}")


@irdl_op_definition
class WgmmaFenceOp(WgmmaSumsOp):
    """
    `kernel.wgmma_fence %acc, … : memref, …`: what was done to sums, and to factors in registers,
    comes before products that are requested after it; it stands before the first one, too.
    """

    name = "kernel.wgmma_fence"
    assembly_format = "$sums attr-dict `:` type($sums)"

    def __init__(self, sums: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(sums)])


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """`kernel.wgmma_commit`: closes the warpgroup's open group of products."""

    name = "kernel.wgmma_commit"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        verify_warpgroups(self)


@irdl_op_definition
class WgmmaWaitOp(WgmmaSumsOp):
    """
    `kernel.wgmma_wait 1, %acc, … : memref, …`: until at most that many of the warpgroup's newest
    groups of products are unfinished.
    """

    name = "kernel.wgmma_wait"
    pending = prop_def(IntegerAttr.constr(i64))
    assembly_format = "$pending `,` $sums attr-dict `:` type($sums)"

    def __init__(self, pending: int, sums: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(sums)], properties={"pending": IntegerAttr(pending, i64)})

    @property
    def finishes(self) -> bool:
        """True if it waits for all products of sums, and another wait has left some of theirs."""
        waits = (use.operation for ref in self.sums for use in ref.uses)
        left = any(isinstance(op, WgmmaWaitOp) and op.pending.value.data for op in waits)
        return left and not self.pending.value.data

    def verify_(self) -> None:
        super().verify_()
        if self.pending.value.data not in range(8):
            raise VerifyException(f"expected a count of 0 to 7, found {self.pending.value.data}")
