"""
The least that tiles of a contraction take, in problems that differ in the length of K: what does
not depend on that is found out once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dlc.schedule.candidate import ROUNDED, START, Candidate
from dlc.schedule.endings import ending_seconds, endings
from dlc.schedule.problem import Problem
from dlc.target import Target

SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Parts of K that blocks of their own sum up."""


class TileBounds:
    """
    Tiles that do not split K, for problems that are like theirs (`Problem.like`). What is known of
    each with each number of parts of K is an array: the least clocks for a chunk of each block of
    the busiest SM, as if it ran `most_resident` of them from the first to the last, and seconds in
    which all blocks fetch one.
    """

    def __init__(self, tiles: Sequence[Candidate], target: Target) -> None:
        self.tiles, self.target = tiles, target
        self._endings: dict[tuple[int, int], tuple[float, ...]] = {}
        ways = [(number, n) for number, tile in enumerate(tiles) for n in _parts(tile)]
        self._numbers, self._splits = np.array(ways, int).reshape(-1, 2).T
        self._chunks = np.array([tile.chunk for tile in tiles], int)[self._numbers]
        self._dense = np.array([tile.is_dense for tile in tiles], bool)[self._numbers]
        known = np.array([_of_tile(tile) for tile in tiles]).reshape(-1, 7)[self._numbers]
        blocks, most, path, latency, fetched, stored, rate = known.T
        blocks = blocks * self._splits
        share = np.ceil(blocks / target.sms)
        running = np.minimum(share, most)
        ran = list(zip(self._numbers.tolist(), running.tolist(), strict=True))
        clocks = {(number, n): tiles[number].busy_clocks(n) for number, n in dict.fromkeys(ran)}
        busy = share * np.array([clocks[way] for way in ran]) / running
        turns = np.ceil(share / running)
        self._alone = np.maximum(busy, turns * path)
        self._several = np.maximum(self._alone, turns * latency)
        self._fetched, self._stored = blocks * fetched / rate, stored

    def rising(self, problem: Problem, *, dense: bool = False) -> Iterator[tuple[float, int, int]]:
        """
        The numbers of tiles, each with all numbers of parts worth splitting K into, and less than
        what that takes whatever the depth, before what folds the parts: the least first. Those
        that are `dense` only, if so.
        """
        p, t = problem, self.target
        of_k = np.ceil(np.ceil(p.k / self._chunks) * p.taps)
        chunks = np.ceil(of_k / self._splits)
        issue = chunks * np.where(chunks == 1, self._alone, self._several) + START
        memory = p.compulsory_bytes / t.memory_rate
        longest = np.maximum(np.maximum(issue / t.clock, chunks * self._fetched), memory)
        least = ROUNDED * (t.launch_seconds + longest + self._stored)
        fits = (self._splits == 1) | (2 * self._splits <= (1 if p.skips else of_k))
        (places,) = np.nonzero(fits & self._dense if dense else fits)
        places = places[np.argsort(least[places], kind="stable")]
        found = (least[places], self._numbers[places], self._splits[places])
        yield from zip(*(of.tolist() for of in found), strict=True)

    def endings(self, number: int, splits: int) -> tuple[float, ...]:
        """Less than what folds so many parts of a tile takes, by each of the `endings`."""
        if (known := self._endings.get((number, splits))) is None:
            tile, t = self.tiles[number], self.target
            parts, most = tile.parts_of(splits), tile.most_resident
            seconds = (
                min(ending_seconds(parts, t, ending, n) for n in range(1, most + 1))
                if ending == "cluster"
                else ending_seconds(parts, t, ending)
                for ending in endings(splits, t)
            )
            known = self._endings[number, splits] = tuple(ROUNDED * s for s in seconds)
        return known


def _parts(tile: Candidate) -> Iterator[int]:
    """The numbers of parts into which K may be split, if a block fits: no more blocks than fill the
    chip."""
    for splits in SPLITS if tile.most_resident >= 1 else ():
        yield splits
        if tile.blocks * splits > 4 * tile.target.sms:
            break


def _of_tile(tile: Candidate) -> tuple[float, ...]:
    """
    Blocks, how many of them an SM runs at most, the least clocks of a chunk that only others hide
    and those for which it waits, the bytes that it fetches, seconds that storing takes, and the
    rate of fetching.
    """
    waited = tile.target.latency_clocks / (max(tile.depths) - 1)
    blocks, path = (tile.blocks, tile.most_resident), (tile.path_clocks, waited)
    return *blocks, *path, tile.fetched_bytes, tile.stored_seconds, tile.l2_rate
