"""
A kernel as a list of Python functions, one per operation, that act on a `Machine`.

The values of SSA values stand in `machine.values`, at a slot for each. Loops that all threads run
alike are Python loops; a condition on which threads differ becomes a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Block, Operation, SSAValue

from dlc.dialects import kernel
from dlc.simulator import accesses, control, meetings
from dlc.simulator.address_space import SHARED_ALIGNMENT, LocalMemory, Memory
from dlc.simulator.async_copies import AsyncCopies
from dlc.simulator.crew import Groups, Mask
from dlc.simulator.expressions import Holds, Index, compile_conditions, compile_map
from dlc.simulator.machine import Machine, Step
from dlc.simulator.mbarriers import Mbarriers

NEED_CLOCKS = (kernel.AllocMbarriersOp, kernel.SyncWarpOp)
"""Operations that order some threads of a block, or threads and copies."""


class Program:
    """A kernel that can run; see `dlc.simulator.run`."""

    def __init__(self, func: kernel.FuncOp) -> None:
        self.func = func
        ops = list(func.walk())
        self.numbers: dict[SSAValue, int] = {}
        """The number of the first mbarrier of each allocation."""
        mbarriers = 0
        for op in ops:
            if isinstance(op, kernel.AllocMbarriersOp):
                self.numbers[op.result] = mbarriers
                mbarriers += op.count.value.data
        clocks = any(isinstance(op, NEED_CLOCKS) for op in ops)
        self.machine = Machine(func.block_size, mbarriers, clocks)
        self.copies = AsyncCopies(self.machine)
        self.mbarriers = Mbarriers(self.machine)
        self._slot_of: dict[SSAValue, int] = {}
        self.memory: dict[SSAValue, Memory] = {}
        self.local: dict[SSAValue, LocalMemory] = {}
        for ref in func.refs:
            memory = Memory(ref, func, func.alignment(ref), self.machine)
            self.memory[ref] = memory
        for op in ops:
            if isinstance(op, kernel.AllocSharedOp):
                self.memory[op.result] = Memory(op.result, op, SHARED_ALIGNMENT, self.machine)
            elif isinstance(op, kernel.AllocLocalOp):
                self.local[op.result] = LocalMemory(op.result, op, self.machine)
        self.steps = self.block(func.body.block)

    def begin(self, block_ids: Sequence[int]) -> None:
        """Gets ready to run these blocks."""
        self.machine.begin(block_ids)
        self.copies = AsyncCopies(self.machine)
        self.mbarriers = Mbarriers(self.machine)
        for memory in self.memory.values():
            if memory.shared:
                memory.allocate()
        for local in self.local.values():
            local.allocate()

    def run(self, groups: Sequence[Mask]) -> None:
        """
        Runs the blocks from begin to end, groups of a block's threads in turns: Hazard for what the
        kernel cannot go on after, Stuck or Deadlock where threads in step wait for each other.
        """
        if len(groups) == 1:
            self._run_steps()
        else:
            self.machine.crew = Groups(self.machine, self._run_steps, groups)
            self.machine.crew.run()
        self.copies.finish()
        self.mbarriers.finish()

    def _run_steps(self) -> None:
        for step in self.steps:
            step()

    # Values.

    def slot(self, value: SSAValue) -> int:
        slot = self._slot_of.get(value)
        if slot is None:
            slot = self._slot_of[value] = len(self.machine.values)
            self.machine.values.append(None)
        return slot

    def slots(self, values: Sequence[SSAValue]) -> list[int]:
        return [self.slot(v) for v in values]

    def index(
        self, map: AffineMapAttr, indices: Sequence[SSAValue]
    ) -> Callable[[], tuple[Index, ...]]:
        return compile_map(map.data, self.slots(indices), self.machine.values)

    def where(
        self, conditions: AffineMapAttr | None, indices: Sequence[SSAValue]
    ) -> Callable[[], Holds]:
        if conditions is None:
            return lambda: True
        return compile_conditions(conditions.data, self.slots(indices), self.machine.values)

    # Operations.

    def block(self, block: Block) -> list[Step]:
        """What the operations of a block do, in order."""
        steps = [self._step(op) for op in block.ops if not isinstance(op, _NO_STEPS)]
        if self.func.lockstep is None:
            return steps
        return [each for step in steps for each in (step, self._all_wait)]

    def _all_wait(self) -> None:
        """In lockstep, what a thread did is known to all before any goes on."""
        self.machine.clock.barrier(np.arange(self.machine.blocks))

    def _step(self, op: Operation) -> Step:
        return _STEPS.get(type(op), control.scalar)(self, op)


_NO_STEPS = (
    scf.YieldOp,
    kernel.AllocSharedOp,
    kernel.TensorMapOp,
    kernel.AllocMbarriersOp,
)
"""Operations that do nothing when they are reached."""

_STEPS: dict[type[Operation], Callable[[Program, Any], Step]] = {
    arith.ConstantOp: control.constant,
    kernel.BlockIdOp: control.block_id,
    kernel.ThreadIdOp: control.thread_id,
    kernel.IndexOp: control.index,
    kernel.TestOp: control.test,
    kernel.SelectOp: control.select,
    scf.ForOp: control.for_loop,
    scf.IfOp: control.if_else,
    kernel.AllocLocalOp: accesses.alloc_local,
    kernel.LoadOp: accesses.load,
    kernel.StoreOp: accesses.store,
    kernel.AtomicAddOp: accesses.store,
    kernel.CpAsyncOp: accesses.cp_async,
    kernel.CommitOp: accesses.commit,
    kernel.WaitOp: accesses.wait,
    kernel.BarrierOp: meetings.barrier,
    kernel.ShuffleOp: meetings.shuffle,
    kernel.SyncWarpOp: meetings.sync_warp,
    kernel.MbarrierInitOp: meetings.mbarrier_init,
    kernel.MbarrierArriveOp: meetings.mbarrier_arrive,
    kernel.MbarrierExpectTxOp: meetings.mbarrier_expect_tx,
    kernel.MbarrierWaitOp: meetings.mbarrier_wait,
    kernel.TmaLoadOp: meetings.tma_load,
    kernel.FenceMbarrierInitOp: meetings.fence_mbarrier_init,
    kernel.FenceProxyAsyncOp: meetings.fence_proxy_async,
}
"""All others are scalar operations."""
