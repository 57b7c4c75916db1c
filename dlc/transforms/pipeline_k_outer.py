"""The scheduling step `pipeline-k-outer`: see `PipelineKOuterPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class PipelineKOuterPass(SchedulingPass):
    """
    The K-outer loop asks for the next chunk before this one is computed.

    Faster because the copy's latency is hidden behind computing. Declines for now: it has no
    ring (double-buffer makes them).
    """

    name = "pipeline-k-outer"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("it has no ring (double-buffer makes them)")
