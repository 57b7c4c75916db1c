"""Barriers, shuffles, mbarriers and copies of the tensor memory accelerator as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from dlc.dialects import kernel
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.simulator.address_space import Memory, swizzled
from dlc.simulator.clocks import VectorClocks
from dlc.simulator.expressions import Index, compile_map
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import WARP, Lanes, Step, compressed, first_of
from dlc.simulator.mbarriers import TMA_ALIGNMENT

if TYPE_CHECKING:
    from dlc.simulator.steps import Program


def barrier(program: Program, op: kernel.BarrierOp) -> Step:
    machine = program.machine

    def meet(lanes: Lanes) -> None:
        machine.clock.barrier(np.unique(machine.block_of[lanes]))

    def step() -> None:
        if machine.crew is None:
            machine.clock.barrier(machine.whole_blocks(op))
        else:
            machine.crew.meet(op, machine.block_of, meet)

    return step


def shuffle(program: Program, op: kernel.ShuffleOp) -> Step:
    machine, source, slot = program.machine, program.slot(op.value), program.slot(op.result)
    mask = op.mask.value.data

    def step() -> None:
        value, lanes = machine.values[source], machine.active
        if machine.crew is None:
            lanes = machine.whole_warps(op)
        else:
            value = machine.crew.meet(op, machine.warp_of, lambda _: None, value)
        other = machine.thread_of ^ mask
        outside = other[lanes] >= machine.threads
        if outside.any():
            at = int(lanes[first_of(outside)])
            sentence = f"lane {machine.thread_of[at] % WARP ^ mask} of the warp does not exist"
            raise machine.hazard("divergence", op, sentence, [at])
        if np.ndim(value):
            inside = np.minimum(other, machine.threads - 1)
            value = value[machine.block_of * machine.threads + inside]
        machine.values[slot] = value

    return step


def sync_warp(program: Program, op: kernel.SyncWarpOp) -> Step:
    machine = program.machine

    def meet(lanes: Lanes) -> None:
        assert isinstance(machine.clock, VectorClocks)
        machine.clock.warp_barrier(lanes)

    def step() -> None:
        if machine.crew is None:
            meet(machine.whole_warps(op))
        else:
            machine.crew.meet(op, machine.warp_of, meet)

    return step


def _number(
    program: Program, op: Operation, barriers: SSAValue, map: AffineMap, indices: Sequence[SSAValue]
) -> Callable[[], Index]:
    """The number among a block's mbarriers that an expression names."""
    first = program.numbers[barriers]
    assert isinstance(barriers.owner, kernel.AllocMbarriersOp)
    count = barriers.owner.count.value.data
    subscripts = compile_map(map, program.slots(indices), program.machine.values)

    def number() -> Index:
        (n,) = subscripts()
        inner = np.atleast_1d(np.asarray(compressed(n, program.machine.active, program.machine)))
        if ((inner < 0) | (inner >= count)).any():
            sentence = f"one of {count} mbarriers is named by {int(inner.max())}"
            raise program.machine.hazard("out of bounds", op, sentence)
        return first + n

    return number


def _own_number(program: Program, op: MbarrierOpBase) -> Callable[[], Index]:
    return _number(program, op, op.barriers, op.map.data, op.indices)


def mbarrier_init(program: Program, op: kernel.MbarrierInitOp) -> Step:
    number, count = _own_number(program, op), op.count.value.data
    return lambda: program.mbarriers.initialize(op, number(), count)


def mbarrier_arrive(program: Program, op: kernel.MbarrierArriveOp) -> Step:
    number = _own_number(program, op)
    return lambda: program.mbarriers.arrive(op, number(), 0)


def mbarrier_expect_tx(program: Program, op: kernel.MbarrierExpectTxOp) -> Step:
    number, bytes = _own_number(program, op), op.bytes.value.data
    return lambda: program.mbarriers.arrive(op, number(), bytes)


def mbarrier_wait(program: Program, op: kernel.MbarrierWaitOp) -> Step:
    map = op.map.data
    first = AffineMap(map.num_dims, 0, map.results[:1])
    number = _number(program, op, op.barriers, first, op.indices)
    subscripts = program.index(op.map, op.indices)
    return lambda: program.mbarriers.wait(op, number(), subscripts()[1])


def tma_load(program: Program, op: kernel.TmaLoadOp) -> Step:
    machine, map_op = program.machine, op.map_op
    source, target = program.memory[map_op.ref], program.memory[op.target]
    if map_op.ref not in program.func.input_refs:
        raise Hazard("not checked", op, "a copy from memory that the kernel writes")
    rank = len(map_op.box_sizes)
    subscripts = program.index(op.map, op.indices)
    map = op.map.data
    last = AffineMap(map.num_dims, 0, map.results[-1:])
    number = _number(program, op, op.barriers, last, op.indices)

    def at(index: Index, lane: int) -> int:
        return index if isinstance(index, int) else int(index[lane])

    def step() -> None:
        numbers = number()
        for lane in machine.active.tolist():
            lanes: Lanes = machine.everyone[lane : lane + 1]
            here = [at(e, lane) for e in subscripts()[:-1]]
            values = _box(source, here[:rank], map_op.box_sizes)
            first = target.locate(op, here[rank:], lanes)
            elements = _box_elements(program, op, target, int(np.max(first)), len(values), lane)
            program.mbarriers.load(op, lane, at(numbers, lane), target, elements, values)

    return step


def _box_elements(
    program: Program, op: kernel.TmaLoadOp, target: Memory, first: int, count: int, lane: int
) -> NDArray[np.int64]:
    """The elements that a box is written to, in its order."""
    start = int(program.machine.block_of[lane]) * target.size
    offset = (first - start) * target.bytes
    if offset % TMA_ALIGNMENT:
        sentence = f"a box is written to {target.name} + {offset} bytes, not a multiple of 128"
        raise program.machine.hazard("misaligned", op, sentence, [lane])
    if first - start + count > target.size:
        sentence = f"a box of {count} elements is written past the end of {target.name}"
        raise program.machine.hazard("out of bounds", op, sentence, [lane])
    offsets = first - start + np.arange(count)
    return start + swizzled(offsets, op.map_op.swizzle_bytes, target.bytes)


def fence_mbarrier_init(program: Program, op: kernel.FenceMbarrierInitOp) -> Step:
    return lambda: program.mbarriers.fence(program.mbarriers.init_fences)


def fence_proxy_async(program: Program, op: kernel.FenceProxyAsyncOp) -> Step:
    return lambda: program.mbarriers.fence(program.mbarriers.proxy_fences)


def _box(source: Memory, at: Sequence[int], box: Sequence[int]) -> Any:
    """The elements of a box in order, those outside 0."""
    inside: Any = np.ones(box, np.bool_)
    places: list[Any] = []
    for dim, (first, size, extent) in enumerate(zip(at, box, source.shape, strict=True)):
        along = first + np.arange(size)
        shape = [size if d == dim else 1 for d in range(len(box))]
        inside = inside & ((along >= 0) & (along < extent)).reshape(shape)
        places.append(np.clip(along, 0, extent - 1))
    found = source.array()[np.ix_(*places)]
    return np.where(inside, found, source.element.type(0)).reshape(-1)
