"""A reduce that is dealt over an axis of the launch: the fold of its parts after it."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile


def combine_after(
    reduce: tile.ReduceOp | tile.CombineOp,
    axis: SSAValue,
    *,
    cluster: bool = False,
    whole: bool = False,
    dealt: bool = False,
) -> tile.CombineOp:
    """
    Folds after a reduce, or a fold, what the points of an axis hold of it, and has all else use
    that; they may be the blocks of a `cluster`, of which each goes on with the `whole`, or threads
    over which what follows is `dealt`.
    """
    monoid = reduce.monoid_name.data
    combine = tile.CombineOp(
        monoid, reduce.results, [axis], cluster=cluster, whole=whole, dealt=dealt
    )
    combine.location = reduce.location
    Rewriter.insert_op(combine, InsertPoint.after(reduce))
    for part, result in zip(reduce.results, combine.results, strict=True):
        result.name_hint = part.name_hint
        part.name_hint = f"{part.name_hint or 'r'}_part"
        part.replace_uses_with_if(result, lambda use: use.operation is not combine)
    return combine
