"""The scheduling step `split-matmul-k`: see `SplitMatmulKPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from dlc.dialects import tile
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class SplitMatmulKPass(SchedulingPass):
    """
    The K-outer loop of a contraction becomes a grid axis; the splits' sums are combined in
    order.

    Faster when the grid leaves multiprocessors empty. Declines for now: kernels that write a
    workspace are not built yet.
    """

    name = "split-matmul-k"

    splits: int | None = None
    """Parts of the K-outer loop."""
    combine: str | None = None
    """`workspace` (deterministic, default) or `atomic`."""
    then: str | None = None
    """The schedule of the kernel that combines."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        raise Decline("kernels that write a workspace are not built yet")
