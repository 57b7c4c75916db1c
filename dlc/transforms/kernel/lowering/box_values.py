"""
Which values are computed box by box, where the tensor memory accelerator stores boxes of results.

All that is computed of a warp's sums before its first box is stored is held in registers from there
on, beside the sums. What varies along the columns of boxes, and is only there to be stored in them,
is computed where its box is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.traits import is_side_effect_free

from dlc.dialects import kernel, tile
from dlc.dialects.warp_boxes import warp_boxes
from dlc.transforms.kernel.lowering.register_lowering import RegisterLowering

_LOADS = frozenset[type[Operation]]({tile.LoadOp, kernel.LoadOp})
_TELLS = frozenset[type[Operation]](
    {
        kernel.SyncWarpOp,
        kernel.MbarrierArriveOp,
        kernel.MbarrierArriveAtOp,
        kernel.LastBlockOp,
        kernel.ClusterBarrierOp,
    }
)
"""What tells other threads that they may overwrite, or that something is written."""


def ends_reads(op: Operation, group: Sequence[Operation]) -> bool:
    """
    True if what a group reads may be overwritten by an op, or by other threads because of it, or
    if the op reads what the group writes.
    """
    read = {member.ref for member in group if isinstance(member, tile.LoadOp)}
    written = {member.ref for member in group if isinstance(member, tile.StoreOp)}
    return any(
        type(inner) in _TELLS
        or not (written if type(inner) in _LOADS else read).isdisjoint(inner.operands)
        for inner in op.walk()
    )


def computed_for(to: RegisterLowering, store: tile.StoreOp) -> list[Operation]:
    """
    What is computed where a store of boxes is lowered, in order: of the operations that vary along
    its columns, those that only the store needs, and that may come so late.
    """
    boxes = warp_boxes(store, to.registers)
    if isinstance(boxes, str):
        return []
    columns = boxes.pair if boxes.tiles is None else boxes.tiles
    found: list[Operation] = []
    passed: list[Operation] = [store]
    op = store.prev_op
    while op is not None:
        varies = bool(op.results) and columns in to.register_axes(op)
        needed = varies and _is_for(op, {store, *found})
        if needed and not any(ends_reads(later, [op]) for later in passed):
            found.append(op)
        else:
            passed.append(op)
        op = op.prev_op
    return found[::-1]


def _is_for(op: Operation, needed: set[Operation]) -> bool:
    """True for what computes or loads values that only the others need."""
    users = {use.operation for result in op.results for use in result.uses}
    return users <= needed and (
        isinstance(op, tile.LoadOp) or (not op.regions and is_side_effect_free(op))
    )
