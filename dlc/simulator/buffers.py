"""The memory of a host program: real bytes, so that slices of a workspace share them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.builtin import BFloat16Type, MemRefType
from xdsl.ir import Operation, SSAValue

from dlc.dialects import host
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of, span_bytes, strides_of
from dlc.simulator.scalars import dtype_of

Array = NDArray[Any]
POISON = 0xFF
"""Every byte of new memory: NaN for floating-point numbers."""


class Buffers:
    """The contents of a host program's buffers: arguments, and slices of allocations."""

    def __init__(self, arguments: dict[SSAValue, Array]) -> None:
        self._arguments = arguments
        self._memory: dict[SSAValue, NDArray[np.uint8]] = {}

    def allocate(self, op: memref.AllocOp) -> None:
        assert isinstance(op.memref.type, MemRefType)
        self._memory[op.memref] = np.full(span_bytes(op.memref.type), POISON, np.uint8)

    def read(self, buffer: SSAValue) -> Array:
        """The elements; of bf16 as float32."""
        if buffer in self._arguments:
            return self._arguments[buffer]
        elements = self._elements(buffer)
        if _is_bf16(buffer):
            return (elements.astype(np.uint32) << 16).view(np.float32)
        return elements.copy()

    def write(self, buffer: SSAValue, array: Array) -> None:
        if _is_bf16(buffer):
            array = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16)
        self._elements(buffer)[...] = array

    def zero(self, op: host.ZeroOp) -> None:
        self._elements(op.buffer)[...] = 0

    def _elements(self, buffer: SSAValue) -> Array:
        """The memory of a buffer, in its shape."""
        type, owner = buffer.type, buffer.owner
        assert isinstance(type, MemRefType)
        memory, offset = buffer, 0
        if isinstance(owner, host.SliceOp):
            memory, offset = owner.memory, owner.begin
        size = element_bytes(type.element_type)
        dtype = np.dtype(np.uint16)
        if not _is_bf16(buffer):
            assert isinstance(owner, Operation)
            dtype = dtype_of(type.element_type, owner)
        shape, strides = shape_of(type), [s * size for s in strides_of(type)]
        return np.ndarray(shape, dtype, self._memory[memory].data, offset, strides)


def _is_bf16(buffer: SSAValue) -> bool:
    return isinstance(buffer.type, MemRefType) and isinstance(
        buffer.type.element_type, BFloat16Type
    )
