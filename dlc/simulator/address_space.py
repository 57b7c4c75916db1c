"""The memory of a kernel: global and shared, which threads see of each other, and their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Operation, SSAValue

from dlc.dialects import kernel
from dlc.dialects.kernel_memory import element_bytes, is_shared
from dlc.dialects.layouts import PaddedGroupsAttr, SwizzleAttr, shape_of, span, strides_of
from dlc.simulator.clocks import Lanes
from dlc.simulator.expressions import Index
from dlc.simulator.machine import Machine, first_of
from dlc.simulator.scalars import Value, dtype_of
from dlc.simulator.shadow import Elements, Shadow


def swizzled(offset: Any, swizzle: int, bytes: int) -> Any:
    """
    The offset to which a swizzle of so many bytes, 0 for none, moves the element at an offset, in
    elements of `bytes`; it is its own inverse. Bits 4 to 6 of the address are xor-ed with bits 7 to
    9, as many as there are units of 16 bytes in a row (PTX ISA, "Swizzling modes").
    """
    if swizzle == 0:
        return offset
    address = offset * bytes
    return (address ^ ((address >> 7 & (swizzle // 16 - 1)) << 4)) // bytes


class Buffer:
    """A memref, and where its elements lie."""

    def __init__(self, ref: SSAValue, op: Operation, alignment: int, machine: Machine) -> None:
        type = ref.type
        assert isinstance(type, MemRefType)
        self.name = f"%{ref.name_hint or 'memref'}"
        self.type = type
        self.machine = machine
        self.shape: tuple[int, ...] = shape_of(type)
        self.strides = strides_of(type)
        self.element = dtype_of(type.element_type, op)
        # Only a thread's own memory holds indices.
        is_index = isinstance(type.element_type, IndexType)
        self.bytes = self.element.itemsize if is_index else element_bytes(type.element_type)
        self.alignment = alignment
        self.shared = is_shared(ref)
        distinct = zip(self.shape, self.strides, strict=True)
        self.distinct = tuple(extent if stride else min(extent, 1) for extent, stride in distinct)
        """The extents, 1 along dimensions whose points lie on each other in memory."""
        self.size = span(type) if self.shared else int(np.prod(self.distinct))
        self.steps = self.strides if self.shared else self._row_major()
        self.swizzle = self.group = 0
        outer = self.strides[:-2]
        if isinstance(layout := type.layout, SwizzleAttr):
            self.swizzle = layout.bytes.data
            self.steps = (*outer, self.swizzle // self.bytes, 1)
        elif isinstance(layout, PaddedGroupsAttr):
            self.group, columns = layout.rows.data, self.shape[-1]
            self.steps = (*outer, self.group * columns + layout.padding.data, columns, 1)

    def _row_major(self) -> tuple[int, ...]:
        """The steps from element to element, row by row, where each has a number of its own."""
        steps, step = list[int](), 1
        for extent, stride in zip(reversed(self.distinct), reversed(self.strides), strict=True):
            steps.append(step if stride else 0)
            step *= extent
        return tuple(reversed(steps))

    def place(self, element: int) -> str:
        """An element as it is written: `%x[3, 4]`."""
        if self.shared:
            element = swizzled(element % max(self.size, 1), self.swizzle, self.bytes)
        parts: list[int] = []
        for stride in self.steps:
            part, element = divmod(element, stride) if stride else (0, element)
            parts.append(part)
        if self.swizzle:
            panels, parts[-2] = divmod(parts[-2], self.shape[-2])
            parts[-1] += panels * self.swizzle // self.bytes
        if self.group:
            *outer, group, row, column = parts
            parts = [*outer, group * self.group + row, column]
        return f"{self.name}[{', '.join(map(str, parts))}]"

    def offset(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int = 1
    ) -> Index:
        """
        The place in the memref of the (first) element that each lane accesses: an int if that is
        one for all. Hazard where the access leaves the memref or is not aligned. There is a lane.
        """
        inner: list[Index] = [self.machine.of(s, lanes) for s in subscripts]
        ends = list(self.shape)
        if width > 1:
            ends[-1] -= width - 1
        for subscript, end in zip(inner, ends, strict=True):
            if isinstance(subscript, int):
                outside: Any = not 0 <= subscript < end
            else:
                outside = subscript.min() < 0 or subscript.max() >= end
            if outside:
                bad = np.asarray((subscript < 0) | (subscript >= end))
                raise self._outside(op, inner, lanes, bad)
        if self.swizzle or self.group:
            inner = self._divided(inner)
        if width > 1:
            self._check_alignment(op, inner, lanes, width)
        return swizzled(_dot(inner, self.steps), self.swizzle, self.bytes)

    def _divided(self, subscripts: Sequence[Index]) -> list[Index]:
        """
        Row and column of a swizzled memref within its panels, which follow each other; or the
        group of a row, the row in it and the column.
        """
        *outer, row, column = subscripts
        if self.group:
            return [*outer, row // self.group, row % self.group, column]
        width = self.swizzle // self.bytes
        return [*outer, row + column // width * self.shape[-2], column % width]

    def _check_alignment(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int
    ) -> None:
        size = width * self.bytes
        offset = _dot(subscripts, self.steps if self.shared else self.strides)
        if not self.shape or self.strides[-1] != 1:
            sentence = f"{width} elements of {self.name} are no neighbours in memory: {self.type}"
            raise self.machine.hazard("misaligned", op, sentence)
        if self.alignment % size:
            sentence = (
                f"an access of {size} bytes needs an address that {size} divides, and that of "
                f"{self.name} is only known to be a multiple of {self.alignment}"
            )
            raise self.machine.hazard("misaligned", op, sentence)
        bad = np.atleast_1d(np.asarray(offset % width != 0))
        if bad.any():
            at = first_of(bad)
            where = int(np.atleast_1d(offset)[at]) * self.bytes
            sentence = f"{size} bytes are accessed at {self.name} + {where} bytes"
            raise self.machine.hazard("misaligned", op, sentence, [lanes[at]])

    def _outside(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, bad: NDArray[np.bool_]
    ) -> Exception:
        at = first_of(bad)
        place = ", ".join(str(s if isinstance(s, int) else int(s[at])) for s in subscripts)
        sentence = f"{self.name}[{place}] is not in {self.type}"
        return self.machine.hazard("out of bounds", op, sentence, [lanes[at]])


def _dot(subscripts: Sequence[Index], strides: Sequence[int]) -> Any:
    total: Any = 0
    for subscript, stride in zip(subscripts, strides, strict=True):
        total = total + subscript * stride
    return total


class Memory(Buffer):
    """
    A memref in global or shared memory. Elements are numbered as they lie in shared memory, block
    after block, and row by row in global memory. Inputs that nothing writes have no shadow.
    """

    def __init__(self, ref: SSAValue, op: Operation, alignment: int, machine: Machine) -> None:
        super().__init__(ref, op, alignment, machine)
        self.data: NDArray[Any] = np.zeros(0, self.element)
        self.shadow: Shadow | None = None
        self.guard: Callable[[Operation, Elements, Lanes], None] | None = None
        """Checks an access further."""
        self.observer: Observer | None = None

    def allocate(self, *, zeroed: bool = False) -> None:
        """New elements, zero or uninitialized: of shared memory for every block."""
        count = self.size * (self.machine.blocks if self.shared else 1)
        self.data = np.zeros(count, self.element)
        self.guard = None
        self.shadow = Shadow(self.place, count, self.machine, shared=self.shared, zeroed=zeroed)

    def fill(self, array: NDArray[Any]) -> None:
        """The contents of an input."""
        distinct = array[tuple(slice(extent) for extent in self.distinct)]
        self.data = np.ascontiguousarray(distinct).reshape(-1)

    def update(self) -> None:
        """The contents of an input, which the kernel is going to write to."""
        self.data = self.data.copy()
        self.shadow = Shadow(self.place, self.size, self.machine, shared=False, zeroed=True)

    def array(self) -> NDArray[Any]:
        """The contents in the memref's shape."""
        return np.broadcast_to(self.data.reshape(self.distinct), self.shape)

    def elements(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int
    ) -> tuple[Elements, Lanes]:
        """The elements that these lanes access, `width` each, and for each its lane."""
        first = self.offset(op, subscripts, lanes, width)
        if self.shared:
            first = first + self.machine.block_of[lanes] * self.size
        elif isinstance(first, int):
            first = np.full(len(lanes), first)
        if self.observer is not None:
            self.observer(self, op, first, lanes, width)
        elements = first
        if width > 1:
            elements, lanes = (first[:, None] + np.arange(width)).reshape(-1), lanes.repeat(width)
        if self.guard is not None:
            self.guard(op, elements, lanes)
        return elements, lanes

    def load(self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int) -> Value:
        """Each lane's element: a vector along the last dimension if `width` is more than 1."""
        elements, readers = self.elements(op, subscripts, lanes, width)
        if self.shadow is not None:
            self.shadow.read(op, elements, readers)
        values = self.data[elements]
        return values if width == 1 else values.reshape(-1, width)

    def store(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, value: Value, width: int
    ) -> None:
        """Writes what each of these lanes has in `value`, or adds it in the order of the lanes."""
        assert self.shadow is not None
        elements, writers = self.elements(op, subscripts, lanes, width)
        if isinstance(op, kernel.AtomicAddOp):
            self.shadow.atomic_update(op, elements, writers)
            np.add.at(self.data, elements, value)
        else:
            self.shadow.write(op, elements, writers)
            self.data[elements] = np.ravel(value)


Observer: TypeAlias = Callable[[Memory, Operation, Elements, Lanes, int], None]
"""Sees the accesses of a memory: the first element of each lane, the lanes, elements a lane."""


class LocalMemory(Buffer):
    """A memref that each thread has for itself: a row of values, one per lane, per element."""

    def __init__(self, ref: SSAValue, op: Operation, alignment: int, machine: Machine) -> None:
        super().__init__(ref, op, alignment, machine)
        self.guard: Callable[[Operation, Any], None] | None = None
        """Checks an access further, given rows and lanes."""
        self._offsets: dict[tuple[int, ...], int] = {}
        """Offsets of accesses whose subscripts, the key before the width, are the same for all."""
        self.allocate()

    def allocate(self) -> None:
        """All elements uninitialized, in the active lanes."""
        if self.machine.mask is None:
            shape = self.size, self.machine.lanes
            self.data = np.zeros(shape, self.element)
            self.initialized = np.zeros(shape, np.bool_)
        else:
            self.initialized[:, self.machine.active] = False

    def _index(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int
    ) -> tuple[Any, Any]:
        """Rows and lanes of the elements that these lanes access."""
        if not all(type(s) is int for s in subscripts):
            at: Any = self.offset(op, subscripts, lanes, width)
            return (at if width == 1 else at + np.arange(width)[:, None]), lanes
        key: Any = (*subscripts, width)
        if (first := self._offsets.get(key)) is None:
            first = self._offsets[key] = int(np.max(self.offset(op, subscripts, lanes, width)))
        rows = first if width == 1 else slice(first, first + width)
        return rows, slice(None) if lanes is self.machine.everyone else lanes

    def load(self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int) -> Value:
        """Each lane's element: a vector along the last dimension if `width` is more than 1."""
        index = self._index(op, subscripts, lanes, width)
        if self.guard is not None:
            self.guard(op, index)
        known = self.initialized[index]
        if np.count_nonzero(known) < known.size:
            missing = first_of(~known.reshape(-1))
            numbers = np.broadcast_to(np.arange(self.size)[:, None], self.data.shape)
            at = numbers[index].reshape(-1)[missing]
            sentence = f"{self.name} is read at offset {at}, which nothing has written"
            lane = lanes[missing % len(lanes)]
            self.machine.report(self.machine.hazard("uninitialized", op, sentence, [lane]))
        return np.array(self.data[index].T)

    def store(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, value: Value, width: int
    ) -> None:
        """Writes what each of these lanes has in `value`."""
        index = self._index(op, subscripts, lanes, width)
        if self.guard is not None:
            self.guard(op, index)
        self.data[index] = np.asarray(value).T
        self.initialized[index] = True
