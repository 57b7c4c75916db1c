"""The memory of a kernel: global and shared, which threads see of each other, and their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from dlc.dialects.kernel_memory import element_bytes, is_shared
from dlc.dialects.layouts import PaddedGroupsAttr, SwizzleAttr, span, strides_of
from dlc.simulator.expressions import Index
from dlc.simulator.machine import Lanes, Machine, compressed, first_of
from dlc.simulator.scalars import Value, dtype_of
from dlc.simulator.shadow import Elements, Shadow

Holds = Any
SHARED_ALIGNMENT = 128
"""Bytes that divide the address of a buffer in shared memory, as far as an access may rely on."""


def _type(ref: SSAValue) -> MemRefType[Attribute]:
    assert isinstance(ref.type, MemRefType)
    return ref.type


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides[: len(shape)]))


def swizzled(offset: Any, swizzle: int, bytes: int) -> Any:
    """
    Where a swizzle of so many bytes, 0 for none, puts the element that would lie at an offset, in
    elements of `bytes`; and back. Bits 4 to 6 of the address are xor-ed with bits 7 to 9, as many
    as there are units of 16 bytes in a row (PTX ISA, "Swizzling modes").
    """
    if swizzle == 0:
        return offset
    address = offset * bytes
    return (address ^ ((address >> 7 & (swizzle // 16 - 1)) << 4)) // bytes


class Memory:
    """
    A memref in global or shared memory. Elements are numbered as they lie in shared memory, block
    after block, and row by row in global memory. Inputs, which nothing writes, have no shadow.
    """

    def __init__(self, ref: SSAValue, op: Operation, alignment: int, machine: Machine) -> None:
        type = _type(ref)
        self.name = f"%{ref.name_hint or 'memref'}"
        self.type = type
        self.machine = machine
        self.shape: tuple[int, ...] = type.get_shape()
        self.strides = strides_of(type)
        self.element = dtype_of(type.element_type, op)
        self.bytes = element_bytes(type.element_type)
        self.alignment = alignment
        self.shared = is_shared(ref)
        self.size = span(type) if self.shared else int(np.prod(self.shape))
        self.steps = self.strides if self.shared else _row_major(self.shape)
        self.swizzle = self.group = 0
        outer = self.strides[:-2]
        if isinstance(layout := type.layout, SwizzleAttr):
            self.swizzle = layout.bytes.data
            self.steps = (*outer, self.swizzle // self.bytes, 1)
        elif isinstance(layout, PaddedGroupsAttr):
            self.group, columns = layout.rows.data, self.shape[-1]
            self.steps = (*outer, self.group * columns + layout.padding.data, columns, 1)
        self.data: NDArray[Any] = np.zeros(0, self.element)
        self.shadow: Shadow | None = None
        self.guard: Callable[[Operation, Elements, Lanes], None] | None = None
        """What else to check of an access."""
        self._offsets: dict[tuple[tuple[Index, ...], int], int] = {}
        """Where accesses with subscripts that all threads share were found to lie."""

    def allocate(self, *, zeroed: bool = False) -> None:
        """New elements, zero or uninitialized: of shared memory for every block."""
        count = self.size * (self.machine.blocks if self.shared else 1)
        self.data = np.zeros(count, self.element)
        self.guard = None
        self.shadow = Shadow(self.place, count, self.machine, shared=self.shared, zeroed=zeroed)

    def place(self, element: int) -> str:
        """An element as it is written: `%x[3, 4]`."""
        if self.shared:
            element = swizzled(element % max(self.size, 1), self.swizzle, self.bytes)
        parts: list[int] = []
        for stride in self.steps:
            part, element = divmod(element, max(stride, 1))
            parts.append(part)
        if self.swizzle:
            panels, parts[-2] = divmod(parts[-2], self.shape[-2])
            parts[-1] += panels * self.swizzle // self.bytes
        if self.group:
            *outer, group, row, column = parts
            parts = [*outer, group * self.group + row, column]
        return f"{self.name}[{', '.join(map(str, parts))}]"

    def fill(self, array: NDArray[Any]) -> None:
        """The contents of an input."""
        self.data = np.ascontiguousarray(array).reshape(-1)

    def locate(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, width: int = 1
    ) -> Index:
        """
        The number of the (first) element that each lane accesses: an int if that is one for all.
        Hazard where the access leaves the memref or is not aligned.
        """
        inner = [compressed(s, lanes, self.machine) for s in subscripts]
        last = len(self.shape) - 1
        for dim, (subscript, extent) in enumerate(zip(inner, self.shape, strict=True)):
            end = extent - width + 1 if dim == last else extent
            if isinstance(subscript, int):
                outside: Any = not 0 <= subscript < end
            else:
                outside = bool(subscript.size) and (subscript.min() < 0 or subscript.max() >= end)
            if outside:
                raise self._outside(op, inner, lanes, dim, end)
        if self.swizzle or self.group:
            inner = self._divided(inner)
        if width > 1:
            self._check_alignment(op, inner, lanes, width)
        element = swizzled(_dot(inner, self.steps), self.swizzle, self.bytes)
        return element + self.machine.block_of[lanes] * self.size if self.shared else element

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
        if bad.any() and len(lanes):
            at = first_of(bad)
            where = int(np.atleast_1d(offset)[at]) * self.bytes
            sentence = f"{size} bytes are accessed at {self.name} + {where} bytes"
            raise self.machine.hazard("misaligned", op, sentence, [int(lanes[at])])

    def _outside(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, dim: int, end: int
    ) -> Exception:
        bad = np.atleast_1d(np.asarray((subscripts[dim] < 0) | (subscripts[dim] >= end)))
        at = first_of(bad)
        place = ", ".join(str(s if isinstance(s, int) else int(s[at])) for s in subscripts)
        sentence = f"{self.name}[{place}] is not in {self.type}"
        return self.machine.hazard("out of bounds", op, sentence, [int(lanes[at])])

    def spread(self, elements: Index, lanes: Lanes, width: int) -> tuple[Elements, Lanes]:
        """All elements of accesses of `width`, with the lane of each."""
        each = np.broadcast_to(np.asarray(elements, np.int64), lanes.shape)
        if width == 1:
            return each, lanes
        return (each[:, None] + np.arange(width)).reshape(-1), np.repeat(lanes, width)

    def measure(
        self, op: Operation, elements: Index, lanes: Lanes, width: int, *, writes: bool
    ) -> None:
        """Notes the banks that the first of the blocks accesses, if that is asked for."""
        meter = self.machine.meter
        if meter is None or not self.shared:
            return
        first = lanes[lanes < self.machine.threads]
        if len(first):
            each = np.broadcast_to(np.asarray(elements, np.int64), lanes.shape)[: len(first)]
            access = self.machine.access(op, int(first[0]))
            size = width * self.bytes
            meter.note(access, self.name[1:], writes, each * self.bytes, first, size)

    def load(self, op: Operation, subscripts: tuple[Index, ...], lanes: Lanes, width: int) -> Value:
        """
        What each lane reads: a vector, if `width` is given as more than 1, along the last
        dimension. A value that is one for all lanes has no dimension for them, or extent 1 there.
        """
        if self.shadow is None and all(type(s) is int for s in subscripts):
            element = self._offsets.get((subscripts, width))
            if element is None:
                element = self._offsets[subscripts, width] = int(
                    np.max(self.locate(op, subscripts, lanes, width))
                )
            return self.data[element] if width == 1 else self.data[None, element : element + width]
        element = self.locate(op, subscripts, lanes, width)
        if self.shadow is None:
            assert not isinstance(element, int)
            at = element if width == 1 else element[:, None] + np.arange(width)
            return self.data[at]
        self.measure(op, element, lanes, width, writes=False)
        elements, readers = self.spread(element, lanes, width)
        if self.guard is not None:
            self.guard(op, elements, readers)
        self.shadow.read(op, elements, readers)
        values = self.data[elements]
        return values if width == 1 else values.reshape(-1, width)

    def store(
        self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, value: Value, width: int
    ) -> None:
        """Writes what each of these lanes has in `value`."""
        assert self.shadow is not None
        element = self.locate(op, subscripts, lanes, width)
        self.measure(op, element, lanes, width, writes=True)
        elements, writers = self.spread(element, lanes, width)
        if self.guard is not None:
            self.guard(op, elements, writers)
        self.shadow.write(op, elements, writers)
        self.data[elements] = self._flat(value, lanes, width)

    def _flat(self, value: Value, lanes: Lanes, width: int) -> Value:
        if width == 1 or np.ndim(value) == 0:
            return value
        return np.broadcast_to(value, (len(lanes), width)).reshape(-1)

    def add(self, op: Operation, subscripts: Sequence[Index], lanes: Lanes, value: Value) -> None:
        """Atomic additions, in the order of the lanes."""
        assert self.shadow is not None
        elements, _ = self.spread(self.locate(op, subscripts, lanes), lanes, 1)
        if self.guard is not None:
            self.guard(op, elements, lanes)
        self.shadow.atomic_update(op, elements, lanes)
        np.add.at(self.data, elements, value)

    def array(self) -> NDArray[Any]:
        """The contents in the memref's shape."""
        return self.data.reshape(self.shape)


def _dot(subscripts: Sequence[Index], strides: Sequence[int]) -> Any:
    total: Any = 0
    for subscript, stride in zip(subscripts, strides, strict=True):
        total = total + subscript * stride
    return total


class LocalMemory:
    """
    A memref that each thread has for itself: per element a value, as of SSA values, and the lanes
    where it is initialized (True for all, None for none).
    """

    def __init__(self, ref: SSAValue, op: Operation, machine: Machine) -> None:
        self.name = f"%{ref.name_hint or 'memref'}"
        self.type = _type(ref)
        self.machine = machine
        self.element = dtype_of(self.type.element_type, op)
        self.shape: tuple[int, ...] = self.type.get_shape()
        self.steps = _row_major(self.shape)
        self.rows: list[Value] = []
        self.initialized: list[Any] = []
        self._offsets: dict[tuple[tuple[Index, ...], int], int] = {}
        self.allocate()

    def allocate(self) -> None:
        """All elements uninitialized, in the active lanes."""
        size = int(np.prod(self.shape))
        if self.machine.mask is None or not self.rows:
            self.rows = [None] * size
            self.initialized = [None] * size
            return
        others = ~self.machine.mask
        for n, known in enumerate(self.initialized):
            self.initialized[n] = (
                None if known is None else others if known is True else others & known
            )

    def load(self, op: Operation, subscripts: tuple[Index, ...], holds: Holds, width: int) -> Value:
        """What the active lanes read where `holds`; anything elsewhere."""
        offset = self._offset(op, subscripts, width)
        if offset is not None:
            if width == 1:
                return self._row(op, offset, holds)
            rows = [self._row(op, offset + n, holds) for n in range(width)]
            return np.stack([np.broadcast_to(r, self.machine.lanes) for r in rows], axis=1)
        result = np.zeros((self.machine.lanes, width), self.element)
        for place, here in self._places(subscripts, holds):
            value = self.load(op, place, here, width)
            every = np.broadcast_to(
                value if width > 1 else np.reshape(value, (-1, 1)), result.shape
            )
            result[here] = every[here]
        return result[:, 0] if width == 1 else result

    def store(
        self,
        op: Operation,
        subscripts: tuple[Index, ...],
        holds: Holds,
        value: Value,
        width: int,
    ) -> None:
        """Writes `value` in the active lanes where `holds`."""
        offset = self._offset(op, subscripts, width)
        if offset is None:
            for place, here in self._places(subscripts, holds):
                self.store(op, place, here, value, width)
            return
        mask = self._mask(holds)
        for n in range(width):
            part = value if width == 1 else value[:, n] if len(value) > 1 else value[0, n]
            self._assign(offset + n, part, mask)

    def _assign(self, offset: int, value: Value, mask: NDArray[np.bool_] | None) -> None:
        if mask is None:
            self.rows[offset], self.initialized[offset] = value, True
            return
        known = self.initialized[offset]
        old = self.element.type(0) if known is None else self.rows[offset]
        self.rows[offset] = np.where(mask, value, old)
        if known is not True:
            self.initialized[offset] = mask if known is None else mask | known

    def _row(self, op: Operation, offset: int, holds: Holds) -> Value:
        known = self.initialized[offset]
        if known is not True:
            mask = self._mask(holds)
            needed = np.ones(self.machine.lanes, np.bool_) if mask is None else mask
            missing = needed if known is None else needed & ~known
            if missing.any():
                sentence = f"{self.name} is read at offset {offset}, which nothing has written"
                lane = first_of(missing)
                self.machine.report(self.machine.hazard("uninitialized", op, sentence, [lane]))
            if known is None:
                return self.element.type(0)
        return self.rows[offset]

    def _mask(self, holds: Holds) -> NDArray[np.bool_] | None:
        if isinstance(holds, np.ndarray):
            return self.machine.narrowed(holds)
        return self.machine.mask if holds else np.zeros(self.machine.lanes, np.bool_)

    def _offset(self, op: Operation, subscripts: tuple[Index, ...], width: int) -> int | None:
        """Where all threads access an element; None where they access different ones."""
        if not all(type(s) is int for s in subscripts):
            return None
        offset = self._offsets.get((subscripts, width))
        if offset is None:
            offset = self._offsets[subscripts, width] = self._locate(op, subscripts, width)
        return offset

    def _locate(self, op: Operation, subscripts: Sequence[Any], width: int) -> int:
        lanes = self.machine.active[:1].tolist()
        for dim, (subscript, extent) in enumerate(zip(subscripts, self.shape, strict=True)):
            if not 0 <= subscript < extent - (width - 1 if dim == len(self.shape) - 1 else 0):
                place = ", ".join(map(str, subscripts))
                sentence = f"{self.name}[{place}] is not in {self.type}"
                raise self.machine.hazard("out of bounds", op, sentence, lanes)
        offset = _dot(subscripts, self.steps)
        if width > 1 and offset % width:
            sentence = f"{width} elements are accessed at offset {offset} of {self.name}"
            raise self.machine.hazard("misaligned", op, sentence, lanes)
        return offset

    def _places(
        self, subscripts: Sequence[Index], holds: Holds
    ) -> list[tuple[tuple[int, ...], NDArray[np.bool_]]]:
        """Every place that some active lane accesses, with those lanes."""
        mask = self._mask(holds)
        mask = np.ones(self.machine.lanes, np.bool_) if mask is None else mask
        columns = [np.broadcast_to(s, self.machine.lanes) for s in subscripts]
        choices = [sorted(set(c[mask].tolist())) for c in columns]
        places: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = []
        for place in product(*choices):
            here = mask.copy()
            for column, subscript in zip(columns, place, strict=True):
                here &= column == subscript
            if here.any():
                places.append((place, here))
        return places
