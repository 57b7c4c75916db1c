"""Small loops are unrolled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, UnitAttr

from dlc.dialects import tile
from dlc.dialects.axes import SERIAL, AxesOp
from dlc.dialects.ring_ops import ChunkOp
from dlc.text import counted
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_space import Domain


@dataclass(frozen=True)
class MarkUnrollPass(SchedulingPass):
    """
    Small innermost loops are marked for unrolling.

    *Legal always*; a loop that stages or fills a ring is never marked: its body is long already.
    *Faster because* subscripts become constants and loads of several points overlap.

    ```
    tile.reduce add serial(%ki in 16) -> f32 { … }
    ```
    becomes, with `limit=16`,
    ```
    tile.reduce add serial(%ki in 16) -> f32 { … } {unroll}
    ```
    """

    name = "mark-unroll"

    limit: int | None = None
    """Most points of a loop that is unrolled."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "limit": Domain((1, 2, 4, 8, 16, 32), least=1),
    }

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        marked = [op for op in kernel.launch.body.walk() if self._fits(op)]
        if not marked:
            raise Decline(f"it has no innermost serial loop of at most {self.limit} points")
        for op in marked:
            op.attributes["unroll"] = UnitAttr()
        return counted(len(marked), "loop")

    def _fits(self, op: object) -> bool:
        if not isinstance(op, tile.ForOp | tile.ReduceOp) or not op.axes_of(SERIAL):
            return False
        points = prod(op.most(a) for a in op.axes_of(SERIAL))
        inner = any(isinstance(o, AxesOp | tile.StageOp | ChunkOp) for o in op.body.walk())
        assert self.limit is not None
        return points <= self.limit and not inner
