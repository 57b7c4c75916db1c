"""
Happens-before: which accesses of other threads came before the present of a thread.

A vector clock: each thread knows of each other actor a time up to which that one's accesses came
before. An access is stamped with its actor's time, which goes on when the actor publishes what it
has done. Threads that only ever wait for their whole block know the same: they share one row.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int32]
Lanes = NDArray[np.int64]
Number = TypeVar("Number", int, NDArray[np.int64])
"""Numbers of threads among those that run in step."""


class Clock:
    """
    The vector clocks of the threads of some blocks; lanes, blocks and actors as in `Machine`.
    `known[block, row, column]` is the newest time of an actor that came before; of its own accesses
    a thread knows those that it has published. The actors are those of its block, and of as many
    blocks that follow each other as it hears of.
    """

    def __init__(
        self, blocks: int, threads: int, mbarriers: int, *, together: bool, heard: int = 1
    ) -> None:
        self.rows = 1 if together else threads
        """Rows of a block; it has as many columns, and one for each mbarrier."""
        self.of_block = self.rows + mbarriers
        """Columns of a block."""
        self.heard = heard
        self.columns = heard * self.of_block
        self.known = np.zeros((blocks, self.rows, self.columns), np.int32)
        lanes = np.arange(blocks * threads)
        self.row_of = lanes % threads * self.rows // threads
        """Each lane's row among those of its block, which is its column, too."""
        self._row = lanes // threads * self.rows + self.row_of
        """Each lane's row among those of all blocks."""
        self._own = self._row * self.columns + self.first(lanes // threads) + self.row_of
        """The index in the flat `known` of each lane's own time."""

    def first(self, block: Number) -> Number:
        """The first column of a block."""
        return block % self.heard * self.of_block

    @property
    def threads(self) -> NDArray[np.bool_]:
        """True for the columns of threads."""
        return np.arange(self.columns) % self.of_block < self.rows

    def now(self, lanes: Lanes) -> Times:
        """The time of each lane's next access."""
        return self.known.reshape(-1)[self._own[lanes]] + 1

    def unordered(
        self, lanes: Lanes, blocks: Lanes, actors: NDArray[np.int64], times: Times
    ) -> NDArray[np.bool_]:
        """
        True for the lanes that do not know that an access, by an actor of a block at a time, came
        before their present. An actor's own accesses may be among those.
        """
        columns = self.first(blocks) + np.minimum(actors, self.of_block - 1)
        return self.known.reshape(-1)[self._row[lanes] * self.columns + columns] < times

    def rows_of(self, lanes: Lanes) -> Times:
        """All that lanes know: a row of times per lane."""
        return self.known.reshape(-1, self.columns)[self._row[lanes]]

    def threads_of(self, blocks: Lanes, lanes: Lanes, rows: NDArray[np.int64]) -> Times:
        """What lanes know of these rows of a block each: a row of times per lane."""
        columns = self.first(blocks)[:, None] + rows
        return self.known.reshape(-1, self.columns)[self._row[lanes][:, None], columns]

    def publish(self, lanes: Lanes) -> Times:
        """The clocks of lanes, all that they have done included; what they do next is later."""
        self.known.reshape(-1)[self._own[lanes]] += 1
        return self.rows_of(lanes)

    def learn(self, lanes: Lanes, rows: Times) -> None:
        """These lanes get to know what `rows`, one for each or for all, say."""
        at = self._row[lanes]
        known = self.known.reshape(-1, self.columns)
        known[at] = np.maximum(known[at], rows)

    def meet(self, lanes: Lanes, scopes: NDArray[np.int64]) -> None:
        """Lanes of the same scope, which follow each other, get to know what all of them know."""
        rows = self.publish(lanes)
        starts = np.flatnonzero(np.diff(scopes, prepend=-1))
        sizes = np.diff(starts, append=len(lanes))
        self.learn(lanes, np.repeat(np.maximum.reduceat(rows, starts, axis=0), sizes, axis=0))
