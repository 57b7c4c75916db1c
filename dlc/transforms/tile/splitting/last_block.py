"""The last of the blocks that share a reduce folds what all of them hold, in order."""

from __future__ import annotations

from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile
from dlc.transforms.tile.splitting.reduce_split import Split


def fold_in_last(kernel: tile.KernelOp, split: Split) -> None:
    """Splits a reduce among blocks, of which the last that comes goes on with the whole."""
    reduce = split.reduce
    block = split.deal(kernel.launch)
    fold = tile.CombineOp(reduce.monoid_name.data, reduce.results, [block])
    fold.location = reduce.location
    Rewriter.insert_op(fold, InsertPoint.after(reduce))
    for part, result in zip(reduce.results, fold.results, strict=True):
        result.name_hint = part.name_hint
        part.name_hint = f"{part.name_hint or 'r'}_part"
        part.replace_uses_with_if(result, lambda use: use.operation is not fold)
