"""Chunks are requested ahead of their use."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.rings import loop_of
from dlc.dialects import tile
from dlc.dialects.axes import SERIAL
from dlc.ir.expr import Expr
from dlc.transforms.step import Decline, SchedulingPass


@dataclass(frozen=True)
class PipelineKOuterPass(SchedulingPass):
    """
    The K-outer loop requests chunks ahead: with rings of depth d, the first d - 1 before the loop,
    then in every iteration the one d - 1 ahead, before this one is computed.

    *Legal when* rings have two slots at least and stand outside of the loop, and the launch has no
    serial axis left: a chunk's slot was released one iteration before it is filled again, and at
    the acquire in between all threads have come past that release.
    *Faster because* a copy's latency passes while chunks are computed.

    ```
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      tile.fill %A_ring[%ko]
      %As = tile.acquire %A_ring[%ko] : …
      …
    ```
    becomes, at depth 3,
    ```
    tile.fill %A_ring[0]
    tile.fill %A_ring[1]
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      %As = tile.acquire %A_ring[%ko] : …
      tile.fill %A_ring[%ko + 2]
      …
    ```
    """

    name = "pipeline-k-outer"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        fills = [op for op in launch.walk() if isinstance(op, tile.FillOp)]
        if not fills:
            raise Decline("it has no ring (double-buffer makes them)")
        if launch.axes_of(SERIAL):
            raise Decline("its loops start again at each serial point (register-tile first)")
        loops: dict[tile.ReduceOp, list[tile.FillOp]] = {}
        for fill in fills:
            loop = loop_of(fill.source)
            if loop is not None and fill.parent_op() is loop and fill.chunk == _iteration(loop):
                loops.setdefault(loop, []).append(fill)
        if not loops:
            raise Decline("no loop requests the chunk that it is about to use")
        if any(fill.source.parent_op() is loop for loop, own in loops.items() for fill in own):
            raise Decline("its ring stands inside of its loop")
        if any(fill.source.depth < 2 for fills in loops.values() for fill in fills):
            raise Decline("a ring of one slot holds no second chunk")
        for loop, own in loops.items():
            _pipeline(loop, own)
        ahead = sorted({fill.source.depth - 1 for fills in loops.values() for fill in fills})
        return f"chunks are requested {' or '.join(map(str, ahead))} ahead"


def _iteration(loop: tile.ReduceOp) -> Expr:
    """The number of the iteration."""
    (axis,) = loop.axes_of(SERIAL)
    return Expr.of(axis)


def _request(ring: tile.RingOp, chunk: Expr | int) -> tile.FillOp:
    fill = tile.FillOp(ring.result, chunk)
    fill.location = ring.location
    return fill


def _pipeline(loop: tile.ReduceOp, fills: list[tile.FillOp]) -> None:
    """Moves the first requests before the loop, the others behind its acquires."""
    rings = [fill.source for fill in fills]
    for ahead in range(max(ring.depth for ring in rings) - 1):
        early = [r for r in rings if ahead < min(r.depth - 1, r.chunks)]
        prologue = [_request(ring, ahead) for ring in early]
        Rewriter.insert_op(prologue, InsertPoint.before(loop))
    acquires = [op for op in loop.body.block.ops if isinstance(op, tile.AcquireOp)]
    late = [ring for ring in rings if ring.depth - 1 < ring.chunks]
    requests = [_request(ring, _iteration(loop) + (ring.depth - 1)) for ring in late]
    Rewriter.insert_op(requests, InsertPoint.after(acquires[-1]))
    for fill in fills:
        Rewriter.erase_op(fill)
