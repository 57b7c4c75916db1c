"""Pairs of thread and register axes that number points together, to be dealt out anew."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import BlockArgument

from dlc.dialects import tile
from dlc.dialects.axes import REGISTER, THREAD
from dlc.dialects.indexed_op import IndexedOp, indexed_ops
from dlc.ir.expr import Expr, FloorDiv, Mod


@dataclass(frozen=True)
class Pair:
    """The positions of a thread axis and a register axis among the axes of a launch."""

    thread: int
    register: int


def register_pairs(launch: tile.LaunchOp) -> list[Pair]:
    """
    The thread axes %t and register axes %r, of R points, that are only mentioned as `%t * R + %r`;
    an axis is in one pair at most.
    """
    found: list[Pair] = []
    for r in launch.axes_of(REGISTER):
        for t in launch.axes_of(THREAD):
            taken = any(t.index == pair.thread for pair in found)
            if not taken and _only_together(launch, t, r):
                found.append(Pair(t.index, r.index))
                break
    return found


def _only_together(launch: tile.LaunchOp, t: BlockArgument, r: BlockArgument) -> bool:
    extent = launch.extent(r)
    if any(not isinstance(u.operation, IndexedOp) for axis in (t, r) for u in axis.uses):
        return False
    exprs = [e for op in indexed_ops(launch) for e in (*op.subscripts, *op.where)]
    mentioned = any(r in e.values() for e in exprs)
    return mentioned and all(_is_together(e, t, r, extent) for e in exprs)


def _is_together(expr: Expr, t: BlockArgument, r: BlockArgument, extent: int) -> bool:
    """True if `t` and `r` are mentioned as multiples of `t * extent + r` only."""
    atoms = expr.coefficients
    inner = (a.base for a in atoms if isinstance(a, FloorDiv | Mod))
    return atoms.get(t, 0) == extent * atoms.get(r, 0) and all(
        _is_together(base, t, r, extent) for base in inner
    )
