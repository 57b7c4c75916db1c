"""The scheduling step `double-buffer`: see `DoubleBufferPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class DoubleBufferPass(SchedulingPass):
    """
    Stages in the K-outer loop become rings of several slots.

    Faster because a chunk can be fetched while another is computed. Declines for now: rings are
    not built yet.
    """

    name = "double-buffer"

    depth: int | None = None
    """Slots of a ring, 2 to 4."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("rings are not built yet")
