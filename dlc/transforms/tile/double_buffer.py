"""Chunks are copied to slots of a ring, so that one is filled while another is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import MemRefType, ModuleOp, StridedLayoutAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.fragments import Buffer
from dlc.analysis.tile.tile_state import tile_state
from dlc.dialects import tile
from dlc.dialects.axes import SERIAL, new_body
from dlc.dialects.layouts import static_shape, strides_of
from dlc.ir.expr import Expr
from dlc.registry import OptionError
from dlc.target import target_of
from dlc.text import counted
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_space import Domain


@dataclass(frozen=True)
class DoubleBufferPass(SchedulingPass):
    """
    Stages in the K-outer loop become rings of several slots, one chunk in each.

    *Legal when* the rings fit in shared memory: a chunk is filled, acquired and released in the
    iteration that used the stage. A padded stage becomes a ring of padded slots.
    *Faster because* threads may still read one chunk while the next is copied: one barrier for a
    chunk instead of two, and `pipeline-k-outer` can then ask for chunks ahead of their use.

    ```
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      %As = tile.stage %A[%bi * 128, %ko * 16] [128, 16] : … -> memref<128x16xf32, #tile.shared>
      …
    ```
    becomes, with `depth=3`,
    ```
    %A_ring = tile.ring %A(%n in 128)[%bi * 128, %n * 16] [128, 16] : … -> memref<3x128x16xf32, …>
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      tile.fill %A_ring[%ko]
      %As = tile.acquire %A_ring[%ko] : … -> memref<128x16xf32, #tile.shared>
      …
      tile.release %A_ring[%ko]
    ```
    """

    name = "double-buffer"

    depth: int | None = None
    """Slots of a ring, 2 to 16."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "depth": Domain((2, 3, 4), least=2, most=16),
    }

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        depth = self.depth
        assert depth is not None
        loops = {loop: stages for loop in kernel.launch.walk() if (stages := _chunked(loop))}
        if not loops:
            raise Decline("it has no loop over chunks that stages them")
        ringed: dict[Buffer, MemRefType[Attribute]] = {
            s: _ring_type(s, depth) for stages in loops.values() for s in stages
        }
        need = tile_state(kernel.launch).bytes_with(ringed)
        limit = target_of(module).shared_per_block
        if need > limit:
            message = f"{need} B > {limit} B of shared memory at depth {depth}"
            raise OptionError("depth", message, "take fewer slots, or stage smaller slabs")
        for loop, stages in loops.items():
            _to_rings(loop, stages, depth)
        return f"{counted(len(ringed), 'ring')} of {depth} slots, {need} B of shared memory"


def _chunked(op: Operation) -> list[tile.StageOp]:
    """The stages of a reduce with one serial axis that stage another slab in each iteration."""
    if not isinstance(op, tile.ReduceOp) or len(op.axes_of(SERIAL)) != 1:
        return []
    (axis,) = op.axes_of(SERIAL)
    stages = [inner for inner in op.body.block.ops if isinstance(inner, tile.StageOp)]
    return [stage for stage in stages if axis in stage.indices]


def _ring_type(stage: tile.StageOp, depth: int) -> MemRefType[Attribute]:
    """The type of a ring of what a stage stages; its layout goes on in every slot."""
    slot = stage.result.type
    assert isinstance(slot, MemRefType)
    shape, layout = static_shape(slot), slot.layout
    if isinstance(layout, StridedLayoutAttr):
        strides = strides_of(slot)
        layout = StridedLayoutAttr([strides[0] * shape[0] if shape else 1, *strides])
    return MemRefType(slot.element_type, [depth, *shape], layout, slot.memory_space)


def _to_rings(loop: Operation, stages: list[tile.StageOp], depth: int) -> None:
    """Puts a ring before the loop for each stage, and fills, acquires and releases it inside."""
    assert isinstance(loop, tile.ReduceOp)
    (axis,) = loop.axes_of(SERIAL)
    rings: list[tile.RingOp] = []
    for stage in stages:
        body = new_body(1, ["n"])
        ring = _ring(stage, axis, loop.extent(axis), body, depth)
        Rewriter.insert_op(ring, InsertPoint.before(loop))
        rings.append(ring)
    first = stages[0]
    for ring in rings:
        fill = tile.FillOp(ring.result, axis)
        fill.location = ring.location
        Rewriter.insert_op(fill, InsertPoint.before(first))
    for stage, ring in zip(stages, rings, strict=True):
        last = _last_user(loop.body.block, stage)
        release = tile.ReleaseOp(ring.result, axis)
        release.location = ring.location
        Rewriter.insert_op(release, InsertPoint.after(last))
        slot = tile.AcquireOp(ring.result, axis)
        slot.result.name_hint = stage.result.name_hint
        slot.location = stage.location
        Rewriter.insert_op(slot, InsertPoint.before(first))
        stage.result.replace_all_uses_with(slot.result)
    for stage in stages:
        Rewriter.erase_op(stage)


def _ring(
    stage: tile.StageOp, axis: BlockArgument, chunks: int, body: Region, depth: int
) -> tile.RingOp:
    """The ring of what a stage stages at every point of `axis`."""
    chunk = Expr.of(body.block.args[0])
    base = [s.substitute(lambda v: chunk if v is axis else None) for s in stage.subscripts]
    body.block.add_op(tile.SlabOp(stage.source, base, stage.slab_sizes, stage.slab_steps))
    ring = tile.RingOp(chunks, body, depth)
    ring.set_layout(_ring_type(stage, depth).layout)
    ring.result.name_hint = f"{stage.source.name_hint}_ring"
    ring.location = stage.location
    return ring


def _last_user(block: Block, stage: tile.StageOp) -> Operation:
    """The last operation of a block that reads a stage, itself or something in it."""
    last: Operation = stage
    op: Operation | None = stage
    while op is not None:
        if any(stage.result in inner.operands for inner in op.walk()):
            last = op
        op = op.next_op
    return last
