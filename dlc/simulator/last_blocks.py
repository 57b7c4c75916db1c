"""Blocks that are counted, of which the last goes on: what it knows, and who shares a count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from dlc.analysis.kernel.block_parts import parts_of
from dlc.dialects import kernel
from dlc.dialects.kernel_blocks import last_blocks_of
from dlc.ir.expr import Expr, constant_of
from dlc.simulator.address_space import Memory
from dlc.simulator.clocks import Lanes
from dlc.simulator.divergence import AllEnd, Step, Wait
from dlc.simulator.executable import Program
from dlc.simulator.expressions import Index
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Machine
from dlc.simulator.synchronization import first_threads


def last_block(program: Program, op: kernel.LastBlockOp) -> Step:
    """All threads of a block meet; the block is counted, and goes on if it is the last of some."""
    machine, memory = program.machine, program.shared_or_global(op.ref)
    subscripts = program.index(op.map, op.indices)

    def act(lanes: Lanes) -> None:
        machine.clock.meet(lanes, machine.block_of[lanes])
        firsts = lanes[np.flatnonzero(np.diff(machine.block_of[lanes], prepend=-1))]
        for lane in firsts.tolist():
            _count(machine, op, memory, subscripts(), np.array([lane]))

    def step() -> Iterator[Wait]:
        scopes = first_threads(machine, op, op.named_threads)
        yield from program.rendezvous.meet(op, scopes, act)
        machine.end(~machine.order.is_last(machine.block_ids)[machine.block_of])
        if not len(machine.active):
            raise AllEnd

    return step


def _count(
    machine: Machine,
    op: kernel.LastBlockOp,
    memory: Memory,
    subscripts: Sequence[Index],
    lane: Lanes,
) -> None:
    """Counts the block of a lane."""
    (element,), _ = memory.elements(op, subscripts, lane, 1)
    before = int(memory.data[element])
    if not 0 <= before < op.blocks:
        sentence = f"{before} blocks are counted at {memory.place(int(element))} of {op.blocks}"
        raise machine.hazard("divergence", op, sentence, lane)
    is_last = before + 1 == op.blocks
    memory.data[element] = 0 if is_last else before + 1
    block = int(machine.block_ids[machine.block_of[lane[0]]])
    machine.order.count(block, (op, int(element)), is_last=is_last)


def check_counts(program: Program) -> None:
    """Reports a hazard where fewer blocks came than are said to, so that none was the last."""
    for op in last_blocks_of(program.func):
        memory = program.shared_or_global(op.ref)
        for element in np.flatnonzero(memory.data).tolist()[:1]:
            found = f"{int(memory.data[element])} of {op.blocks} blocks are counted"
            sentence = f"{found} at {memory.place(element)} when all have ended: none was the last"
            program.machine.report(Hazard("divergence", op, sentence))


@dataclass
class SharingBlocks:
    """The blocks of a kernel by the element that they are counted at."""

    func: kernel.FuncOp
    known: dict[SSAValue, Any] = field(default_factory=dict)

    def whole(self, blocks: Sequence[int]) -> list[int]:
        """
        About as many blocks as these, all of those that share a count, or are a cluster, or none:
        without the others none would be the last.
        """
        places = [self._place(op) for op in last_blocks_of(self.func)]
        if not places and self.func.cluster_size == 1:
            return list(blocks)
        found: set[int] = set()
        for block in blocks:
            if block not in found and (not found or len(found) < len(blocks)):
                found |= self._beside(block, places)
        return sorted(found)

    def _beside(self, block: int, places: Sequence[tuple[Any, Any]]) -> set[int]:
        """The blocks that one needs: of its cluster, counted with it, and those that these need."""
        found, missing, cluster = set[int](), [block], self.func.cluster_size
        while missing:
            block = missing.pop()
            if block in found:
                continue
            found.add(block)
            first = block // cluster * cluster
            missing += range(first, first + cluster)
            for place, counted in places:
                if counted[block]:
                    same = (place == place[:, block : block + 1]).all(axis=0) & counted
                    missing += np.flatnonzero(same).tolist()
        return found

    def _place(self, op: kernel.LastBlockOp) -> tuple[Any, Any]:
        """The subscripts at which each block is counted, and which blocks are."""
        every = np.zeros(self.func.grid_size, np.int64)
        inside = (part.blocks for part in parts_of(self.func) if part.op.is_ancestor(op))
        counted = np.isin(np.arange(self.func.grid_size), next(inside, range(len(every))))
        return np.array([self._at(e) + every for e in op.exprs("map")]), counted

    def _at(self, expr: Expr) -> Any:
        """An expression in all blocks."""
        return expr.evaluate({v: self._value(v) for v in expr.values()})

    def _value(self, value: SSAValue) -> Any:
        if (known := constant_of(value)) is not None:
            return known
        if value not in self.known:
            owner = value.owner
            if isinstance(owner, kernel.BlockIdOp):
                self.known[value] = np.arange(self.func.grid_size) - owner.before
            else:
                assert isinstance(owner, kernel.IndexOp)
                self.known[value] = self._at(owner.subscripts[0])
        return self.known[value]
