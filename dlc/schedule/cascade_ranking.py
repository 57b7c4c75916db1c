"""All tilings of attention that fit, by threads and by tensor cores, the fastest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil

from dlc.dialects.tile import waves_of
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_tiles import (
    CHUNKS,
    DEPTHS,
    MOST_ORDERED,
    SPLITS,
    THREAD_TILES,
    THREADS,
    WAVES,
    CascadeCandidate,
)
from dlc.schedule.endings import endings
from dlc.schedule.held_cascade import HeldCascade
from dlc.schedule.warp_cascade import warp_tiles
from dlc.schedule.warpgroup_cascade import warpgroup_cascades
from dlc.target import Target


def cascade_candidates(problem: CascadeProblem, target: Target) -> tuple[CascadeCandidate, ...]:
    """The fastest tilings that fit, each of another block, the fastest first."""
    shapes: dict[object, CascadeCandidate] = {}
    for candidate in ranked_cascades(problem, target):
        shapes.setdefault((candidate.block, candidate.splits), candidate)
    return tuple(shapes.values())[:5]


@lru_cache(maxsize=256)
def ranked_cascades(problem: CascadeProblem, target: Target) -> tuple[CascadeCandidate, ...]:
    """All tilings that fit, the fastest first."""
    tiles = sorted(_tiles(problem, target), key=lambda c: (c.seconds, c.ties))
    if problem.skips:
        ordered = [_ordered(tile) for tile in tiles[:MOST_ORDERED]]
        tiles = sorted(ordered, key=lambda c: (c.seconds, c.ties))
    return tuple(tiles)


def _ordered(tile: CascadeCandidate) -> CascadeCandidate:
    """A tile in the waves of blocks that are fastest, where some blocks have more to do."""
    waves = [n for n in waves_of(ceil(tile.problem.rows / tile.block[0])) if n <= WAVES]
    return min((replace(tile, waves=n) for n in waves), key=lambda c: c.seconds)


def _tiles(problem: CascadeProblem, target: Target) -> Iterator[CascadeCandidate]:
    yield from warpgroup_cascades(problem, target)
    yield from warp_tiles(problem, target)
    for thread, threads, chunk in product(THREAD_TILES, THREADS, CHUNKS):
        rows_fit = thread[0] * threads[0] == 1 or problem.rows > 1
        if chunk % threads[1] or not rows_fit:
            continue
        for depth in DEPTHS if chunk < problem.keys else DEPTHS[:1]:
            for kind in (CascadeCandidate, HeldCascade):
                tile = kind(problem, target, thread, threads, chunk, depth=depth)
                if tile.resident:
                    yield from _split(tile)


def _split(tile: CascadeCandidate) -> Iterator[CascadeCandidate]:
    """
    A tile with each number of parts worth splitting the keys into: of keys that memory counts, a
    part has chunks that can be skipped.
    """
    most = tile.chunks // 2 if tile.problem.ends_early else tile.chunks
    for splits in SPLITS:
        if splits > 1 and (splits > most or tile.problem.skips):
            return
        found = endings(splits, tile.target)
        ways = (replace(tile, splits=splits, ending=ending) for ending in found)
        yield from (way for way in ways if way.resident)
        if tile.blocks * splits > 4 * tile.target.sms:
            return
