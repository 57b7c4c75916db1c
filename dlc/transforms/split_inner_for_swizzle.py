"""The scheduling step `split-inner-for-swizzle`: see `SplitInnerForSwizzlePass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class SplitInnerForSwizzlePass(SchedulingPass):
    """
    The inner axis of a TMA ring is split to the swizzle width and its layout swizzled.

    Faster because reads against the grain then hit distinct banks. Declines for now: it has no
    TMA ring (tma-copy makes them).
    """

    name = "split-inner-for-swizzle"

    bytes: int | None = None
    """The swizzle width: 32, 64 or 128."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("it has no TMA ring (tma-copy makes them)")
