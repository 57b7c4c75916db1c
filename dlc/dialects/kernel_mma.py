"""
Products of small matrices that the lanes of a warp hold together, on tensor cores.

```
%a = kernel.ldmatrix %A_smem[%t mod 16, %t floordiv 16 * 8] : memref<…> -> vector<8xbf16>
%b = kernel.ldmatrix %B_smem[%t mod 16, 0] transposed : memref<…> -> vector<4xbf16>
%d = kernel.mma <m16n8k16, bf16> %a, %b, %c
    : vector<8xbf16>, vector<4xbf16>, vector<4xf32>
```

All 32 lanes of a warp meet at each of these. `mma_layouts` says which elements a lane holds. See
the PTX ISA, "Warp-level Matrix Instructions".
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
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
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import element_type
from dlc.dialects.directives import At
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_func import enclosing_func
from dlc.dialects.kernel_mbarriers import verify_unconditional
from dlc.dialects.kernel_memory import element_bytes, is_shared
from dlc.dialects.layouts import UNIT, Groups, shape_of, static_shape, strides_of
from dlc.dialects.mma_layouts import Fragment, MmaAttr, row_fragment
from dlc.dialects.type_directives import MemRef, SameType
from dlc.ir.expr import Expr
from dlc.target import WARP, target_of


def _verify_whole_warps(op: Operation) -> None:
    func = enclosing_func(op)
    if func is not None and func.block_size % WARP:
        raise VerifyException(
            f"expected a block of whole warps, all of whose lanes meet, found one of "
            f"{func.block_size} threads"
        )


@irdl_op_definition
class MmaOp(IRDLOperation):
    """
    `%d = kernel.mma <m16n8k16, bf16> %a, %b, %c : vector, vector, vector`

    D = C + A · B. The products are exact; they are added to C in f32, along K in ascending order,
    and the sum is rounded once if it is f16. (The order and the rounding of a tensor core are not
    known; this is one that it may have.) Of integers, sums wrap as i32.
    """

    name = "kernel.mma"
    shape = prop_def(MmaAttr)
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    c = operand_def(VectorType)
    result = result_def(VectorType)
    custom_directives = (SameType,)
    assembly_format = (
        "$shape $a `,` $b `,` $c attr-dict"
        " `:` type($a) `,` type($b) `,` custom<SameType>(type($c), type($result))"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, shape: MmaAttr, a: SSAValue, b: SSAValue, c: SSAValue) -> None:
        super().__init__(operands=[a, b, c], properties={"shape": shape}, result_types=[c.type])

    def verify_(self) -> None:
        _verify_whole_warps(self)
        if self.shape.is_of_warpgroup:
            raise VerifyException(f"expected a product of a warp, found {self.shape}: kernel.wgmma")
        given = (self.a.type, self.b.type)
        if given != self.shape.types:
            raise VerifyException(
                f"expected factors of types {_listed(self.shape.types)} for {self.shape}, found "
                f"{_listed(given)}"
            )
        if self.c.type not in self.shape.sums or self.result.type != self.c.type:
            raise VerifyException(
                f"expected an addend and a result of one type, {_listed(self.shape.sums, ' or ')}, "
                f"for {self.shape}, found {self.c.type} and {self.result.type}"
            )


def _listed(types: Sequence[Attribute], between: str = " and ") -> str:
    return between.join(map(str, types))


class MatrixRowsOp(IndexedOp, ABC):
    """
    An access of rows of 16 bytes of shared memory, those of one, two or four 8×8 matrices of 16-bit
    elements: lane n gives the subscripts of the first element of row n, and the other lanes' are
    not used. `transposed`, a lane has parts of columns.
    """

    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    transposed = opt_prop_def(UnitAttr)

    @property
    def vector(self) -> VectorType:
        """The type of a lane's part."""
        raise NotImplementedError

    @property
    def units(self) -> int:
        """The 16-bit elements of a lane's part; one of 32 bits is two, two of 8 are one."""
        return prod(static_shape(self.vector)) * element_bytes(self.vector.element_type) // 2

    @property
    def matrices(self) -> int:
        """How many matrices are accessed."""
        return self.units // 2

    @property
    def fragment(self) -> Fragment:
        """How the warp holds the rows, as 16-bit elements."""
        return row_fragment(self.matrices, transposed=self.transposed is not None)

    @property
    def row_elements(self) -> int:
        """The elements of a row."""
        return UNIT // element_bytes(element_type(self.ref.type))

    def verify_rows(self) -> None:
        _verify_whole_warps(self)
        ref, vector = self.ref.type, self.vector
        assert isinstance(ref, MemRefType)
        verify_unconditional(self, ref.get_num_dims(), str(ref))
        element = ref.element_type
        if not is_shared(self.ref):
            raise VerifyException(f"expected a buffer in shared memory, found {ref}")
        if not isinstance(element, AnyFloat | IntegerType) or element.bitwidth not in (8, 16, 32):
            raise VerifyException(f"expected elements of 8, 16 or 32 bits, found {element}")
        if vector.element_type != element or len(shape := static_shape(vector)) != 1:
            raise VerifyException(f"expected a vector of {element}, found {vector}")
        if shape[0] * element_bytes(element) not in (4, 8, 16):
            raise VerifyException(
                f"expected a vector of 4, 8 or 16 bytes, for 1, 2 or 4 matrices, found {vector}"
            )
        if self.transposed is not None and element.bitwidth != 16:
            raise VerifyException(f"expected elements of 16 bits to transpose, found {element}")
        if not _has_aligned_rows(ref):
            raise VerifyException(
                f"expected rows of 16 bytes at multiples of 16 bytes in every row of {ref}"
            )


def _has_aligned_rows(type: MemRefType[Attribute]) -> bool:
    """True if each row begins a multiple of 16 bytes after the first, and is one run."""
    shape, elements = shape_of(type), UNIT // element_bytes(type.element_type)
    if not shape or shape[-1] % elements:
        return False
    *outer, inner = strides_of(type)
    groups = Groups.of(type)
    outer += [] if groups is None else [groups.stride]
    return inner == 1 and not any(stride % elements for stride in outer)


@irdl_op_definition
class LdmatrixOp(MatrixRowsOp):
    """
    `%a = kernel.ldmatrix %s[expr, …] (transposed)? : memref -> vector<8xbf16>`

    Each lane gets its part of the matrices (see `MatrixRowsOp`), one after the other.
    """

    name = "kernel.ldmatrix"
    result = result_def(VectorType)
    custom_directives = (At, MemRef)
    assembly_format = (
        "$ref `` custom<At>($indices, $map, $conditions) (`transposed` $transposed^)? attr-dict"
        " `:` custom<MemRef>(type($ref)) `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        type: VectorType,
        *,
        transposed: bool = False,
    ) -> None:
        indices, map, _ = index_parts(subscripts, ())
        super().__init__(
            operands=[ref, indices],
            properties={"map": map, "transposed": UnitAttr() if transposed else None},
            result_types=[type],
        )

    @property
    def vector(self) -> VectorType:
        return self.result.type

    def verify_(self) -> None:
        self.verify_rows()


@irdl_op_definition
class StmatrixOp(MatrixRowsOp):
    """
    `kernel.stmatrix %v, %s[expr, …] (transposed)? : memref, vector<8xbf16>`

    Each lane gives its part of the matrices (see `MatrixRowsOp`). From sm_90 on.
    """

    name = "kernel.stmatrix"
    value = operand_def(VectorType)
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    custom_directives = (At, MemRef)
    assembly_format = (
        "$value `,` $ref `` custom<At>($indices, $map, $conditions) (`transposed` $transposed^)?"
        " attr-dict `:` custom<MemRef>(type($ref)) `,` type($value)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        *,
        transposed: bool = False,
    ) -> None:
        indices, map, _ = index_parts(subscripts, ())
        super().__init__(
            operands=[value, ref, indices],
            properties={"map": map, "transposed": UnitAttr() if transposed else None},
        )

    @property
    def vector(self) -> VectorType:
        assert isinstance(self.value.type, VectorType)
        return self.value.type

    def verify_(self) -> None:
        self.verify_rows()
        module = self.parent_op()
        while module is not None and not isinstance(module, ModuleOp):
            module = module.parent_op()
        if module is not None and not (target := target_of(module)).has("stmatrix"):
            raise VerifyException(
                f"expected a chip that stores matrices, sm_90 or later, found {target.name}"
            )
