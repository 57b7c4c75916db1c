"""The scheduling step `chunk-reduce`: see `ChunkReducePass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class ChunkReducePass(SchedulingPass):
    """
    Reduces that are no contractions are chunked so that what they load fits in shared memory.

    Faster once the chunk's slab is staged and read by several threads. Declines for now: chunks
    of other reduces than contractions are not built yet.
    """

    name = "chunk-reduce"

    bk: int | None = None
    """Points of the reduce in a chunk."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("chunks of other reduces than contractions are not built yet")
