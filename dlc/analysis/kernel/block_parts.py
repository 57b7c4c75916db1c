"""The parts that the blocks of a grid are divided into, each of which does something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import scf
from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.ir.expr import Expr


@dataclass(frozen=True)
class Part:
    """Blocks of a grid, and what they alone do."""

    blocks: range
    op: scf.IfOp


def parts_of(func: kernel.FuncOp) -> tuple[Part, ...]:
    """
    The branches of a kernel that no block takes two of, as their conditions compare the number of
    the block with numbers; none if any two overlap.
    """
    found = [part for op in func.body.block.ops if (part := _part(op, func.grid_size)) is not None]
    found.sort(key=lambda part: part.blocks.start)
    overlap = any(one.blocks.stop > other.blocks.start for one, other in pairwise(found))
    return () if overlap else tuple(found)


def conditions_of(block: Expr, part: range, grid: int) -> list[Expr]:
    """What holds, each being >= 0, for the number of a block of a grid if it is of a part."""
    first, last = block - part.start, Expr((), part.stop - 1) - block
    return [*([first] if part.start else []), *([last] if part.stop < grid else [])]


def _part(op: Operation, grid: int) -> Part | None:
    """The blocks that take a branch, if only their number decides."""
    if not isinstance(op, scf.IfOp) or op.false_region.blocks:
        return None
    test = op.cond.owner
    if not isinstance(test, kernel.TestOp):
        return None
    blocks = _blocks(test.where, grid)
    return None if blocks is None else Part(blocks, op)


def _blocks(where: Sequence[Expr], grid: int) -> range | None:
    """The numbers of blocks for which conditions hold; None if they read something else."""
    first, stop = 0, grid
    for expr in where:
        if len(expr.terms) != 1:
            return None
        ((value, factor),) = expr.terms
        owner = getattr(value, "owner", None)
        if not isinstance(owner, kernel.BlockIdOp) or owner.part is not None:
            return None
        if factor == 1:
            first = max(first, -expr.constant)
        elif factor == -1:
            stop = min(stop, expr.constant + 1)
        else:
            return None
    return range(first, stop)
