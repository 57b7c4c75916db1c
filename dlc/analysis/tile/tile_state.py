"""The progress of a launch's schedule: the partition of its free axes, and what is staged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument

from dlc.analysis.tile.block_tables import table_bytes
from dlc.analysis.tile.fragments import Buffer, buffer_type
from dlc.analysis.tile.launch_boxes import slab_bytes
from dlc.analysis.tile.overwriting import overwritten
from dlc.dialects import tile
from dlc.dialects.access import StoreOpBase
from dlc.dialects.axes import BLOCK, THREAD
from dlc.dialects.indexed_op import indexed_ops
from dlc.dialects.layouts import span_bytes
from dlc.dialects.scan_ops import AlongOpBase


@dataclass(frozen=True)
class TileState:
    """The result of the steps so far on a launch. It holds until the launch is changed."""

    launch: tile.LaunchOp
    buffers: tuple[Buffer, ...]
    """The stages, computed slabs and rings, in program order."""
    combined: frozenset[BlockArgument]
    """The thread axes that share a reduce or a scan: those that are combined across."""

    @property
    def free(self) -> list[BlockArgument]:
        """The thread axes whose points are independent."""
        return [a for a in self.launch.axes_of(THREAD) if a not in self.combined]

    @property
    def is_partitioned(self) -> bool:
        """
        True if a block holds some points of a free axis only, a thread more than one, or if threads
        share a reduce.
        """
        launch = self.launch
        if self.combined or any(launch.kind(a) not in (BLOCK, THREAD) for a in launch.axes):
            return True
        blocks, threads = set(launch.axes_of(BLOCK)), set(launch.axes_of(THREAD))
        stores = [op for op in indexed_ops(launch) if isinstance(op, StoreOpBase)]
        exprs = [e for op in stores for e in (*op.subscripts, *op.where)]
        return any(blocks & set(e.values()) and threads & set(e.values()) for e in exprs)

    @property
    def threads(self) -> int:
        """The points of the thread axes: the threads of a block, once its axes are partitioned."""
        return prod(map(self.launch.extent, self.launch.axes_of(THREAD)))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of buffers, of boxes that are stored, and of tables, in bytes."""
        return self.bytes_with({})

    def bytes_with(self, types: Mapping[Buffer, MemRefType[Attribute]]) -> int:
        """The bytes if some buffers had other types; those that take another's place need none."""

        def type_of(buffer: Buffer) -> MemRefType[Attribute]:
            return types.get(buffer, buffer_type(buffer))

        def is_in_place(buffer: Buffer) -> bool:
            taken = overwritten(buffer) if isinstance(buffer, tile.ComputeOp) else None
            return taken is not None and type_of(taken) == type_of(buffer)

        buffers = sum(span_bytes(type_of(b)) for b in self.buffers if not is_in_place(b))
        return buffers + slab_bytes(self.launch) + table_bytes(self.launch)


def tile_state(launch: tile.LaunchOp) -> TileState:
    """The state of a launch as it is now."""
    ops = list(launch.walk())
    combines = [op for op in ops if isinstance(op, tile.CombineOp)]
    folded = {axis for op in combines for axis in op.axes}
    folded |= {axis for op in ops if isinstance(op, AlongOpBase) for axis in op.indices}
    return TileState(
        launch,
        tuple(op for op in ops if isinstance(op, Buffer)),
        frozenset(a for a in launch.axes_of(THREAD) if a in folded),
    )
