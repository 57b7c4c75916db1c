"""Barriers, shuffles, mbarriers and fences as steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.dialects.kernel_mbarriers import MbarrierOpBase
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.simulator.clocks import Lanes
from dlc.simulator.divergence import Step, Wait
from dlc.simulator.executable import Program
from dlc.simulator.expressions import Index
from dlc.simulator.machine import MAX_WARPS, Machine, Mask, first_of
from dlc.target import WARP


def barrier(program: Program, op: kernel.BarrierOp) -> Step:
    machine, named = program.machine, op.named_threads

    def act(lanes: Lanes) -> None:
        machine.clock.meet(lanes, machine.block_of[lanes])

    def step() -> Iterator[Wait]:
        return program.rendezvous.meet(op, first_threads(machine, op, named), act)

    return step


def first_threads(machine: Machine, op: Operation, named: int | None) -> Lanes:
    """The number of each lane's block, and another one for lanes that do not meet the others."""
    if named is None:
        return machine.block_of
    if (strange := machine.thread_of[machine.active] >= named).any():
        at = int(machine.active[first_of(strange)])
        sentence = f"thread {int(machine.thread_of[at])} is not among the first {named}"
        raise machine.hazard("divergence", op, sentence, [at])
    return np.where(machine.thread_of < named, machine.block_of, machine.blocks)


def cluster_barrier(program: Program, op: kernel.ClusterBarrierOp) -> Step:
    machine, named, relaxed = program.machine, op.named_threads, op.relaxed is not None

    def act(lanes: Lanes) -> None:
        machine.come[lanes] += 1
        if not relaxed:
            machine.clock.meet(lanes, machine.block_of[lanes] // machine.clock.heard)
            machine.met[lanes] += 1

    def step() -> Iterator[Wait]:
        blocks = first_threads(machine, op, named)
        clusters = np.where(blocks < machine.blocks, blocks // machine.cluster, machine.blocks)
        return program.rendezvous.meet(op, clusters, act)

    return step


def sync_warp(program: Program, op: kernel.SyncWarpOp) -> Step:
    machine = program.machine

    def act(lanes: Lanes) -> None:
        machine.clock.meet(lanes, machine.warp_of[lanes])

    return lambda: program.rendezvous.meet(op, machine.warp_of, act)


def shuffle(program: Program, op: kernel.ShuffleOp) -> Step:
    machine, source, slot = program.machine, program.slot(op.value), program.slot(op.result)
    mask = op.mask.value.data
    named = op.named_threads or -(-machine.threads // WARP) * WARP

    def step() -> Iterator[Wait]:
        _check_names(machine, op, named)
        scopes = np.where(machine.thread_of < named, machine.warp_of, machine.blocks * MAX_WARPS)
        given = machine.values[source]
        value = yield from program.rendezvous.meet(op, scopes, lambda _: None, given)
        if np.ndim(value):
            inside = np.minimum(machine.thread_of ^ mask, machine.threads - 1)
            value = value[machine.block_of * machine.threads + inside]
        machine.values[slot] = value

    return step


def _check_names(machine: Machine, op: kernel.ShuffleOp, named: int) -> None:
    """A hazard unless the lanes of threads below `named` exist, run this, and read each other."""
    threads, mask = machine.threads, op.mask.value.data
    mine = machine.thread_of[machine.active]
    last, missing = divmod(threads, WARP)

    def refuse(wrong: Mask, sentence: Callable[[int], str]) -> None:
        if wrong.any():
            at = int(machine.active[first_of(wrong)])
            text = sentence(int(machine.thread_of[at]))
            raise machine.hazard("divergence", op, text, [at])

    text = f"lane {missing} of warp {last} is named and does not exist in a block of {threads}"
    refuse((mine // WARP == last) & (named > threads), lambda _: text)
    refuse(mine >= named, lambda t: f"lane {t % WARP} is not among those that are named")
    text = "lane {} reads lane {} of its warp, which is not named"
    refuse(mine ^ mask >= named, lambda t: text.format(t % WARP, (t ^ mask) % WARP))


def mbarrier_number(
    program: Program, op: MbarrierOpBase | TmaLoadOpBase, result: int = 0
) -> Callable[[], Index]:
    """The number among a block's mbarriers of the one that a result of `op.map` names."""
    first, machine = program.numbers[op.barriers], program.machine
    assert isinstance(op.barriers.owner, kernel.AllocMbarriersOp)
    count = op.barriers.owner.count.value.data
    subscripts = program.index(op.map, op.indices)

    def number() -> Index:
        n = subscripts()[result]
        inner = np.atleast_1d(machine.of(n, machine.active))
        if ((inner < 0) | (inner >= count)).any():
            sentence = f"one of {count} mbarriers is named by {int(inner.max())}"
            raise machine.hazard("out of bounds", op, sentence)
        return first + n

    return number


def mbarrier_init(program: Program, op: kernel.MbarrierInitOp) -> Step:
    number, count = mbarrier_number(program, op), op.count.value.data
    return lambda: program.mbarriers.initialize(op, number(), count)


def mbarrier_arrive(program: Program, op: kernel.MbarrierArriveOp) -> Step:
    number = mbarrier_number(program, op)
    return lambda: program.mbarriers.arrive(op, number(), 0)


def mbarrier_arrive_at(program: Program, op: kernel.MbarrierArriveAtOp) -> Step:
    number, subscripts = mbarrier_number(program, op), program.index(op.map, op.indices)
    return lambda: program.mbarriers.arrive(op, number(), 0, subscripts()[1])


def mbarrier_expect_tx(program: Program, op: kernel.MbarrierExpectTxOp) -> Step:
    number, bytes = mbarrier_number(program, op), op.bytes.value.data
    return lambda: program.mbarriers.arrive(op, number(), bytes)


def mbarrier_wait(program: Program, op: kernel.MbarrierWaitOp) -> Step:
    number, subscripts = mbarrier_number(program, op), program.index(op.map, op.indices)
    return lambda: program.mbarriers.wait(op, number(), subscripts()[1])


def fence_mbarrier_init(program: Program, op: kernel.FenceMbarrierInitOp) -> Step:
    return lambda: program.mbarriers.fence(op, program.mbarriers.init_fences)


def fence_proxy_async(program: Program, op: kernel.FenceProxyAsyncOp) -> Step:
    return lambda: program.mbarriers.fence(op, program.mbarriers.proxy_fences)
