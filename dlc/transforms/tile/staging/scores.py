"""Of a chunk, scores, and the largest and the sum of each row, are computed once for a block; see
`compute_scores` and `compute_row_sums`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.loop.loops import computed_alike
from dlc.analysis.tile.input_slabs import Slab
from dlc.analysis.tile.operands import ComputedOperand, operand_of, separate
from dlc.dialects import tile
from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.ir.known_numbers import is_number
from dlc.ir.variance import variance
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
        score = largest.yielded.values[0].owner
        if not isinstance(score, Operation) or score.parent_op() is not largest:
            continue
        if not isinstance(score, tile.LoadOp):
            operand = operand_of(kernel, score)
            if operand is None or operand.bytes > left:
                continue
            if not operand.scope.is_ancestor(sums):
                notes.append(f"{operand.name} of one place at a time serve one loop, not two")
                continue
            alike = _alike(score, largest, sums)
            notes += _skip_masked(score, largest, operand)
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


def _alike(score: Operation, largest: tile.ReduceOp, sums: tile.ReduceOp) -> list[Operation]:
    """What computes in another reduce what a score is in the one for the largest."""
    axes = dict[SSAValue, SSAValue](zip(sums.axes, largest.axes, strict=True))
    return [
        op
        for op in sums.body.block.ops
        if len(op.results) == 1 and computed_alike(op.results[0], score.results[0], axes)
    ]


def compute_row_sums(kernel: tile.KernelOp, left: int) -> list[str]:
    """
    Gives sums over a chunk of computed slabs, which a block computes beside sums that vary along
    more axes, slabs of their own, in so many bytes; says what was computed.
    """
    notes: list[str] = []
    for sums in [op for op in kernel.launch.walk() if isinstance(op, tile.ReduceOp)]:
        if sums.monoid.together or not kernel.launch.is_ancestor(sums):  # one around is another now
            continue
        for number in _of_fewer_axes(kernel, sums):
            part = _part(sums, [number])
            Rewriter.insert_op(part, InsertPoint.after(sums))
            operand = operand_of(kernel, part)
            if operand is None or operand.bytes > left or operand.reuse <= 1:
                Rewriter.erase_op(part)
                continue
            left -= operand.bytes
            notes.append(f"computed {told(operand.name, operand)}")
            sums.results[number].replace_all_uses_with(compute(operand).result)
        _drop_unused(sums)
    return notes


def _of_fewer_axes(kernel: tile.KernelOp, sums: tile.ReduceOp) -> list[int]:
    """Which results vary along fewer axes of the launch than others of the same reduce."""
    along = variance(kernel.launch)
    varies = [along[result] for result in sums.results]
    return [n for n, own in enumerate(varies) if any(own < other for other in varies)]


def _part(reduce: tile.ReduceOp, numbers: Sequence[int]) -> tile.ReduceOp:
    """A copy of a reduce that folds only some of its values."""
    copy, types = reduce.clone(), [reduce.results[n].type for n in numbers]
    kinds = [reduce.kind(axis) for axis in reduce.axes]
    body = copy.detach_region(copy.body)
    part = tile.ReduceOp(reduce.monoid_name.data, reduce.all_extents, types, body, kinds)
    copy.erase()
    last = part.yielded
    new = tile.YieldOp([last.values[n] for n in numbers], last.where)
    Rewriter.replace_op(last, new, [])
    for op in reversed(list(part.body.block.ops)[:-1]):
        if not any(r.uses for r in op.results):
            Rewriter.erase_op(op)
    part.location = reduce.location
    for n, result in zip(numbers, part.results, strict=True):
        result.name_hint = reduce.results[n].name_hint
    return part


def _drop_unused(reduce: tile.ReduceOp) -> None:
    """Folds no values that nobody reads, if others are read."""
    kept = [n for n, result in enumerate(reduce.results) if result.uses]
    if kept and len(kept) < len(reduce.results):
        part = _part(reduce, kept)
        found = dict(zip(kept, part.results, strict=True))
        Rewriter.replace_op(reduce, part, [found.get(n) for n in range(len(reduce.results))])


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


def _skip_masked(score: Operation, largest: tile.ReduceOp, operand: ComputedOperand) -> list[str]:
    """
    Folds nothing of chunks that come before the first or after the last in which a score of the
    block is not -inf: their powers are 0 beside any other. Says so if there can be such.
    """
    chunk = largest.parent_op()
    if not isinstance(score, tile.SelectOp) or not isinstance(chunk, tile.ReduceOp):
        return []
    if not is_number(score.default, -inf):
        return []
    if not chunk.axes:
        return []  # there is one chunk
    axis = chunk.axes[-1]
    held: list[Expr] = []
    for condition in score.where:
        fixed = {v for v in condition.values() if v not in operand.walked}
        parts = separate(condition, fixed, operand.walked)
        if parts is None:
            continue
        best = parts[0] + int(most(parts[1]))
        if best.coefficient(axis) and len(fixed) > 1:
            held.append(best)
    if not held:
        return []
    last = chunk.yielded
    last.set_index(last.subscripts, [*last.where, *held])
    return ["chunks of which all is masked are skipped"]


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
