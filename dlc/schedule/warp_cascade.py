"""
Tilings of attention whose products tensor cores multiply: a warp has rows, and its lanes hold the
scores of a chunk and the powers of these in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

from dlc.ir.cached import cached
from dlc.schedule.block_tile import CHUNK_INSTRUCTIONS, COPY_INSTRUCTIONS
from dlc.schedule.candidate import WAVEFRONTS
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_tiles import FACTOR, PADDING, RESCALED, CascadeCandidate
from dlc.schedule.endings import folding_registers
from dlc.schedule.result_boxes import ResultBoxes
from dlc.target import BANK_BYTES, BANKS, WARP, Target

WARPS = (1, 2, 4, 8)
"""Warps of a block that have rows of their own."""
SHARING = (1, 2, 4)
"""Warps that have the same rows, and parts of each chunk of keys."""
MOST_SHARING = 8
"""Of a block whose warps share rows."""
WARP_TILES = ((16, 64), (32, 64), (16, 128), (32, 128), (16, 32), (32, 32), (16, 16))
"""Rows and columns of a warp."""
CHUNKS = (64, 32, 16)
K = 16
"""Points of K of a product that a warp computes at once; a warp reads as many rows of factors."""
SCORE = 6
"""Instructions of a lane for a score: it is scaled, the largest found, a difference and its power
of 2, which is rounded beside its neighbour's, and the sum of these (ptxas: 5.6 to 6.2 with what
stands between)."""
ADDED = 1
"""More where something loaded is added, so that a score is no product: e^x is a power of 2 then."""
HALF, WORD = 2, 4
"""Bytes."""
SPECIAL = 1
"""Those of them that units for special functions do: the power, whose rounding is another's
(`to_bf16` of the prelude)."""


@dataclass(frozen=True)
class WarpCascade(CascadeCandidate):
    """One way to tile attention for tensor cores: `thread` is what a warp has, `threads` warps."""

    sharing: int = 1
    """Warps that have the same rows, and parts of each chunk of keys."""

    vector: ClassVar[int] = K

    @property
    def mma(self) -> str:
        return "m16n8k16"

    @property
    def thread_count(self) -> int:
        return WARP * self.sharing * prod(self.threads)

    @property
    def tile_options(self) -> str:
        return super().tile_options + (f" parts={self.sharing}" if self.sharing > 1 else "")

    @property
    def points(self) -> tuple[int, int]:
        """Before warps take them over, threads compute slabs: so many points at once."""
        return 4, 8

    @property
    def sums(self) -> int:
        rows, columns = self.thread
        return rows * (columns + self.chunk // self.sharing) // WARP

    @property
    def _folded_bytes(self) -> int:
        """Of what warps that share rows hold in the end, and fold through shared memory."""
        each = self.sums_held + self.rows_held * (self.problem.results - 1)
        return WORD * self.thread_count * each if self.sharing > 1 else 0

    @cached
    def shared_bytes(self) -> int:
        """
        What is copied, and the padding of its rows, and what warps fold; the rest is in registers.
        """
        size = self._copied_bytes * self.slots + self._row_bytes + self._folded_bytes
        of_both = self.chunk * (bool(self.problem.key_bytes) + bool(self.problem.column_bytes))
        return size + PADDING * self._padded(of_both)

    @cached
    def registers(self) -> int:
        """Sums, the scores of a chunk, whose place its powers take, factors and addresses."""
        count = self.sums + 56
        return max(count + -count % 8, folding_registers(self.parts, self.ending))

    @property
    def rows_held(self) -> int:
        """Two of the 16 of a product."""
        return self.thread[0] // 8

    @property
    def sums_held(self) -> int:
        return prod(self.thread) // WARP

    @cached
    def resident(self) -> int:
        """None if slabs, before lanes hold them, would not fit in shared memory."""
        fits = self.slab_bytes + self.power_bytes <= self.target.shared_per_block
        return super().resident if fits else 0

    @cached
    def units(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        p, t, (rows, columns) = self.problem, self.target, self.thread
        keys = self.chunk // self.sharing
        products = rows * keys * (p.width + columns)
        mma = products / (16 * 8 * K)
        loads = keys * (p.width + columns) / (K * K) + rows * p.width / (K * K)
        beside = CHUNK_INSTRUCTIONS + rows * keys / WARP * self.score_instructions
        beside += rows * columns / WARP + FACTOR * rows / 8
        beside += COPY_INSTRUCTIONS * self._copied_bytes / 16 / self.thread_count
        warps = self.sharing * prod(self.threads)
        own = (
            warps * products / t.mma_rate("half"),
            warps * (mma + loads + beside) * t.warp / t.issue_lanes,
            warps * rows * keys * SPECIAL / t.special_lanes,
        )
        return own, ((warps * loads + self._copied_bytes / 16 / t.warp) * WAVEFRONTS,)

    @property
    def score_instructions(self) -> int:
        """Of a lane for a score."""
        return SCORE + ADDED * (self.problem.score_bytes > 0)

    @property
    def results(self) -> ResultBoxes:
        """What a block stores, as boxes if TMA does: halves, unless TMA could store others."""
        stored_bytes = self.problem.stored_bytes or HALF
        return ResultBoxes(self.thread_count // WARP, 1, self.thread[1], stored_bytes)

    @cached
    def stores_boxes(self) -> bool:
        """True if TMA stores what warps hold."""
        return False

    @property
    def chunk_rate(self) -> float:
        """Bytes a clock of a chunk that passes to an SM."""
        return self.target.sm_bandwidth / self.target.clock

    @property
    def has_rows_first(self) -> bool:
        """True if a block has its rows before it asks for its first chunk."""
        return self.slots == 1

    @property
    def turn_clocks(self) -> float:
        """
        With its rows, its first chunk, and its results, if these are no parts: measured on an H200
        of 128 rows by warpgroups, stored by threads, 9300 clocks of 64 elements and 14,900 of 128,
        where this has 7800 and 12,200.
        """
        t, stored = self.target, 0.0
        if self.splits == 1:
            stored = prod(self.block) * self.results.bytes
        if not self.stores_boxes and self.results.parts_of_sector > 1:
            stored *= self.results.parts_of_sector * t.stored_rate
        rows = self._row_bytes * t.clock / t.sm_bandwidth
        first = self._copied_bytes / self.chunk_rate
        first += t.latency_clocks if self.has_rows_first else 0
        beside = super().turn_clocks + self._folding_clocks
        return beside + rows + first + stored / t.l2_bytes_per_clock

    @property
    def _folding_clocks(self) -> float:
        """
        Of warps that share rows: each writes what it holds, all meet, and each reads its share of
        what all have, one after the other.
        """
        if self.sharing == 1:
            return 0
        t, moved = self.target, 2 * self._folded_bytes / (BANKS * BANK_BYTES)
        each = self.sums_held * (RESCALED + 2) + self.sharing * self.rows_held * FACTOR
        waited = t.meeting_clocks + self.sharing * t.read_clocks
        return moved + self.thread_count * each / t.issue_lanes + waited

    @property
    def unhidden(self) -> float:
        return min(self.target.apart_mma, self.target.apart_scores)

    @property
    def path_clocks(self) -> float:
        """What barriers and products beside take is counted where a block is alone."""
        return 0

    @property
    def phases(self) -> int:
        """Barriers: when a chunk has come, and the one before has been read."""
        return 1

    @property
    def unrolled(self) -> int:
        return max(self.chunk, 64) // self.vector

    def _chunk_of_each(self, running: int) -> float:
        """A block that is alone waits at its barrier, and then for what its products read first."""
        waited = 2 * self.target.meeting_clocks if running == 1 else 0
        return super()._chunk_of_each(running) + waited


def warp_tiles(problem: CascadeProblem, target: Target) -> Iterator[WarpCascade]:
    """The tilings for tensor cores that fit: of a whole chunk of keys at least."""
    if not problem.halves or not target.has("mma") or problem.width % K or problem.rows < 2:
        return
    for tile, warps, chunk, sharing in product(WARP_TILES, WARPS, CHUNKS, SHARING):
        if chunk % (sharing * K) or (sharing > 1 and sharing * warps > MOST_SHARING):
            continue
        found = WarpCascade(problem, target, tile, (warps, 1), chunk, sharing=sharing)
        if chunk <= problem.keys and found.resident:
            yield found
