"""The scheduling step `tma-copy`: see `TmaCopyPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class TmaCopyPass(SchedulingPass):
    """
    The rings of a K loop are filled by the tensor memory accelerator.

    Faster because one thread asks for a whole slab. Declines for now: it has no ring (double-
    buffer makes them).
    """

    name = "tma-copy"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("it has no ring (double-buffer makes them)")
