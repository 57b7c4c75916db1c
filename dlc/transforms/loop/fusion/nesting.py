"""Splitting loops around reduces; see `nest`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.loop.loops import split_levels
from dlc.dialects.access import StoreOpBase
from dlc.dialects.axes import new_body
from dlc.dialects.loop import ForOp, KernelOp, YieldOp, scans_in
from dlc.transforms.loop.fusion.hoisting import used_values

_AXIS_LETTERS = frozenset("abhij")


def nest(kernel: KernelOp) -> None:
    """
    Rebuilds the loops of a kernel so that every reduce stands inside the axes that it varies along
    and no others, as far as these sets are nested in each other.
    """
    for op in list(kernel.body.block.ops):
        if isinstance(op, ForOp):
            _nest(op)


def unnest(kernel: KernelOp) -> bool:
    """Makes loops of which each is the only one in the one before one loop; says if there are."""
    found = False
    for op in list(kernel.body.block.ops):
        if isinstance(op, ForOp) and len(chain := _chain(op)) > 1:
            rebuild(chain, [[axis for loop in chain for axis in loop.axes]])
            found = True
    return found


def _chain(loop: ForOp) -> list[ForOp]:
    """A loop, the only loop in it, the only one in that, and so on."""
    chain = [loop]
    while (inner := _sole_loop(chain[-1].body.block)) is not None:
        chain.append(inner)
    return chain


def _nest(loop: ForOp) -> None:
    """`nest` for the chain of loops that begins with `loop`, and for the loops in the last one."""
    chain = _chain(loop)
    levels = split_levels(chain)
    core = [op for op in chain[-1].body.block.ops if isinstance(op, ForOp)]
    if [list(level) for level in levels] != [list(f.axes) for f in chain]:
        rebuild(chain, levels)
    for op in core:
        _nest(op)


def rebuild(chain: Sequence[ForOp], levels: Sequence[Sequence[BlockArgument]]) -> None:
    """
    Replaces loops, each the only one in the one before, by others over the same axes: of `levels`
    each the only one in the one before. What is computed moves out as far as it does not vary.
    """
    loop = chain[0]
    extents = {axis: f.extent(axis) for f in chain for axis in f.axes}
    ops = [op for f in chain for op in f.body.block.ops if op not in chain]
    ops = [op for op in ops if not isinstance(op, YieldOp)]
    level_of: dict[SSAValue, int] = {}
    loops: list[ForOp] = []
    for depth, axes in enumerate(levels):
        new = ForOp([extents[a] for a in axes], new_body(len(axes), _names(levels, depth)))
        for old, axis in zip(axes, new.axes, strict=True):
            old.replace_all_uses_with(axis)
            level_of[axis] = depth
        loops.append(new)
    for op in ops:
        innermost = isinstance(op, StoreOpBase | ForOp)
        level = max((level_of.get(v, 0) for v in used_values(op)), default=0)
        level = len(loops) - 1 if innermost else level
        for result in op.results:
            level_of[result] = level
        op.detach()
        _append(loops[level], op)
    for outer, inner in pairwise(loops):
        _append(outer, inner)
    Rewriter.replace_op(loop, loops[0])


def _append(loop: ForOp, op: Operation) -> None:
    last = loop.body.block.last_op
    assert last is not None
    loop.body.block.insert_op_before(op, last)


def _sole_loop(block: Block) -> ForOp | None:
    """The loop in a block that holds one and no store beside it; none along which scans go."""
    outer = [op for op in block.ops if isinstance(op, ForOp | StoreOpBase)]
    if len(outer) != 1 or not isinstance(outer[0], ForOp) or scans_in(outer[0]):
        return None
    return outer[0]


def _names(levels: Sequence[Sequence[BlockArgument]], depth: int) -> list[str | None]:
    """Single letters tell nothing about a nest of rows and columns, so these get their names."""
    names = [a.name_hint for a in levels[depth]]
    if len(levels) == 2 and names[-1] in _AXIS_LETTERS:
        names[-1] = "row" if depth == 0 else "c"
    return names
