"""Tensor maps: the description of a memref in one, and the memrefs that can have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from dlc.analysis.kernel.layout import linear_offset
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.kernel_tma import TensorMapOp, box_obstacle, map_dims, start_obstacle
from dlc.dialects.layouts import shape_of, strides_of
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size, divides
from dlc.target import TENSOR_ALIGNMENT

MAX_EXTENT = 1 << 31
"""The first extent that coordinates, which are of 32 bits with a sign, cannot span."""
MAX_STRIDE = 1 << 40
"""The first stride that is too long, in bytes (the same)."""


@dataclass(frozen=True)
class TensorMap:
    """The fields of a tensor map without the address; all sequences have the innermost first."""

    element: Attribute
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes; the first is an element's size."""
    box: tuple[int, ...]
    swizzle_bytes: int
    offset: int
    """From the memref's address to its first element, in bytes."""

    @property
    def element_bytes(self) -> int:
        return element_bytes(self.element)


def tensor_map(op: TensorMapOp, dims: Sequence[int] | None = None) -> TensorMap:
    """The description that a map of the Kernel IR stands for: of its dimensions, or of these."""
    size = element_bytes(op.type.element_type)
    dims = (op.dims if dims is None else dims)[::-1]
    return TensorMap(
        op.type.element_type,
        tuple(shape_of(op.type)[d] for d in dims),
        tuple(strides_of(op.type)[d] * size for d in dims),
        tuple(op.box_sizes[d] for d in dims),
        op.swizzle_bytes,
        _offset(op.type),
    )


def _offset(type: MemRefType[Attribute]) -> int:
    zero = [Expr()] * type.get_num_dims()
    return linear_offset(type, zero).constant * element_bytes(type.element_type)


def tma_obstacle(
    type: MemRefType[Attribute],
    box: Sequence[int],
    alignment: int,
    begin: Sequence[Expr] | None = None,
) -> str | None:
    """
    The reason why the accelerator cannot copy boxes of these sizes from a memref whose address
    is a multiple of `alignment` bytes, or none that begin at these subscripts; None if it can. Of
    sizes only divisors are asked: how far a memref reaches, `narrow_sizes` sees to, and the launch,
    which knows their numbers.
    """
    if not shape_of(type):
        return "expected at least one dimension, found none"
    if obstacle := box_obstacle(type, box):
        return obstacle
    if alignment % TENSOR_ALIGNMENT or _offset(type) % TENSOR_ALIGNMENT:
        return f"expected an address that is a multiple of {TENSOR_ALIGNMENT} bytes"
    if large := [n for n in shape_of(type) if not isinstance(n, Size) and n >= MAX_EXTENT]:
        return f"expected extents below 2^31, found {large[0]}"
    size, strides = element_bytes(type.element_type), strides_of(type)
    *outer, inner = map_dims(shape_of(type), box)
    if strides[inner] != 1:
        return f"expected an innermost stride of 1, found {strides[inner]}"
    for stride in (strides[d] * size for d in outer):
        short = isinstance(stride, Size) or 0 < stride < MAX_STRIDE
        if not divides(TENSOR_ALIGNMENT, stride) or not short:
            return (
                f"expected strides of a multiple of {TENSOR_ALIGNMENT} bytes below 2^40, found "
                f"{stride} bytes"
            )
    return None if begin is None else start_obstacle(type, box, begin)
