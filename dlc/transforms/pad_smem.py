"""The scheduling step `pad-smem`: see `PadSmemPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class PadSmemPass(SchedulingPass):
    """
    Strides of shared buffers are padded until the bank model shows no conflict.

    Faster because conflicting accesses of a warp are served one after the other. Declines for
    now: the bank model that it goes by is not built yet.
    """

    name = "pad-smem"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("the bank model that it goes by is not built yet")
