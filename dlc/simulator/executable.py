"""
A kernel as a list of Python functions, one per operation, that act on a `Machine`.

The values of SSA values stand in `machine.values`, at a slot for each. Loops that all threads run
alike are Python loops; a condition on which threads differ becomes a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.dialects import kernel
from dlc.dialects.kernel_wgmma import WgmmaOpBase
from dlc.simulator.address_space import LocalMemory, Memory
from dlc.simulator.async_copies import AsyncCopies
from dlc.simulator.async_products import AsyncProducts
from dlc.simulator.box_stores import BoxStores
from dlc.simulator.cluster_memory import ClusterMemory
from dlc.simulator.divergence import Rendezvous, Step, run_groups
from dlc.simulator.expressions import Holds, Index, compile_conditions, compile_map
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine, Mask, raise_hazard
from dlc.simulator.mbarriers import Mbarriers
from dlc.simulator.registers import RegisterPool
from dlc.target import TMA_ALIGNMENT

ORDER_SOME = (kernel.AllocMbarriersOp, kernel.SyncWarpOp)
"""Operations that order some threads of a block, or threads and copies."""
REACH_OTHERS = (kernel.MbarrierArriveAtOp, kernel.TmaMulticastOp)
"""Operations that order threads of some blocks of a cluster, or reach into their memory."""


class Program:
    """A kernel that can run; see `dlc.simulator.run`."""

    def __init__(self, func: kernel.FuncOp, translate: Translate) -> None:
        self.func = func
        self._translate = translate
        ops = list(func.walk())
        self.numbers: dict[SSAValue, int] = {}
        """The number of the first mbarrier of each allocation."""
        mbarriers = 0
        for op in ops:
            if isinstance(op, kernel.AllocMbarriersOp):
                self.numbers[op.result] = mbarriers
                mbarriers += op.count.value.data
        together = not any(isinstance(op, ORDER_SOME) for op in ops)
        heard = func.cluster_size if any(isinstance(op, REACH_OTHERS) for op in ops) else 1
        self.machine = machine = Machine(
            func.block_size, mbarriers, together=together, cluster=func.cluster_size, heard=heard
        )
        self.memory: dict[SSAValue, Memory | LocalMemory | ClusterMemory] = {
            ref: Memory(ref, func, func.alignment(ref), machine) for ref in func.refs
        }
        self.memory |= {o: self.memory[i] for o, i in func.updated_refs.items()}
        for op in ops:
            if isinstance(op, kernel.AllocSharedOp):
                self.memory[op.result] = Memory(op.result, op, TMA_ALIGNMENT, machine)
            elif isinstance(op, kernel.AllocLocalOp):
                self.memory[op.result] = LocalMemory(op.result, op, TMA_ALIGNMENT, machine)
            elif isinstance(op, kernel.MapClusterOp):
                own = self.shared_or_global(op.source)
                self.memory[op.result] = ClusterMemory(op.result, op, own, machine)
        self.addresses, _ = shared_slots(func)
        """Where buffers begin in the shared memory of a block."""
        products = [op for op in ops if isinstance(op, WgmmaOpBase)]
        held = {op.held for op in products if op.held is not None}
        self._of_products = {op.ref for op in products} | held
        self._slot_of: dict[SSAValue, int] = {}
        self.begin(range(func.cluster_size))
        self.steps = self.block(func.body.block)

    def begin(self, block_ids: Sequence[int]) -> None:
        """Gets ready to run these blocks."""
        self.machine.begin(block_ids)
        self.rendezvous = Rendezvous(self.machine)
        self.copies = AsyncCopies(self.machine)
        self.mbarriers = Mbarriers(self.machine)
        lockstep = self.func.lockstep is not None
        self.products = AsyncProducts(self.machine, self.mbarriers, lockstep=lockstep)
        self.stores = BoxStores(self.machine, self.mbarriers, lockstep=lockstep)
        self.registers = RegisterPool(self.machine)
        for memory in self.memory.values():
            if memory.shared or isinstance(memory, LocalMemory | ClusterMemory):
                memory.allocate()
        for ref in self._of_products:
            if isinstance(memory := self.memory[ref], LocalMemory):
                self.products.watch(memory)

    def run(self, groups: Sequence[Mask]) -> None:
        """
        Runs the blocks from begin to end, groups of a block's threads in turns: Hazard for what the
        kernel cannot go on after, Deadlock where threads in step wait for each other.
        """
        run_groups(self.machine, self.steps, groups)
        self.copies.finish()
        self.products.finish()
        self.stores.finish()
        self.mbarriers.finish()
        for memory in self.memory.values():
            if isinstance(memory, ClusterMemory):
                memory.finish()

    def end(self) -> None:
        """
        Lets go of what holds itself, which Python would look for once there are many objects: they
        are few here, of gigabytes.
        """
        self.steps.clear()
        self.machine.report = raise_hazard
        for memory in self.memory.values():
            if not isinstance(memory, ClusterMemory):
                memory.guard = None
            if isinstance(memory, Memory):
                memory.shadow = None

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

    # Memory and operations.

    def shared_or_global(self, ref: SSAValue) -> Memory:
        memory = self.memory[ref]
        assert isinstance(memory, Memory)
        return memory

    def shared_at(self, address: int, op: Operation) -> tuple[Memory | None, int]:
        """
        The buffer in which an address in shared memory lies, as an operation knows it, and where
        that begins: another part of the blocks has others in its place.
        """
        for ref, begin in self.addresses.items():
            memory, owner = self.memory.get(ref), ref.owner
            if isinstance(owner, Operation) and not _sees(op, owner):
                continue
            if isinstance(memory, Memory) and 0 <= address - begin < memory.size * memory.bytes:
                return memory, begin
        return None, 0

    def input(self, op: Operation, ref: SSAValue) -> Memory:
        """The memory that a copy reads. Hazard if the kernel writes it."""
        if ref not in self.func.constant_refs:
            raise Hazard("not checked", op, "a copy from memory that the kernel writes")
        return self.shared_or_global(ref)

    def block(self, block: Block) -> list[Step]:
        """The steps of the operations of a block, in order."""
        steps = [step for op in block.ops if (step := self._translate(self, op)) is not None]
        if self.func.lockstep is None:
            return steps
        return [each for step in steps for each in (step, self._all_wait)]

    def _all_wait(self) -> None:
        """In lockstep, what a thread did is known to all before any goes on."""
        self.machine.clock.meet(self.machine.everyone, self.machine.block_of)


def _sees(op: Operation, other: Operation) -> bool:
    """True if what defines something stands in a body around an operation."""
    around = other.parent_op()
    return around is not None and around.is_ancestor(op)


Translate: TypeAlias = Callable[[Program, Operation], Step | None]
"""What an operation of a program does; None if nothing is done when it is reached."""
