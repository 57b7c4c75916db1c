"""
How the points of a block lie in memory, and what stores take that go against the grain: those of
neighbouring threads lie in sectors of their own.
"""

from __future__ import annotations

from math import ceil, gcd

from dlc.schedule.problem import Problem
from dlc.target import LINE_BYTES, SECTOR_BYTES, Target

Pair = tuple[int, int]

SECTOR = SECTOR_BYTES // 4
"""Elements of fp32 that are fetched from memory at once."""
LINE = LINE_BYTES // 4
"""Those of a line of the L1 cache."""
STRIPS = (4, 2)
"""Neighbours that a thread has at once, if its points are a multiple."""


def held_over(points: int, along: int, beside: int, strip: int) -> int:
    """
    Of a thread's points those along an axis of which its block has so many, and some beside: a
    strip, which it reads at once, if the others can lie beside in strips, so that what neighbours
    store are neighbours in memory; else all.
    """
    others, rest = divmod(points, strip)
    fits = others > 1 and rest == 0 and along >= strip and beside % others == 0
    return strip if fits else min(points, along)


def points_held(
    thread: Pair, spread: tuple[Pair, Pair], lone: int | None, strip: int
) -> tuple[Pair, Pair]:
    """
    Of a thread's rows and columns those along their axis and along the one beside it: strips, if
    they fit, but all beside on the side that is `lone`.
    """
    strips = [1 if side == lone else strip for side in (0, 1)]
    rows, columns = (held_over(n, *s, w) for n, s, w in zip(thread, spread, strips, strict=True))
    return (rows, thread[0] // rows), (columns, thread[1] // columns)


def reads(problem: Problem, thread: Pair, lone: int | None, strip: int) -> Pair:
    """
    Loads from shared memory of a thread's rows and columns for as many points of K as a strip has:
    of strips, but of elements on the side that is `lone`.
    """
    rows, columns = thread[0], ceil(thread[1] / strip) * strip
    each = [strip if side == lone else 1 for side in (0, 1)]
    return each[0] * rows * problem.row_factors, each[1] * columns * problem.column_factors


def fetched_elements(problem: Problem, block: Pair, spread: tuple[Pair, Pair]) -> float:
    """Elements of the sectors of the operands for a point of K; runs begin anywhere in a sector."""
    p, (rows, columns), ((along, _), (beside, _)) = problem, block, spread
    of_rows = rows * (p.row_fetched + p.row_edges * (SECTOR - 1) / along)
    return of_rows + columns * (p.column_fetched + p.column_edges * (SECTOR - 1) / beside)


def line_clocks(problem: Problem, block: Pair, spread: tuple[Pair, Pair], points: int) -> float:
    """
    Clocks of an SM in which copies look up lines: of neighbours that are apart, and of rows of
    elements that are copied one by one, where those are shorter than a line.
    """
    scalar = problem.scalar_row_operands, problem.scalar_column_operands
    sides = zip(block, problem.lines, scalar, spread, strict=True)
    return points * sum(
        n * (lines + single * max(1 / along - 1 / LINE, 0))
        for n, lines, single, (along, _) in sides
    )


def stored_seconds(
    problem: Problem,
    spread: tuple[Pair, Pair],
    held: tuple[Pair, Pair],
    between: int,
    target: Target,
) -> float:
    """
    Seconds that L2 takes for parts of sectors that are stored after the first, by blocks that are
    at their ends together: of a sector, an instruction of a warp has what lanes hold that are
    neighbours in memory, each a strip of those that it holds, and so many `between` two strips; of
    windows with strides it may have single points, as `permute-register-tile` deals them.
    Where rows begin within sectors, neighbouring blocks store parts of those that they share, if
    that is more.
    """
    side, step, width = problem.stored
    points, own = spread[side][0], held[side][0]
    sector, strip = SECTOR_BYTES // problem.bytes_, next((n for n in STRIPS if own % n == 0), own)
    parts = min(
        sector
        / min(gcd(width, n) * max(min(points // own, sector / (n * step)), 1) * between, sector)
        for n in ((strip, 1) if problem.strided[side] else (strip,))
    )
    results = problem.batch * problem.results
    again = results * problem.bytes_ * (parts - 1)
    seconds = target.stored_rate * again / target.l2_bandwidth
    shared = results / _run(problem, points) * _cut(problem) * target.shared_sector_seconds
    return max(seconds, shared)


def _run(problem: Problem, points: int) -> int:
    """Neighbours in memory that a block stores of a row."""
    return min(points, (problem.rows, problem.columns)[problem.stored[0]])


def _cut(problem: Problem) -> float:
    """
    The sectors that such a run shares with others beyond those that it fills, in the mean: none
    where rows begin at multiples of 16 bytes, of which nothing was measured, or where neighbours
    are stored apart anyway.
    """
    _, step, width = problem.stored
    sector = SECTOR_BYTES // problem.bytes_
    return 0 if step > 1 or width >= STRIPS[0] else 1 - gcd(width, sector) / sector


def row_of_results(problem: Problem, block: Pair) -> int:
    """
    Points along a row of results that blocks whose rows share sectors may have, to store all of
    it: the least power of two that covers it; 0 if none share any or the block has not so many.
    """
    side = problem.stored[0]
    whole = 1 << ((problem.rows, problem.columns)[side] - 1).bit_length()
    return whole if _cut(problem) and whole <= block[side] else 0
