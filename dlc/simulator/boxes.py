"""Copies of the tensor memory accelerator as steps: boxes of global memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from dlc.dialects import kernel
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.simulator.address_space import Memory, swizzled
from dlc.simulator.box_stores import Box
from dlc.simulator.divergence import Step
from dlc.simulator.executable import Program
from dlc.simulator.expressions import Index
from dlc.simulator.shadow import Elements
from dlc.simulator.synchronization import mbarrier_number
from dlc.target import TMA_ALIGNMENT


def tma_load(program: Program, op: kernel.TmaLoadOp) -> Step:
    return _load(program, op, lambda lane, _: [int(program.machine.block_of[lane])])


def tma_multicast(program: Program, op: kernel.TmaMulticastOp) -> Step:
    machine = program.machine

    def blocks(lane: int, first: int) -> list[int]:
        own = int(machine.block_of[lane])
        found = [first + offset for offset in op.offsets]
        if found[0] < 0 or found[-1] >= machine.cluster:
            sentence = f"blocks {found} are not all of the cluster's {machine.cluster}"
            raise machine.hazard("out of bounds", op, sentence, [lane])
        return [own - own % machine.cluster + block for block in found]

    return _load(program, op, blocks)


def _load(program: Program, op: TmaLoadOpBase, blocks: Callable[[int, int], list[int]]) -> Step:
    """A load to the blocks, among those that run, that a lane and the last subscript say."""
    machine, map_op = program.machine, op.map_op
    source, target = program.input(op, map_op.ref), program.shared_or_global(op.target)
    rank = len(map_op.box_sizes)
    subscripts = program.index(op.map, op.indices)
    number = mbarrier_number(program, op, result=-1 - op.MORE)

    def step() -> None:
        numbers = number()
        for lane in machine.active.tolist():
            here = [_at(e, lane) for e in subscripts()]
            values = _box(source, here[:rank], map_op.box_sizes)
            place = here[rank : len(here) - 1 - op.MORE]
            offsets = _offsets(program, op, target, place, len(values), lane)
            for block in blocks(lane, here[-1]):
                elements = block * target.size + offsets
                n = _at(numbers, lane)
                program.mbarriers.load(op, lane, (block, n), target, elements, values)

    return step


def tma_store(program: Program, op: kernel.TmaStoreOp) -> Step:
    machine, map_op = program.machine, op.map_op
    source, target = program.shared_or_global(op.source), program.shared_or_global(map_op.ref)
    rank, count = len(op.source_subscripts), prod(map_op.box_sizes)
    subscripts = program.index(op.map, op.indices)

    def step() -> None:
        for lane in machine.active.tolist():
            here = [_at(e, lane) for e in subscripts()]
            offsets = _offsets(program, op, source, here[:rank], count, lane)
            elements = int(machine.block_of[lane]) * source.size + offsets
            inside, places = _inside(target, here[rank:], map_op.box_sizes)
            numbers = np.ravel_multi_index(np.ix_(*places), target.shape)
            found = np.broadcast_to(numbers, map_op.box_sizes)[inside]
            box = Box(source, elements, target, found, inside.reshape(-1))
            program.stores.request(op, lane, box)

    return step


def tma_commit(program: Program, op: kernel.TmaCommitOp) -> Step:
    return lambda: program.stores.commit()


def tma_wait(program: Program, op: kernel.TmaWaitOp) -> Step:
    pending, read = op.pending.value.data, op.read is not None
    return lambda: program.stores.wait(op, pending, read=read)


def _at(index: Index, lane: int) -> int:
    return index if isinstance(index, int) else int(index[lane])


def _offsets(
    program: Program,
    op: TmaLoadOpBase | kernel.TmaStoreOp,
    target: Memory,
    at: Sequence[int],
    count: int,
    lane: int,
) -> Elements:
    """The elements of a slab that a box is, in its order, counted in each block."""
    machine = program.machine
    first = target.offset(op, at, machine.everyone[lane : lane + 1])
    if (offset := first * target.bytes) % TMA_ALIGNMENT:
        sentence = f"a box lies at {target.name} + {offset} bytes, not a multiple of 128"
        raise machine.hazard("misaligned", op, sentence, [lane])
    if first + count > target.size:
        sentence = f"a box of {count} elements goes past the end of {target.name}"
        raise machine.hazard("out of bounds", op, sentence, [lane])
    return swizzled(first + np.arange(count), op.map_op.swizzle_bytes, target.bytes)


def _box(source: Memory, at: Sequence[int], box: Sequence[int]) -> Any:
    """The elements of a box in order, those outside 0."""
    inside, places = _inside(source, at, box)
    found = source.array()[np.ix_(*places)]
    return np.where(inside, found, source.element.type(0)).reshape(-1)


def _inside(memory: Memory, at: Sequence[int], box: Sequence[int]) -> tuple[Any, list[Any]]:
    """Which elements of a box the memory has, and its places along each dimension, moved inside."""
    inside: Any = np.ones(box, np.bool_)
    places: list[Any] = []
    for dim, (first, size, extent) in enumerate(zip(at, box, memory.shape, strict=True)):
        along = first + np.arange(size)
        shape = [size if d == dim else 1 for d in range(len(box))]
        inside = inside & ((along >= 0) & (along < extent)).reshape(shape)
        places.append(np.clip(along, 0, extent - 1))
    return inside, places
