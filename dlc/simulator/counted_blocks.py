"""Which blocks of a kernel have ended before others go on: those counted with the last one."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.int64]


class BlockOrder:
    """
    Blocks that share a count: all but the last of them end where they are counted, and what they
    did comes before all that the last one does from there on.
    """

    def __init__(self) -> None:
        self._group_of = np.zeros(0, np.int64)
        """For each block the number of those that it was counted with, or -1."""
        self._open: dict[Hashable, int] = {}
        """The number of those that are being counted in one place."""
        self._groups = 0
        self._is_last = np.zeros(0, np.bool_)

    def count(self, block: int, place: Hashable, *, is_last: bool) -> None:
        """Notes that a block was counted somewhere, the last one or not."""
        if (missing := block + 1 - len(self._group_of)) > 0:
            self._group_of = np.append(self._group_of, np.full(missing, -1))
            self._is_last = np.append(self._is_last, np.zeros(missing, np.bool_))
        if place not in self._open:
            self._open[place] = self._groups
            self._groups += 1
        self._group_of[block], self._is_last[block] = self._open[place], is_last
        if is_last:
            del self._open[place]

    def is_last(self, blocks: Blocks) -> NDArray[np.bool_]:
        """True for the blocks that were the last where they were counted."""
        known = len(self._is_last)
        return self._is_last[np.minimum(blocks, known - 1)] & (blocks < known)

    def ended_before(self, blocks: Blocks, others: Blocks) -> NDArray[np.bool_]:
        """True where a block ended before what the other one does now."""
        known = len(self._group_of)
        if not known:
            return np.zeros(np.broadcast_shapes(blocks.shape, others.shape), np.bool_)
        inside = (blocks < known) & (others < known)
        one, other = np.minimum(blocks, known - 1), np.minimum(others, known - 1)
        alike = (self._group_of[one] == self._group_of[other]) & (one != other)
        return inside & alike & self._is_last[other] & (self._group_of[one] >= 0)
