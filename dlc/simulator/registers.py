"""The registers that warpgroups of a block give up, and that others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dlc.dialects import kernel
from dlc.simulator.clocks import Lanes
from dlc.simulator.divergence import Wait
from dlc.simulator.hazards import Access, Hazard
from dlc.simulator.machine import Machine
from dlc.target import WARPGROUP


class RegisterPool:
    """Of each block that runs: registers that are free, and who waits for how many."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._free = [0] * machine.blocks
        self._set: dict[int, tuple[int, Access]] = {}
        """By warpgroup the registers of a thread once they are set, and what has set them."""
        self._wanted: dict[int, tuple[int, int]] = {}
        """By warpgroup that waits, oldest first, its block and the registers that it needs."""

    def set(self, op: kernel.SetMaxRegistersOp, lanes: Lanes) -> None:
        """All lanes of some warpgroups set their registers, at once or once there are enough."""
        before, after = op.counts
        groups, firsts = np.unique(self.machine.warpgroup_of[lanes], return_index=True)
        for group, lane in zip(groups.tolist(), lanes[firsts].tolist(), strict=True):
            if (old := self._set.get(group)) is not None:
                sentence = (
                    f"a warpgroup whose threads have {old[0]} registers each sets them once more"
                )
                raise self.machine.hazard("registers", op, sentence, [lane], old[1])
            self._set[group] = after, self.machine.access(op, lane)
            block = int(self.machine.block_of[lane])
            if after < before:
                self._free[block] += WARPGROUP * (before - after)
            else:
                self._wanted[group] = block, WARPGROUP * (after - before)
        self._deal()

    def wait(self, op: kernel.SetMaxRegistersOp) -> Iterator[Wait]:
        """The active lanes go on once their warpgroups have what they want."""
        lanes = self.machine.active
        groups = self.machine.warpgroup_of[lanes]
        for group in np.unique(groups).tolist():
            if not self._has(group):
                same = lanes[groups == group]
                access = self.machine.access(op, int(same[0]))
                yield Wait(same, partial(self._has, group), partial(self._short, group, access))

    def _has(self, group: int) -> bool:
        return group not in self._wanted

    def _deal(self) -> None:
        for group, (block, count) in list(self._wanted.items()):
            if count <= self._free[block]:
                self._free[block] -= count
                del self._wanted[group]

    def _short(self, group: int, access: Access) -> Hazard:
        block, count = self._wanted[group]
        sentence = (
            f"a warpgroup waits for {count} registers, of which {self._free[block]} are free when "
            "all threads have ended or wait"
        )
        return Hazard("deadlock", access.op, sentence, [access])
