"""
The tilings of a contraction that are tried, and the fastest of them by the estimate of each
(`dlc.schedule.candidate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain, count, islice, product, takewhile
from math import inf, prod

from dlc.dialects.mma_layouts import TYPES
from dlc.schedule import grain
from dlc.schedule.candidate import MANY, Candidate
from dlc.schedule.endings import endings
from dlc.schedule.problem import Problem
from dlc.schedule.rising_order import Rising
from dlc.schedule.tile_bounds import TileBounds
from dlc.schedule.warp_candidate import warp_candidate_of
from dlc.schedule.warpgroup_candidate import warpgroup_tiles
from dlc.target import MAX_REGISTERS, MAX_THREADS, Target

WARP_TILES = (
    *((64, 64), (64, 32), (32, 64), (32, 32)),
    *((64, 48), (48, 64), (48, 32), (32, 48), (32, 80), (32, 112)),
    *((64, 16), (16, 64), (32, 16), (16, 32), (16, 16)),
)
"""Rows and columns of a warp on tensor cores."""
WARPS = ((2, 4), (4, 2), (2, 2), (1, 4), (4, 1), (1, 2), (2, 1), (1, 1), (1, 8), (8, 1), (4, 4),
         (3, 4), (4, 3))  # fmt: skip
"""Rows and columns of warps in a block."""
THREAD_TILES = (
    *((8, 16), (16, 8), (8, 8), (8, 4), (4, 8), (4, 4)),
    *((2, 4), (2, 8), (1, 8), (1, 4), (2, 2), (1, 1)),
)
"""Rows and columns of a thread, which holds all sums of each."""
THREADS = ((16, 16), (8, 16), (16, 8), (8, 8), (8, 32), (4, 32), (4, 16), (2, 32),
           (32, 4), (16, 4))  # fmt: skip
"""Rows and columns of threads in a block."""
NARROW = ((64, 2), (32, 2), (16, 2))
"""More of them, where two threads have all columns that there are."""
CHUNKS = (16, 32)
"""Points of K in a chunk."""
LONGEST = 128
"""Of all chunks, those of tensor cores included."""
UNROLLED = 1024
"""Multiply-adds of a thread in a chunk's unrolled loop: 16 KiB of instructions, twice as much for
twice `MANY` sums, of which a step has twice as many."""
MOST = 128
"""Sums of a thread that leave registers for their factors; `MANY` leave some for where they are
stored, too, which the compiler computes beside a sole chunk of multiply-adds (ptxas, rows of 54 of
64 images: 255 registers, 1200 bytes spilled), or divides for (places of volumes as one axis, 384
bytes)."""
TOLERANCE = 1.1
"""The ratio of two times up to which the estimate cannot tell them apart."""
SHAPES = 5
"""The number of candidates of different shapes that `--explain` shows."""


@lru_cache(maxsize=256)
def rings(depth: int, target: Target) -> list[str]:
    """The steps that make stages rings, and have them filled without waiting where that can be."""
    return [f"double-buffer{{depth={depth}}}", *stages(target)]


def stages(target: Target) -> list[str]:
    """The step that has slabs copied without waiting for each element, where that can be."""
    return ["async-copy"] if target.has("cp.async") else []


@lru_cache(maxsize=1024)
def candidates(problem: Problem, target: Target) -> tuple[Candidate, ...]:
    """
    The best candidate of those that fit, and the next best ones that differ from it and from each
    other in shape, the best first.
    """
    shapes: dict[object, Candidate] = {}
    for c in _ranked(problem, target):
        shapes.setdefault((c.block, c.splits, c.precision), c)
        if len(shapes) == SHAPES:
            break
    found = list(shapes.values())
    asked = problem.tensor is not None and problem.tensor.type == "f32"
    if asked and not any(c.precision for c in found):
        found += islice(_rising(problem, target, _warp_tiles), 1)
    return tuple(found)


@lru_cache(maxsize=4096)
def best_candidate(problem: Problem, target: Target) -> Candidate | None:
    """The first of `candidates`, which looks at no more than it takes to know that one."""
    return next(iter(_ranked(problem, target)), None)


def alike(problem: Problem, target: Target) -> list[Candidate]:
    """
    The candidates that the estimate cannot tell from the fastest, the best first; none whose
    threads issue more beside multiply-adds, which the estimate leaves out.
    """
    rising = _ranked(problem, target)
    found = list(islice(rising, 1))
    near = takewhile(lambda c: c.seconds <= TOLERANCE * found[0].seconds, rising)
    return found + [c for c in near if c.is_dense or not found[0].is_dense]


def ranked(problem: Problem, target: Target, most: int) -> list[Candidate]:
    """So many of the candidates that fit, the best first."""
    return list(islice(_ranked(problem, target), most))


def ranked_in_one_launch(problem: Problem, target: Target, most: int) -> list[Candidate]:
    """So many of the candidates that no second kernel follows, the fastest first."""
    return list(islice(_rising(_asked(problem, target), target, alone=True), most))


def not_multiplied(problem: Problem, target: Target) -> str:
    """Why tensor cores do not multiply f32 where this is asked for; empty if they can."""
    if target.precision == "f32" or problem.tensor is None or problem.tensor.type != "f32":
        return ""
    return "" if target.has("tf32") else f"products by {target.precision}: {target.lacking('tf32')}"


def _ranked(problem: Problem, target: Target) -> Rising[Candidate]:
    """All candidates that fit, the best first."""
    return _ranked_once(_asked(problem, target), target)


def _asked(problem: Problem, target: Target) -> Problem:
    """A problem without the tensor cores that it is not asked to use: the same to threads."""
    if problem.tensor and problem.tensor.type == "f32" and target.precision == "f32":
        return replace(problem, tensor=None)
    return problem


@lru_cache(maxsize=256)
def _ranked_once(problem: Problem, target: Target) -> Rising[Candidate]:
    return Rising(_ranking(problem, target))


def _ranking(problem: Problem, target: Target) -> Iterator[Candidate]:
    """
    All candidates that fit, the best first: of those that are about as fast as the fastest, the
    fastest whose threads issue little beside multiply-adds. These are looked at by themselves, as
    most ask for no more than the best.
    """
    rising = _rising(problem, target)
    if (fastest := next(rising, None)) is None:
        return
    limit = TOLERANCE * fastest.seconds
    if fastest.is_dense:
        yield fastest
    dense = _rising(problem, target, dense=True, limit=limit)
    yield from islice(dense, int(fastest.is_dense), None)
    for c in chain([fastest], rising):
        if not (c.is_dense and c.seconds <= limit):
            yield c


Tiles = Callable[[Problem, Target], Iterator[Candidate]]
"""Candidates that do not split K."""


def _rising(
    problem: Problem,
    target: Target,
    made: Tiles | None = None,
    *,
    alone: bool = False,
    dense: bool = False,
    limit: float = inf,
) -> Iterator[Candidate]:
    """
    All candidates that fit, the fastest first, and of equally fast ones the first by `ties`; those
    that are `made` only, if so, those that no second kernel follows, if they are to be `alone`,
    those that are `dense`, if so, and those that take no more seconds than the `limit`. What a
    bound says is not next is not looked at yet: neither what folds the parts of a tile (whose
    numbers are negative until then), nor each of these endings, nor the depths of rings.
    """
    order = count()  # of what nothing else tells apart
    bounds = bounds_of(problem, target, made)
    rising = bounds.rising(problem, dense=dense)
    heap: list[tuple[float, tuple[float, ...], int, int, int, int, Candidate]] = []

    def push_next() -> None:
        for least, number, splits in islice(rising, 1):
            heappush(heap, (least, (), number, -splits, 0, next(order), bounds.tiles[number]))

    push_next()
    while heap:
        least, estimated, number, splits, way, _, c = heappop(heap)
        if least > limit:
            return
        if estimated:
            yield c
        elif splits < 0:
            push_next()
            second = alone and splits < -1
            for way, seconds in enumerate(bounds.endings(number, -splits)):
                if not (second and endings(-splits, target)[way] == "workspace"):
                    heappush(heap, (least + seconds, (), number, -splits, way, next(order), c))
        else:
            whole = c.for_problem(problem, c.depth, 1, ending=c.ending)
            depths = c.depths if whole.rings and whole.chunks > splits else (2,)
            for depth in depths:
                ending = endings(splits, target)[way]
                new = whole.for_problem(problem, depth, splits, ending=ending)
                if new.seconds < inf:
                    place = new.seconds, new.ties, number, splits, way
                    heappush(heap, (*place, next(order), new))


def bounds_of(problem: Problem, target: Target, made: Tiles | None = None) -> TileBounds:
    """The tiles of all problems like one, and the least that they take."""
    chunk = max(CHUNKS) if problem.tensor is None else LONGEST
    return _bounds_of(problem.like(chunk), target, made or _tiles)


@lru_cache(maxsize=128)
def _bounds_of(problem: Problem, target: Target, made: Tiles) -> TileBounds:
    return TileBounds(tuple(made(problem, target)), target)


def _thread_tiles(problem: Problem, target: Target) -> Iterator[Candidate]:
    columns = problem.columns * problem.beside[1]
    for thread, threads, chunk in product(THREAD_TILES, THREADS + NARROW, CHUNKS):
        if threads in NARROW and columns > thread[1] * threads[1]:
            continue
        sums = prod(thread) * problem.sums
        of_one_chunk = chunk >= problem.k * problem.taps and not problem.is_flat
        if sums > (MANY if of_one_chunk or problem.divided else MOST):
            continue
        if sums * chunk > UNROLLED * max(1, sums // MANY):
            continue
        tile = Candidate(problem, target, thread, threads, chunk, 2, 1)
        yield from _stored_tiles(tile)
        if (row := grain.row_of_results(problem, tile.block)) > tile.spread[problem.stored[0]][0]:
            yield from _stored_tiles(replace(tile, row=row))


def _stored_tiles(tile: Candidate) -> Iterator[Candidate]:
    """A tile, and those that store neighbours side by side where it stores parts of sectors."""
    problem, thread, side = tile.problem, tile.thread, tile.problem.stored[0]
    yield tile
    if tile.stored_seconds and problem.beside[side] > 1 and thread[side] > 1:
        lone = replace(tile, lone=side)
        if lone.points_held[side][0] == 1:
            yield lone
            if 1 < problem.gaps <= MAX_THREADS // lone.thread_count:
                yield replace(lone, gaps=problem.gaps)


def _warp_tiles(problem: Problem, target: Target) -> Iterator[Candidate]:
    """Tiles for tensor cores, if these can compute the sums and may."""
    if problem.tensor is None:
        return
    if problem.tensor.type == "f32" and target.precision == "f32":
        return
    if not target.has(TYPES[problem.tensor.type].feature):
        return
    made = warp_candidate_of(problem.tensor.type, target.precision)
    for warp, warps, chunk in product(WARP_TILES, WARPS, made.chunk_sizes):
        tile = made(problem, target, warp, warps, chunk, 2, 1)
        fits = tile.sums <= made.most and tile.registers <= MAX_REGISTERS
        if fits and (chunk == made.chunk_sizes[-1] or chunk < 2 * problem.k):
            yield tile


def _tiles(problem: Problem, target: Target) -> Iterator[Candidate]:
    yield from warpgroup_tiles(problem, target)
    yield from _warp_tiles(problem, target)
    yield from _thread_tiles(problem, target)
