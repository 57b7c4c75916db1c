"""
Happens-before: which accesses of other threads came before the present of a thread.

An access is stamped with its thread's time. Where only barriers order the threads of a block, a
time is the number of barriers, and an access happened before every access at a later time.
Where mbarriers or warps do, each thread has a clock of its own and knows a time of every other
actor (a vector clock), up to which that one's accesses came before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int32]


class Clock(ABC):
    """The times of the threads of some blocks; lanes, blocks and actors as in `Machine`."""

    @abstractmethod
    def now(self, lanes: NDArray[np.int64]) -> int | Times:
        """The time of each lane."""

    @abstractmethod
    def unordered(
        self, lanes: NDArray[np.int64], actors: NDArray[np.int64], times: Times
    ) -> NDArray[np.bool_]:
        """
        Where an access, by an actor of the lane's block at a time, is not known to have come
        before the lane's present. An actor's own accesses may be among those.
        """

    @abstractmethod
    def barrier(self, blocks: NDArray[np.int64]) -> None:
        """All threads of these blocks meet."""


class Epochs(Clock):
    """The number of barriers that each block has passed, and one."""

    def __init__(self, blocks: int, threads: int) -> None:
        self.threads = threads
        self.passed = np.ones(blocks, np.int32)
        self.together: int | None = 1
        """That number where it is the same in all blocks."""

    def now(self, lanes: NDArray[np.int64]) -> int | Times:
        return self.passed[lanes // self.threads] if self.together is None else self.together

    def unordered(
        self, lanes: NDArray[np.int64], actors: NDArray[np.int64], times: Times
    ) -> NDArray[np.bool_]:
        return times >= self.now(lanes)

    def barrier(self, blocks: NDArray[np.int64]) -> None:
        self.passed[blocks] += 1
        same = (self.passed == self.passed[0]).all()
        self.together = int(self.passed[0]) if same else None


class VectorClocks(Clock):
    """What each thread knows of each actor of its block."""

    def __init__(self, blocks: int, threads: int, actors: int) -> None:
        self.threads = threads
        self.known = np.zeros((blocks, threads, actors), np.int32)
        self._own = np.arange(threads)
        self.known[:, self._own, self._own] = 1

    def _at(self, lanes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return lanes // self.threads, lanes % self.threads

    def now(self, lanes: NDArray[np.int64]) -> int | Times:
        block, thread = self._at(lanes)
        return self.known[block, thread, thread]

    def unordered(
        self, lanes: NDArray[np.int64], actors: NDArray[np.int64], times: Times
    ) -> NDArray[np.bool_]:
        block, thread = self._at(lanes)
        return self.known[block, thread, actors] < times

    def rows(self, lanes: NDArray[np.int64]) -> Times:
        """All that lanes know: a row of times per lane."""
        return self.known[self._at(lanes)]

    def tick(self, lanes: NDArray[np.int64]) -> None:
        """What these lanes do from now on comes after what they have published."""
        block, thread = self._at(lanes)
        self.known[block, thread, thread] += 1

    def learn(self, lanes: NDArray[np.int64], row: Times) -> None:
        """These lanes get to know what `row` says."""
        block, thread = self._at(lanes)
        self.known[block, thread] = np.maximum(self.known[block, thread], row)

    def barrier(self, blocks: NDArray[np.int64]) -> None:
        for block in blocks:
            self.known[block] = self.known[block].max(axis=0)
            self.known[block, self._own, self._own] += 1

    def warp_barrier(self, lanes: NDArray[np.int64]) -> None:
        """The lanes of each of these warps, all of which are given, meet."""
        block, thread = self._at(lanes)
        warps = block * self.threads + thread // 32
        for warp in np.unique(warps):
            members = lanes[warps == warp]
            self.learn(members, self.rows(members).max(axis=0))
            self.tick(members)
