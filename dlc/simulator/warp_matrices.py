"""
Products of matrices that warps hold together, and their rows in shared memory, as steps.

All lanes of a warp meet. What is computed follows from the lanes' registers and from where the
layouts (`dlc.dialects.mma_layouts`) put them, so that a wrong layout gives wrong numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlc.dialects import kernel
from dlc.dialects.layouts import static_shape
from dlc.dialects.mma_layouts import TF32_MASK, Fragment
from dlc.simulator.clocks import Lanes
from dlc.simulator.divergence import Step, Wait
from dlc.simulator.executable import Program
from dlc.simulator.scalars import Value, dtype_of
from dlc.target import WARP

Array = NDArray[Any]


def places_of(fragment: Fragment) -> tuple[Array, Array]:
    """The row and the column of each lane's elements: two arrays (lane, place)."""
    shape = fragment.lanes, fragment.width
    lane, place = np.indices(shape)
    row, column = fragment.layout.eval([lane, place], [])  # pyright: ignore[reportArgumentType]
    return np.broadcast_to(row, shape), np.broadcast_to(column, shape)


def widened(factors: Array, name: str) -> Array:
    """Elements of factors of a type, as the PTX ISA names it, as they are multiplied and summed."""
    if name in ("s8", "u8"):
        return (factors.view(np.uint8) if name == "u8" else factors).astype(np.int32)
    return factors.astype(np.float32)


def mma(program: Program, op: kernel.MmaOp) -> Step:
    machine, slot = program.machine, program.slot(op.result)
    shape, result = op.shape.sizes, dtype_of(op.result.type, op)
    operands = program.slots([op.a, op.b, op.c])
    fragments = (shape.a, shape.b, shape.c)
    places = [places_of(fragment) for fragment in fragments]
    ends = np.cumsum([fragment.width for fragment in fragments])
    is_tf32 = op.shape.factors.data == "tf32"

    def step() -> Iterator[Wait]:
        *factors, sums = (
            np.broadcast_to(machine.values[s], (machine.lanes, f.width))
            for s, f in zip(operands, fragments, strict=True)
        )
        given = [widened(*pair) for pair in zip(factors, op.shape.names, strict=True)]
        given.append(sums.astype(given[0].dtype))
        registers = np.concatenate(given, axis=1)
        registers = yield from program.rendezvous.meet(
            op, machine.warp_of, lambda _: None, registers
        )
        parts = np.split(registers.reshape(-1, WARP, ends[-1]), ends[:-1], axis=2)
        a, b, c = (
            _matrices(part, fragment, at)
            for part, fragment, at in zip(parts, fragments, places, strict=True)
        )
        if is_tf32:
            a, b = tf32(a), tf32(b)
        for k in range(shape.k):
            c += a[:, :, k, None] * b[:, k, None, :]
        rows, columns = places[2]
        machine.values[slot] = c[:, rows, columns].reshape(machine.lanes, -1).astype(result)

    return step


def _matrices(registers: Array, fragment: Fragment, places: tuple[Array, Array]) -> Array:
    """The matrix of each warp whose lanes hold these registers: (warp, row, column)."""
    matrices = np.empty((len(registers), fragment.rows, fragment.columns), registers.dtype)
    matrices[:, places[0], places[1]] = registers
    return matrices


def tf32(x: Array) -> Array:
    """Without what tf32 does not read."""
    return (np.ascontiguousarray(x).view(np.int32) & np.int32(TF32_MASK)).view(np.float32)


class _Rows:
    """The rows of an access by a warp, in terms of the elements of the buffer."""

    def __init__(self, program: Program, op: kernel.LdmatrixOp | kernel.StmatrixOp) -> None:
        self.program, self.op, self.machine = program, op, program.machine
        self.memory = program.shared_or_global(op.ref)
        self.subscripts = program.index(op.map, op.indices)
        self.width = static_shape(op.vector)[0]
        rows, columns = places_of(op.fragment)
        bytes = self.memory.bytes
        begin = np.arange(self.width) * bytes
        """The first byte of each element in a lane's part, whose units have 16 bits."""
        unit = begin // 2
        self.giver = rows[:, unit]
        self.column = (columns[:, unit] * 2 + begin % 2) // bytes
        """The lane that points to the row of each of a lane's elements, and its column there."""
        self.count = 8 * op.matrices

    def first_elements(self) -> Array:
        """The first element of the row to which each active lane points; -1 in other lanes."""
        machine, count = self.machine, self.count
        pointing = machine.active[machine.thread_of[machine.active] % WARP < count]
        first = np.full(machine.lanes, -1)
        if len(pointing):
            elements, _ = self.memory.elements(
                self.op, self.subscripts(), pointing, self.op.row_elements
            )
            first[pointing] = elements.reshape(len(pointing), -1)[:, 0]
        return first

    def elements(self, first: Array, lanes: Lanes) -> Array:
        """The elements that lanes, of whole warps that have met, hold: (lane, place)."""
        inside = self.machine.thread_of[lanes] % WARP
        warp_begin = lanes - inside
        return first[warp_begin[:, None] + self.giver[inside]] + self.column[inside]


def ldmatrix(program: Program, op: kernel.LdmatrixOp) -> Step:
    rows, machine, slot = _Rows(program, op), program.machine, program.slot(op.result)

    def step() -> Iterator[Wait]:
        first = yield from program.rendezvous.meet(
            op, machine.warp_of, lambda _: None, rows.first_elements()
        )
        lanes = machine.active
        elements = rows.elements(first, lanes)
        assert rows.memory.shadow is not None
        rows.memory.shadow.read(op, elements.reshape(-1), lanes.repeat(rows.width))
        machine.values[slot] = _spread(program, lanes, rows.memory.data[elements])

    return step


def _spread(program: Program, lanes: Lanes, value: Value) -> Value:
    return program.machine.spread(value, lanes, value.dtype.type(0))


def stmatrix(program: Program, op: kernel.StmatrixOp) -> Step:
    rows, machine, slot = _Rows(program, op), program.machine, program.slot(op.value)

    def step() -> Iterator[Wait]:
        first = yield from program.rendezvous.meet(
            op, machine.warp_of, lambda _: None, rows.first_elements()
        )
        lanes = machine.active
        elements = rows.elements(first, lanes).reshape(-1)
        assert rows.memory.shadow is not None
        rows.memory.shadow.write(op, elements, lanes.repeat(rows.width))
        values = np.broadcast_to(machine.values[slot], (machine.lanes, rows.width))
        rows.memory.data[elements] = values[lanes].reshape(-1)

    return step
