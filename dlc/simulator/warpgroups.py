"""
Products of matrices in shared memory by warpgroups, and what their threads set of their registers,
as steps: see `dlc.simulator.async_products` and `dlc.simulator.registers`.

Where the elements of a factor lie is taken from the 64 bits of its descriptor alone, so that a
wrong one gives wrong numbers, or leaves the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlc.dialects import kernel
from dlc.dialects.kernel_memory import element_bytes, memref_of
from dlc.dialects.kernel_wgmma import OFFSET_LIMIT, WgmmaOpBase
from dlc.dialects.layouts import UNIT
from dlc.dialects.mma_layouts import HELD_FACTOR, TF32
from dlc.simulator.address_space import LocalMemory, swizzled
from dlc.simulator.async_products import Operand
from dlc.simulator.clocks import Lanes
from dlc.simulator.divergence import Step, Wait
from dlc.simulator.executable import Program
from dlc.simulator.scalars import Value
from dlc.simulator.warp_matrices import places_of, tf32, widened

MODES = (0, 128, 64, 32)
"""The bytes of a swizzle, by bits 62 and 63 of a descriptor."""
FIELD = OFFSET_LIMIT // UNIT - 1
"""The 14 bits of an address or offset."""


def matrix_descriptor(program: Program, op: kernel.MatrixDescriptorOp) -> Step:
    machine, slot = program.machine, program.slot(op.result)
    memory, subscripts = program.shared_or_global(op.ref), program.index(op.map, op.indices)
    begin = program.addresses[op.ref]
    leading, stride, swizzle = op.fields
    rest = leading // UNIT << 16 | stride // UNIT << 32
    mode = MODES.index(swizzle) << 62
    rest |= mode - (1 << 64) if mode >> 63 else mode  # as a signed number

    def step() -> None:
        lanes = machine.active
        if not len(lanes):
            return
        address = np.asarray(begin + memory.offset(op, subscripts(), lanes) * memory.bytes)
        if (wrong := address % UNIT != 0).any():
            lane = lanes[int(np.argmax(np.atleast_1d(wrong)))]
            sentence = f"a matrix begins in {memory.name} at no multiple of {UNIT} bytes"
            raise machine.hazard("misaligned", op, sentence, [lane])
        bits: Value = (address % OFFSET_LIMIT // UNIT).astype(np.int64) | np.int64(rest)
        machine.values[slot] = machine.spread(bits, lanes, np.int64(0)) if bits.ndim else bits

    return step


@dataclass(frozen=True)
class Descriptor:
    """What the bits of a descriptor say, in bytes."""

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    @staticmethod
    def of(bits: int) -> Descriptor:
        """Of 64 bits, as a signed number or not."""
        word = bits % (1 << 64)
        fields = (word & FIELD, word >> 16 & FIELD, word >> 32 & FIELD)
        start, leading, stride = (field * UNIT for field in fields)
        return Descriptor(start, leading, stride, word >> 49 & 7, MODES[word >> 62])

    @lru_cache(maxsize=256)
    def addresses(
        self, rows: int, depth: int, bytes: int, *, along_rows: bool
    ) -> NDArray[np.int64]:
        """
        The address of each element (row, point of K); `along_rows` if rows are neighbours in memory
        (PTX ISA, "Shared Memory Matrix Layout" and "Strides").
        """
        row, k = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
        inner, outer = (row, k) if along_rows else (k, row)
        inner = inner * bytes
        width = self.swizzle or UNIT
        following, group = self.leading, self.stride
        if along_rows and not self.swizzle:
            following, group = group, following
        place = outer % 8 * width + outer // 8 * group
        if along_rows or not self.swizzle:
            place += inner % width + inner // width * following
        else:
            place += inner
        return np.asarray(swizzled(self.start + place, self.swizzle, 1), np.int64)


def wgmma(program: Program, op: kernel.WgmmaOp | kernel.WgmmaHeldOp) -> Step:
    machine, sums, shape = program.machine, program.memory[op.ref], op.shape.sizes
    assert isinstance(sums, LocalMemory)
    subscripts = program.index(op.map, op.indices)
    slots = program.slots(list(op.described.values()))
    extents = {"A": shape.m, "B": shape.n}
    counts = [extents[name] for name in op.described]
    sizes = list(zip(counts, op.majors, strict=True))
    rows, columns = places_of(shape.c)
    rank = memref_of(op.ref).get_num_dims()

    def step() -> Iterator[Wait]:
        given = np.stack([np.broadcast_to(machine.values[s], machine.lanes) for s in slots], axis=1)
        bits = yield from program.rendezvous.meet(op, machine.warpgroup_of, _nothing, given)
        lanes = machine.active
        at = subscripts()
        first = np.broadcast_to(sums.offset(op, at[:rank], lanes), len(lanes))
        held = None if op.held is None else _Held.of(program, op, at[rank:], lanes)
        for group in np.unique(machine.warpgroup_of[lanes]).tolist():
            members = np.flatnonzero(machine.warpgroup_of == group)
            operands = _operands(program, op, bits[members], members, sizes)
            here = np.flatnonzero(machine.warpgroup_of[lanes] == group)
            inside = lanes[here] - members[0]
            names = op.shape.names[-len(operands) :]
            *left, b = (
                _read(op, widened(operand.values, name))
                for operand, name in zip(operands, names, strict=True)
            )
            places = {sums: first[here][:, None] + np.arange(shape.c.width)}
            if held is None:
                (a,) = left
            else:
                places[held.memory] = held.places[here]
                a = held.matrix(here, lanes)
            matrix = np.zeros((shape.m, shape.n), sums.element)
            lie = rows[inside], columns[inside]
            matrix[lie] = sums.data[places[sums], lanes[here][:, None]]
            for k in range(shape.k):
                matrix += np.outer(a[:, k], b[:, k])
            program.products.request(op, lanes[here], operands, places, matrix[lie])

    return step


@dataclass(frozen=True)
class _Held:
    """Where threads hold A: an entry a lane."""

    memory: LocalMemory
    places: NDArray[np.int64]

    @staticmethod
    def of(program: Program, op: WgmmaOpBase, at: Any, lanes: Lanes) -> _Held:
        assert op.held is not None
        memory = program.memory[op.held]
        assert isinstance(memory, LocalMemory)
        first = np.broadcast_to(memory.offset(op, at, lanes), len(lanes))
        return _Held(memory, first[:, None] + np.arange(HELD_FACTOR.width))

    def matrix(self, here: NDArray[np.int64], lanes: Lanes) -> NDArray[np.float32]:
        """A of one warpgroup, whose lanes are these, in f32."""
        matrix = np.empty((HELD_FACTOR.rows, HELD_FACTOR.columns), np.float32)
        values = self.memory.data[self.places[here], lanes[here][:, None]]
        matrix[places_of(HELD_FACTOR)] = values.astype(np.float32)
        return matrix


def _read(op: WgmmaOpBase, matrix: NDArray[Any]) -> NDArray[Any]:
    """What tensor cores read of the elements of a factor."""
    return tf32(matrix) if op.shape.factors.data == TF32 else matrix


def _nothing(lanes: Lanes) -> None:
    """Those that meet do no more."""


def _operands(
    program: Program,
    op: WgmmaOpBase,
    bits: NDArray[np.int64],
    members: Lanes,
    sizes: list[tuple[int, bool]],
) -> list[Operand]:
    """A (m, k) and B (n, k), those that descriptors of the threads of a warpgroup tell."""
    machine = program.machine
    if (other := (bits != bits[0]).any(axis=1)).any():
        lane = members[int(np.argmax(other))]
        sentence = "the threads of a warpgroup give different matrix descriptors"
        raise machine.hazard("divergence", op, sentence, [lane, members[0]])
    block = int(machine.block_of[members[0]])
    found: list[Operand] = []
    for word, (count, along_rows) in zip(bits[0].tolist(), sizes, strict=True):
        told = Descriptor.of(word)
        if told.base:
            raise machine.hazard("not checked", op, "a matrix descriptor with a base offset")
        bytes = element_bytes(op.shape.multiplied.element)
        addresses = told.addresses(count, op.shape.sizes.k, bytes, along_rows=along_rows)
        memory, begin = program.shared_at(told.start, op)
        offsets = (addresses - begin) // bytes
        if memory is None or offsets.min() < 0 or offsets.max() >= memory.size:
            name = "shared memory" if memory is None else memory.name
            sentence = f"a matrix that begins in {name} leaves it"
            raise machine.hazard("out of bounds", op, sentence, [members[0]])
        elements = offsets + block * memory.size
        found.append(Operand(memory, elements.reshape(-1), memory.data[elements]))
    return found


def fence(program: Program, op: kernel.WgmmaFenceOp) -> Step:
    return _order(program, op, lambda: program.products.fence(_sums(program, op)))


def commit(program: Program, op: kernel.WgmmaCommitOp) -> Step:
    return _order(program, op, lambda: program.products.commit())


def wait(program: Program, op: kernel.WgmmaWaitOp) -> Step:
    pending = op.pending.value.data
    return _order(program, op, lambda: program.products.wait(op, pending, _sums(program, op)))


def set_max_registers(program: Program, op: kernel.SetMaxRegistersOp) -> Step:
    def step() -> Iterator[Wait]:
        act = partial(program.registers.set, op)
        yield from program.rendezvous.meet(op, program.machine.warpgroup_of, act)
        yield from program.registers.wait(op)

    return step


def _sums(program: Program, op: kernel.WgmmaFenceOp | kernel.WgmmaWaitOp) -> list[LocalMemory]:
    found = [program.memory[ref] for ref in op.sums]
    return [memory for memory in found if isinstance(memory, LocalMemory)]


def _order(program: Program, op: Any, act: Any) -> Step:
    """What threads of a warpgroup do once all have come."""

    def step() -> Iterator[Wait]:
        yield from program.rendezvous.meet(op, program.machine.warpgroup_of, _nothing)
        act()

    return step
