"""
The least that tiles of a contraction take, in problems that differ in the length of K: what does
not depend on that is found out once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop
from math import ceil

from dlc.schedule.candidate import ROUNDED, START, Candidate
from dlc.schedule.endings import ending_seconds, endings
from dlc.schedule.problem import Problem
from dlc.target import Target

SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Parts of K that blocks of their own sum up."""


class TileBounds:
    """Tiles that do not split K, for problems that are like theirs (`Problem.like`)."""

    def __init__(self, tiles: Sequence[Candidate], target: Target) -> None:
        self.tiles, self.target = tiles, target
        self._ways = [
            (number, splits, tile.chunk, *seconds)
            for number, tile in enumerate(tiles)
            if tile.most_resident >= 1
            for splits, seconds in _seconds(tile)
        ]
        self._endings: dict[tuple[int, int], tuple[float, ...]] = {}

    def rising(self, problem: Problem) -> Iterator[tuple[float, int, int]]:
        """
        The numbers of tiles, each with all numbers of parts worth splitting K into, and less than
        what that takes whatever the depth, before what folds the parts: the least first.
        """
        p, t, least = problem, self.target, list[tuple[float, int, int]]()
        memory, start = p.compulsory_bytes / t.memory_rate, START / t.clock
        lengths = {tile.chunk: ceil(ceil(p.k / tile.chunk) * p.taps) for tile in self.tiles}
        for number, splits, chunk, several, alone, fetched, stored in self._ways:
            of_k = lengths[chunk]
            if splits > 1 and 2 * splits > (1 if p.skips else of_k):
                continue
            chunks = ceil(of_k / splits)
            issue = chunks * (alone if chunks == 1 else several) + start
            longest = max(issue, chunks * fetched, memory)
            least.append((ROUNDED * (t.launch_seconds + longest + stored), number, splits))
        heapify(least)
        while least:
            yield heappop(least)

    def endings(self, number: int, splits: int) -> tuple[float, ...]:
        """Less than what folds so many parts of a tile takes, by each of the `endings`."""
        if (known := self._endings.get((number, splits))) is None:
            tile, t = self.tiles[number], self.target
            parts, running = tile.parts_of(splits), range(1, tile.most_resident + 1)
            seconds = (
                min(ending_seconds(parts, t, ending, n) for n in running)
                for ending in endings(splits, t)
            )
            known = self._endings[number, splits] = tuple(ROUNDED * s for s in seconds)
        return known


def _parts(tile: Candidate) -> Iterator[int]:
    """The numbers of parts into which K may be split: no more blocks than fill the chip."""
    for splits in SPLITS:
        yield splits
        if tile.blocks * splits > 4 * tile.target.sms:
            break


def _seconds(tile: Candidate) -> Iterator[tuple[int, tuple[float, float, float, float]]]:
    """
    For each of the numbers of parts, the least seconds for a chunk of each block of the busiest SM,
    if they have several and if they have one: as if it ran `most_resident` of them from the first
    to the last. Those in which all blocks fetch one, and those in which they store.
    """
    t, most, path = tile.target, tile.most_resident, tile.path_clocks
    waited, fetched, stored = max(tile.depths) - 1, tile.fetched_bytes, tile.stored_seconds
    clocks: dict[int, float] = {}
    for splits in _parts(tile):
        blocks = tile.blocks * splits
        share = ceil(blocks / t.sms)
        running = min(share, most)
        if running not in clocks:
            clocks[running] = tile.busy_clocks(running)
        busy, turns = share * clocks[running] / running, ceil(share / running)
        alone = max(busy, turns * path)
        several = max(alone, turns * t.latency_clocks / waited)
        fetching = blocks * fetched / tile.l2_rate
        yield splits, (several / t.clock, alone / t.clock, fetching, stored)
