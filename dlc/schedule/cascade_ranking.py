"""All tilings of attention that fit, by threads and by tensor cores, the fastest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import chain, count, islice, product
from math import ceil

from dlc.dialects.launch_checks import waves_of
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_tiles import (
    CHUNKS,
    DEPTHS,
    MOST_ORDERED,
    SHAPES,
    SPLITS,
    THREAD_TILES,
    THREADS,
    WAVES,
    CascadeCandidate,
)
from dlc.schedule.endings import endings
from dlc.schedule.held_cascade import HeldCascade
from dlc.schedule.rising_order import Rising
from dlc.schedule.warp_cascade import warp_tiles
from dlc.schedule.warpgroup_cascade import warpgroup_cascades
from dlc.target import Target

FEW, MANY = 4, 7
"""Blocks for each SM after which keys are not split further; of one row, which hide little."""


@lru_cache(maxsize=256)
def cascade_candidates(problem: CascadeProblem, target: Target) -> tuple[CascadeCandidate, ...]:
    """The fastest tilings that fit, each of another block, the fastest first."""
    shapes: dict[object, CascadeCandidate] = {}
    for candidate in ranked_cascades(problem, target):
        shapes.setdefault((candidate.block, candidate.splits), candidate)
        if len(shapes) == SHAPES:
            break
    return tuple(shapes.values())


@lru_cache(maxsize=256)
def ranked_cascades(problem: CascadeProblem, target: Target) -> Rising[CascadeCandidate]:
    """All tilings that fit, the fastest first."""
    rising = _rising(problem, target)
    if problem.skips:
        ordered = [_ordered(tile) for tile in islice(rising, MOST_ORDERED)]
        return Rising(iter(sorted(ordered, key=lambda c: (c.seconds, c.ties))))
    return Rising(rising)


def ranked_seconds(tile: CascadeCandidate) -> float:
    """What a tiling is ranked by: its seconds, more where a second kernel folds parts."""
    return tile.seconds + (tile.target.folded_apart if tile.combine_seconds else 0)


def _rising(problem: CascadeProblem, target: Target) -> Iterator[CascadeCandidate]:
    """
    All tilings that fit, the fastest first if all blocks have as much to do, of equally fast ones
    the first by `ties`. What a bound says is not next is not looked at yet.
    """
    made = warpgroup_cascades, warp_tiles, _thread_tiles
    tiles = chain.from_iterable(make(problem, target) for make in made)
    order = count()  # of what nothing else tells apart
    heap: list[tuple[float, tuple[int, ...], int, int, int, CascadeCandidate]] = [
        (min(map(tile.least_seconds, _parts(tile))), (), number, 0, next(order), tile)
        for number, tile in enumerate(tiles)
    ]
    heapify(heap)
    while heap:
        _, estimated, number, splits, _, tile = heappop(heap)
        if estimated:
            yield tile
        elif splits:
            for ending in endings(splits, target):
                way = replace(tile, splits=splits, ending=ending)
                if way.resident:
                    place = ranked_seconds(way), way.ties, number, splits
                    heappush(heap, (*place, next(order), way))
        elif tile.resident:
            for parts in _parts(tile):
                place = tile.least_seconds(parts), (), number, parts
                heappush(heap, (*place, next(order), tile))


def _ordered(tile: CascadeCandidate) -> CascadeCandidate:
    """A tile in the waves of blocks that are fastest, where some blocks have more to do."""
    waves = [n for n in waves_of(ceil(tile.problem.rows / tile.block[0])) if n <= WAVES]
    return min((replace(tile, waves=n) for n in waves), key=lambda c: c.seconds)


def _thread_tiles(problem: CascadeProblem, target: Target) -> Iterator[CascadeCandidate]:
    for thread, threads, chunk in product(THREAD_TILES, THREADS, CHUNKS):
        rows_fit = thread[0] * threads[0] == 1 or problem.rows > 1
        if chunk % threads[1] or not rows_fit:
            continue
        kinds = CascadeCandidate, HeldCascade
        tiles = [kind(problem, target, thread, threads, chunk, depth=DEPTHS[0]) for kind in kinds]
        yield from tiles
        for depth in DEPTHS[1:] if chunk < problem.keys else ():
            yield from (tile.with_depth(depth) for tile in tiles)


def _parts(tile: CascadeCandidate) -> list[int]:
    """
    The numbers of parts worth splitting the keys into, for a tile that does not split them. Of keys
    that memory counts, a part has chunks that can be skipped.
    """
    if tile.problem.skips or not tile.shares_keys:
        return [1]
    most = tile.chunks // 2 if tile.problem.ends_early else tile.chunks
    fewer = [n for n in SPLITS if n == 1 or n <= most]
    most_blocks = tile.target.sms * (MANY if tile.block[0] == 1 else FEW)
    enough = (n for n, parts in enumerate(fewer, 1) if tile.blocks * parts > most_blocks)
    return fewer[: next(enough, None)]
