"""The iterations of a reduce that the threads of a block can skip together."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL, AxesOp
from dlc.dialects.ring_ops import ASYNC, ChunkOp
from dlc.ir.variance import Variance


def can_skip(op: tile.ReduceOp, along: Variance) -> bool:
    """
    True if the fold of a reduce has conditions, they are the same for all threads of a block, and
    iterations in which they do not hold can be left out. `along` is known for the whole launch.
    """
    values = [value for condition in op.yielded.where for value in condition.values()]
    uniform = all(_is_uniform(axis) for value in values for axis in along[value])
    return bool(op.yielded.where) and uniform and _rings_allow(op, along)


def _rings_allow(op: tile.ReduceOp, along: Variance) -> bool:
    """
    Chunks of rings are requested in earlier iterations than use them and counted one by one: a
    loop over them may skip the last ones, and the first ones if what requests and waits can still
    be done in these, by cp.async.
    """
    chunks = [o for o in op.body.walk() if isinstance(o, ChunkOp)]
    if not chunks:
        return True
    if len(op.axes_of(SERIAL)) != 1:
        return False
    (axis,) = op.axes_of(SERIAL)
    late = all(chunk.source.fill_kind == ASYNC for chunk in chunks)
    for condition in op.yielded.where:
        step = condition.coefficient(axis)
        others = [v for v in condition.values() if v is not axis]
        if step is None or (step > 0 and not late) or any(axis in along[v] for v in others):
            return False
    return True


def _is_uniform(axis: SSAValue) -> bool:
    """True for the axes along which the threads of a block go together."""
    loop = axis.owner.parent_op() if isinstance(axis.owner, Block) else None
    return isinstance(loop, AxesOp) and loop.kind(axis) in (BLOCK, SERIAL)
