"""
Tilings of attention by threads that keep the scores of a chunk and their powers in registers: the
threads that share a row are neighbours in a warp, and fold it by shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, log2, prod

from dlc.ir.cached import cached
from dlc.schedule.block_tile import VECTOR
from dlc.schedule.cascade_tiles import PADDING, CascadeCandidate
from dlc.schedule.endings import folding_registers
from dlc.target import LINE_BYTES, WARP, WIDEST_ACCESS

SCORE = 6
"""Instructions of a thread for a score: it is scaled, masked, the largest found, a difference and
its power of 2, and the sum of these."""
ADDED = 1
"""More where something loaded is added, so that a score is no product: e^x is a power of 2 then."""
EXCHANGED = 2
"""Instructions by which a thread folds with another what it has of a row: a shuffle first."""
PARTED = 4
"""Rows with a padding of 16 bytes each after which 16 lanes meet other banks."""
FOLDS = 2
"""Folds of a row: the largest score and the sum of powers."""


@dataclass(frozen=True)
class HeldCascade(CascadeCandidate):
    """One way to tile attention whose powers alone go through shared memory, once."""

    @property
    def tile_options(self) -> str:
        strip = f" strip={VECTOR}" if self.thread[1] > VECTOR else ""
        return f" held=true{strip}"

    @property
    def run(self) -> int:
        """Neighbouring keys of a thread, which it loads and stores at once."""
        return gcd(self.points[1], WIDEST_ACCESS // 4)

    @property
    def once_bytes(self) -> int:
        return self.problem.once_bytes

    @property
    def lanes(self) -> int:
        """Rows of neighbours, so that a warp has whole rows."""
        return super().lanes if 2 * self.threads[1] <= WARP else 1

    @cached
    def shared_bytes(self) -> int:
        """
        As those of the base, without a largest and a sum of each row. Two lanes read rows that lie
        apart: a padding of 16 bytes after so many parts their banks. Powers lie last, so that
        their last row needs none. Nor do keys of a run, which a thread reads one after the other.
        """
        p, rows = self.problem, self.block[0]
        every = max(1, self.thread[0] // PARTED) if self.lanes > 1 else 1
        size = self._copied_bytes * self.slots + self._row_bytes + self.power_bytes
        padded = self._padded(self.chunk // self.run * bool(p.key_bytes)) + rows
        padded -= (rows - rows // every) * (1 + bool(p.row_bytes))
        return size + PADDING * (padded - (every == 1))

    @cached
    def registers(self) -> int:
        """As those of the base, but scores and powers are dead before the second product."""
        (rows, columns), keys = self.thread, self.points[1]
        held = max(rows * columns, rows * keys)
        count = rows * columns + held + VECTOR * (rows + max(columns, keys)) + 48
        count += -count % 8
        return max(count, folding_registers(self.parts, self.ending))

    @cached
    def resident(self) -> int:
        """
        None if the threads of a row are not in one warp, a block has one row or less than a chunk
        of keys, or slabs, before threads hold them, would not fit in shared memory; or scores are
        loaded: ptxas loads more of them ahead than there are registers.
        """
        together = self.threads[1] > 1 and WARP % (self.lanes * self.threads[1]) == 0
        fits = self.slab_bytes + self.power_bytes <= self.target.shared_per_block
        whole = self.chunks > 1 or self.chunk == self.problem.keys
        summed = self.problem.width > 0
        possible = summed and together and fits and whole and self.block[0] > 1
        return super().resident if possible else 0

    @property
    def exchanges(self) -> float:
        """Shuffles of a thread for a chunk."""
        return FOLDS * self.thread[0] * log2(self.threads[1])

    @property
    def folding_instructions(self) -> float:
        stored = self.scores / self.run
        loaded = self.scores * self.once_bytes / WIDEST_ACCESS
        beside = stored + loaded + EXCHANGED * self.exchanges + prod(self.thread)
        return self.scores * (SCORE + ADDED * (self.problem.score_bytes > 0)) + beside

    @property
    def folding_wavefronts(self) -> float:
        """Of the powers, which are stored, of what is loaded once, by lines, and of shuffles."""
        loaded = self.scores * WARP * self.once_bytes / LINE_BYTES
        return self.scores + loaded + self.exchanges

    @property
    def phases(self) -> int:
        """Barriers: when a chunk has come, and when its powers have."""
        return 2
