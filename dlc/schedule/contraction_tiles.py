"""The kernels that are tiled, and their problems: one answer for the schedule and the estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.loop.contraction import Contraction, contraction_of, factors
from dlc.analysis.loop.cost import flops_of
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.ir.variance import Variance, variance
from dlc.schedule.tiling import Problem


@dataclass(frozen=True)
class Tiled:
    """A kernel that is a contraction, and what is tiled: a row and a column axis, the longest."""

    outer: loop.ForOp
    found: Contraction
    row: BlockArgument
    column: BlockArgument
    chunked: Mapping[loop.LoadOp, frozenset[SSAValue]]
    """The loads that vary along K, and along what else."""
    problem: Problem


def outer_loop(kernel: loop.KernelOp) -> loop.ForOp | None:
    """The loop around the whole kernel, if there is one."""
    nested = [op for op in kernel.body.block.ops if op.regions or isinstance(op, loop.StoreOp)]
    return nested[0] if len(nested) == 1 and isinstance(nested[0], loop.ForOp) else None


def tiled_contraction(kernel: loop.KernelOp) -> Tiled | None:
    """A kernel as a contraction under free loops and nothing else, or None if it is none."""
    outer = outer_loop(kernel)
    if outer is None:
        return None
    inner = [op for op in outer.body.block.ops if isinstance(op, AxesOp)]
    if len(inner) != 1 or not isinstance(reduce := inner[0], loop.ReduceOp):
        return None
    if any(isinstance(op, AxesOp) for op in reduce.body.walk()):
        return None
    along = variance(kernel)
    found = contraction_of(reduce, along)
    if found is None:
        return None
    k_axes = set[SSAValue](reduce.axes)
    loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
    chunked = {op: along[op.result] for op in loads if along[op.result] & k_axes}

    def run(axis: BlockArgument) -> float:
        """The length of an axis over the steps that its points are apart in an operand."""
        steps = (abs(s.coefficient(axis) or 1) for op in chunked for s in op.subscripts)
        return outer.hint(axis) / max(steps, default=1)

    # Of several axes of one length the innermost, along which memory is most likely contiguous.
    inward = outer.axes[::-1]
    row = max((a for a in inward if a in found.rows), key=run)
    column = max((a for a in inward if a in found.columns), key=run)
    problem = _problem(outer, reduce, found, (row, column), chunked, along)
    return Tiled(outer, found, row, column, chunked, problem)


def _problem(
    outer: loop.ForOp,
    reduce: loop.ReduceOp,
    found: Contraction,
    tiled: tuple[BlockArgument, BlockArgument],
    chunked: Mapping[loop.LoadOp, frozenset[SSAValue]],
    along: Variance,
) -> Problem:
    """The sizes of a contraction, of which a row and a column axis are tiled."""
    row, column = tiled
    row_factors, column_factors = factors(found, along)

    def work(axes: Sequence[SSAValue], others: Sequence[SSAValue]) -> float:
        """The arithmetic at a point that belongs to one operand, which varies along the axes."""
        own = (op for op in reduce.body.walk() if op.results)
        return sum(
            flops_of(op)
            for op in own
            if along[op.results[0]].intersection(axes)
            and not along[op.results[0]].intersection(others)
        )

    def points(varies: frozenset[SSAValue]) -> int:
        """Elements of one operand for a point of K."""
        return prod(outer.hint(a) for a in outer.axes if a in varies)

    loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
    return Problem(
        batch=prod(map(outer.hint, outer.axes)) // max(outer.hint(row) * outer.hint(column), 1),
        rows=outer.hint(row),
        columns=outer.hint(column),
        k=reduce.hint(reduce.axes[-1]),
        row_operands=sum(row in varies for varies in chunked.values()),
        column_operands=sum(column in varies for varies in chunked.values()),
        row_factors=row_factors,
        column_factors=column_factors,
        operand_points=sum(points(v) for v in chunked.values() if v & {row, column}),
        sums=len(reduce.results),
        bytes_=max(element_bytes(op.result.type) for op in loads),
        computed_bytes_=element_bytes(reduce.results[0].type),
        row_work=work(found.rows, found.columns),
        column_work=work(found.columns, found.rows),
    )
