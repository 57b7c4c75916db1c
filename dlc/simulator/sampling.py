"""How long the interpreter takes for a kernel, and which blocks stand for all of many."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block

from dlc.analysis.kernel.conflicts import trip_count
from dlc.dialects import kernel

SECONDS_PER_STEP = 1e-5
"""What an operation costs, for few threads that run in step; and"""
SECONDS_PER_LANE = 6e-9
"""for each thread. Both as measured on one core of a laptop."""
FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class Work:
    """What the threads of a block execute, as far as the bounds of loops are known."""

    steps: int
    """Operations."""
    turns: int
    """Of loops."""
    is_exact: bool
    """Is no loop's number of turns unknown? One turn is counted where it is."""

    @staticmethod
    def of(func: kernel.FuncOp) -> Work:
        return _work(func.body.block)

    def seconds(self, blocks: int, threads: int) -> float:
        """About as long that many blocks take."""
        return self.steps * (SECONDS_PER_STEP + blocks * threads * SECONDS_PER_LANE)


def _work(block: Block) -> Work:
    steps = turns = 0
    exact = True
    for op in block.ops:
        steps += 1
        if not op.regions:
            continue
        inner = [_work(region.block) for region in op.regions if region.blocks]
        count = 1
        if isinstance(op, scf.ForOp):
            trips = trip_count(op)
            exact, count = exact and trips is not None, 1 if trips is None else trips
            turns += count
        steps += count * sum(work.steps for work in inner)
        turns += count * sum(work.turns for work in inner)
        exact = exact and all(work.is_exact for work in inner)
    return Work(steps, turns, exact)


def chosen_blocks(func: kernel.FuncOp, budget: float) -> list[int] | None:
    """
    The blocks of a kernel that can be run in so many seconds, the first two and the last two among
    them and the others evenly between; None for all.
    """
    work, grid = Work.of(func), func.grid_size
    if work.seconds(grid, func.block_size) <= budget:
        return None
    alone = work.steps * SECONDS_PER_LANE * func.block_size
    count = int(max(budget - work.steps * SECONDS_PER_STEP, 0) / alone)
    return spread_blocks(grid, max(count, FEWEST_BLOCKS))


def spread_blocks(grid: int, count: int) -> list[int] | None:
    """So many blocks of a grid, ends included; None for all."""
    if count >= grid:
        return None
    ends = {0, 1, grid - 2, grid - 1} if count >= FEWEST_BLOCKS else {0, grid - 1}
    between = max(count - len(ends), 0)
    inner = {2 + n * (grid - 4) // max(between, 1) for n in range(between)}
    return sorted(n for n in (ends | inner) if 0 <= n < grid)[: max(count, 1)]
