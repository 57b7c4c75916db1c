"""The memory of a host program: real bytes, so that slices of a workspace share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from dlc.dialects import host, host_flow
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of, span_bytes, strides_of
from dlc.simulator.narrow_floats import bits_dtype, bits_of, is_held, values_of
from dlc.simulator.scalars import dtype_of

Array = NDArray[Any]
POISON = 0xFF
"""Every byte of new memory: NaN for floating-point numbers."""


class Buffers:
    """The contents of a host program's buffers: arguments, and slices of allocations."""

    def __init__(self, arguments: dict[SSAValue, Array]) -> None:
        self._arguments = arguments
        self._memory: dict[SSAValue, NDArray[np.uint8]] = {}
        self._places: dict[SSAValue, tuple[SSAValue, int]] = {a: (a, 0) for a in arguments}
        """The argument or allocation that a buffer lies in, and its first byte there."""
        self._counters: dict[SSAValue, int] = {}
        self._views: dict[SSAValue, host.BufferViewOp] = {}
        """What boxes of buffers are, each of which is a buffer."""

    def allocate(self, op: memref.AllocOp) -> None:
        assert isinstance(op.memref.type, MemRefType)
        self._memory[op.memref] = np.full(span_bytes(op.memref.type), POISON, np.uint8)
        self._places[op.memref] = op.memref, 0

    def take_part(self, op: host.SliceOp | host.BufferViewOp | host_flow.SelectOp) -> None:
        """Makes a buffer of a part of another one."""
        if isinstance(op, host.BufferViewOp):
            self._views[op.result] = op
            return
        memory, begin = self._places[op.memory]
        if isinstance(op, host.SliceOp):
            self._places[op.result] = memory, begin + op.begin
        elif memory in self._arguments:
            self._arguments[op.result] = self.read(op.memory)[self._counters[op.index]]
            self._places[op.result] = op.result, 0
        else:
            self._places[op.result] = memory, begin + op.step * self._counters[op.index]

    def count(self, counter: SSAValue, turn: int) -> None:
        """Sets the counter of a loop."""
        self._counters[counter] = turn

    def name(self, names: Sequence[SSAValue], buffers: Sequence[SSAValue]) -> None:
        """Gives buffers other names, all at once."""
        places = [self._places[buffer] for buffer in buffers]
        self._places.update(zip(names, places, strict=True))

    def read(self, buffer: SSAValue) -> Array:
        """The elements; what NumPy lacks as float32."""
        if view := self._views.get(buffer):
            return self.read(view.memory)[view.box]
        if buffer in self._arguments:
            return self._arguments[buffer]
        elements = self._elements(buffer)
        type = _element(buffer)
        return values_of(elements, type) if is_held(type) else elements.copy()

    def write(self, buffer: SSAValue, array: Array) -> None:
        if view := self._views.get(buffer):
            whole = self.read(view.memory).copy()
            whole[view.box] = array
            self.write(view.memory, whole)
            return
        if buffer in self._arguments:  # which a kernel updated in place
            self._arguments[buffer] = array
            return
        if is_held(type := _element(buffer)):
            array = bits_of(np.ascontiguousarray(array), type)
        self._elements(buffer)[...] = array

    def zero(self, op: host.ZeroOp) -> None:
        self._elements(op.buffer)[...] = 0

    def _elements(self, buffer: SSAValue) -> Array:
        """The memory of a buffer, in its shape."""
        type = buffer.type
        assert isinstance(type, MemRefType)
        memory, offset = self._places[buffer]
        owner = memory.owner
        size = element_bytes(type.element_type)
        if is_held(type.element_type):
            dtype = bits_dtype(type.element_type)
        else:
            assert isinstance(owner, Operation)
            dtype = dtype_of(type.element_type, owner)
        shape, strides = shape_of(type), [s * size for s in strides_of(type)]
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self._memory[memory].data, offset, strides)


def _element(buffer: SSAValue) -> Attribute:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.element_type
