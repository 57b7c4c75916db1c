"""Of a chunk, scores and the largest of each row are computed once for a block; see
`compute_scores`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.loops import computed_alike
from dlc.analysis.tile.input_slabs import Slab
from dlc.analysis.tile.operands import ComputedOperand, operand_of
from dlc.dialects import tile
from dlc.ir.expr import Expr
from dlc.transforms.tile.staging.slab_loads import compute


def compute_scores(
    kernel: tile.KernelOp, points: Sequence[int], left: int
) -> tuple[list[str], int]:
    """
    Gives what a chunk's largest is found of, and that largest, slabs of their own, in so many
    bytes, where sums of the chunk need both; says what was computed, and how many bytes are left.
    """
    notes: list[str] = []
    for largest, sums in list(_pairs(kernel)):
        score = largest.yielded.values[0]
        axes = dict[SSAValue, SSAValue](zip(sums.axes, largest.axes, strict=True))
        alike = [
            op
            for op in sums.body.block.ops
            if len(op.results) == 1 and computed_alike(op.results[0], score, axes)
        ]
        if not isinstance(score.owner, Operation) or score.owner.parent_op() is not largest:
            continue
        operand = operand_of(kernel, score.owner)
        if operand is None or operand.bytes > left:
            continue
        left -= operand.bytes
        notes.append(f"computed {told(operand.name, operand)}")
        load = compute(operand, points)
        _load_alike(load, alike, largest, sums)
        operand = operand_of(kernel, largest)
        if operand is not None and operand.bytes <= left:
            left -= operand.bytes
            notes.append(f"computed {told(operand.name, operand)}")
            compute(operand)
    return notes, left


def _pairs(kernel: tile.KernelOp) -> Iterator[tuple[tile.ReduceOp, tile.ReduceOp]]:
    """Reduces for the largest value of a chunk, and those beside it that need it."""
    for largest in kernel.launch.walk():
        chunk = largest.parent_op()
        if not isinstance(largest, tile.ReduceOp) or not isinstance(chunk, tile.ReduceOp):
            continue
        for sums in chunk.body.block.ops:
            uses = largest.results[0].uses
            needs = any(sums.is_ancestor(use.operation) for use in uses)
            if largest.monoid_name.data == "max" and isinstance(sums, tile.ReduceOp) and needs:
                if sums.extents == largest.extents:
                    yield largest, sums


def _load_alike(
    load: tile.LoadOp, alike: Sequence[Operation], first: tile.ReduceOp, other: tile.ReduceOp
) -> None:
    """Loads of a slab in another reduce, in place of what is computed there alike."""
    axes: dict[SSAValue, Expr] = {
        a: Expr.of(b) for a, b in zip(first.axes, other.axes, strict=True)
    }
    for op in alike:
        same = tile.LoadOp(load.ref, [e.substitute(axes.get) for e in load.subscripts])
        same.result.name_hint = op.results[0].name_hint
        Rewriter.insert_op(same, InsertPoint.before(op))
        Rewriter.replace_op(op, [], [same.result])
    for op in reversed(list(other.body.block.ops)):
        if op.results and not any(r.uses for r in op.results):
            Rewriter.erase_op(op)


def told(name: str, slab: Slab | ComputedOperand) -> str:
    """A slab in a remark."""
    return f"{name} ({slab.bytes} B, read {slab.reuse:.3g} times)"
