"""The scheduling step `async-copy`: see `AsyncCopyPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class AsyncCopyPass(SchedulingPass):
    """
    The rings of a K loop are filled by cp.async, 16 bytes at a time where alignment allows.

    Faster because copies pass no registers and overlap with computing. Declines for now: it has
    no ring (double-buffer makes them).
    """

    name = "async-copy"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("it has no ring (double-buffer makes them)")
