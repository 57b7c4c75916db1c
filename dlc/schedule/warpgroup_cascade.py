"""
Tilings of attention for warpgroups, which multiply queries, keys and values where these lie in
shared memory (`wgmma`), and the powers where lanes hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import ClassVar

from dlc.analysis.kernel.occupancy import occupancy
from dlc.dialects.layouts import PERIOD, WIDTHS
from dlc.dialects.mma_layouts import WARPGROUP_SHAPES
from dlc.dialects.register_counts import KEPT
from dlc.ir.cached import cached
from dlc.schedule.block_tile import CHUNK_INSTRUCTIONS, COPY_INSTRUCTIONS
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.cascade_tiles import FACTOR
from dlc.schedule.warp_cascade import HALF, SPECIAL, K, WarpCascade
from dlc.schedule.warpgroup_candidate import COPIED_REGISTERS, REQUEST, ROWS
from dlc.target import BANK_BYTES, BANKS, MAX_THREADS, WARPGROUP, Target

GROUPS = (1, 2, 3)
"""Warpgroups of a block, each with rows of its own."""
CHUNKS = (128, 64)
LEAST = 64
"""Columns at least: of fewer, a product takes as long as of so many."""
BOX_REGISTERS = 40
"""Registers of a thread beside sums and scores where TMA copies (ptxas: 26 to 40)."""
MASK_REGISTERS = 8
"""More where some chunks are masked (ptxas: 68 bytes of 168 registers spilled)."""
WORD = 4
"""Bytes."""
PAIR = 2
"""Neighbouring keys of a lane, which loads at once what is of their scores alone."""


@dataclass(frozen=True)
class WarpgroupCascade(WarpCascade):
    """One way to tile attention for warpgroups: `thread` is what one has, `threads` how many."""

    shares_keys: ClassVar[bool] = False

    @property
    def mma(self) -> str:
        return f"m64n{self.thread[1]}k16"

    @property
    def producer(self) -> bool:
        """True if a warpgroup more asks for keys, which takes boxes."""
        return self.problem.boxes and self.target.has("tma")

    @property
    def swizzle(self) -> int:
        """Bytes of the widest that rows of queries, keys and values have whole panels of."""
        return gcd(self.problem.width * HALF, self.thread[1] * HALF, max(WIDTHS))

    @property
    def copy_steps(self) -> list[str]:
        ring, swizzle = "double-buffer{depth=2}", f"split-inner-for-swizzle{{bytes={self.swizzle}}}"
        if not self.producer:
            return [ring, swizzle, "async-copy", "pipeline-k-outer"]
        kept = f" registers={KEPT}" if self.gives_registers else ""
        turns = " turns=1" if self.alternates else ""
        copy = f"tma-copy{{store={self.results.places}}}" if self.stores_boxes else "tma-copy"
        return [ring, copy, swizzle, f"pipeline-k-outer{{producer=1{kept}{turns}}}"]

    @property
    def alternates(self) -> bool:
        """True if warpgroups take turns at tensor cores: one multiplies while another computes."""
        return self.producer and prod(self.threads) > 1

    @property
    def unhidden(self) -> float:
        return self.target.apart_turns if self.alternates else self.target.apart_scores

    @cached
    def stores_boxes(self) -> bool:
        """True if TMA stores what warps hold: where that saves sectors, and takes no place from
        other blocks."""
        if not (self.producer and self.problem.stored_bytes and self.results.pay):
            return False
        return self._resident_with(self.results.place_bytes) >= self._resident_with(0) > 0

    @property
    def has_rows_first(self) -> bool:
        return self.producer or super().has_rows_first

    @property
    def chunk_rate(self) -> float:
        return self.target.box_bytes_per_clock if self.producer else super().chunk_rate

    @property
    def thread_count(self) -> int:
        """Of those that multiply."""
        return WARPGROUP * prod(self.threads)

    @property
    def once_bytes(self) -> int:
        return self.problem.once_bytes

    @property
    def block_threads(self) -> int:
        return self.thread_count + (WARPGROUP if self.producer else 0)

    @property
    def sums(self) -> int:
        rows, columns = self.thread
        return rows * (columns + self.chunk) // WARPGROUP

    @property
    def gives_registers(self) -> bool:
        """
        True if a producer gives registers up, without which the sums have no room, or just so:
        measured of 128 x 128 blocks on an H200, 508 us with, 541 without.
        """
        return self.producer and self.registers >= self.target.entry_registers(self.block_threads)

    @cached
    def registers(self) -> int:
        """Of a chunk, all that threads load of scores alone is on its way at once."""
        loaded = self.thread[0] * self.chunk * self.once_bytes // (WARPGROUP * WORD)
        beside = BOX_REGISTERS if self.producer else COPIED_REGISTERS
        beside += MASK_REGISTERS * self.problem.skips
        count = self.sums + loaded + beside
        return count + -count % 8

    @property
    def fits(self) -> bool:
        """True if slabs have rows that a swizzle takes, and threads registers for their sums."""
        t, threads = self.target, self.block_threads
        most = t.entry_registers(threads)
        if self.producer and t.has("setmaxnreg"):
            most = max(most, t.registers_beside(threads, KEPT))
        if threads > MAX_THREADS or self.registers > most:
            return False
        return self.swizzle in WIDTHS and self.chunk < self.problem.keys

    @cached
    def resident(self) -> int:
        if self.slab_bytes + self.power_bytes > self.target.shared_per_block:
            return 0  # before lanes hold them, slabs of scores and powers are in shared memory
        return self._resident_with(self.results.place_bytes if self.stores_boxes else 0)

    def _resident_with(self, place_bytes: int) -> int:
        """Blocks that an SM runs at once, if results take so many bytes of shared memory."""
        entry = self.target.entry_registers(self.block_threads)
        held = entry if self.gives_registers else self.registers
        shared = self._slab_bytes + place_bytes
        if shared > self.target.shared_per_block:
            return 0
        return occupancy(self.target, self.block_threads, held, shared).blocks

    @property
    def _slab_bytes(self) -> int:
        """Of slabs without padding, in front of which mbarriers take the place of a period."""
        return self._copied_bytes * self.slots + self._row_bytes + PERIOD * max(WIDTHS)

    @cached
    def shared_bytes(self) -> int:
        """With the places of results."""
        return self._slab_bytes + (self.results.place_bytes if self.stores_boxes else 0)

    @cached
    def units(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        p, t, (rows, columns) = self.problem, self.target, self.thread
        products, scores = rows * self.chunk * (p.width + columns), rows * self.chunk / WARPGROUP
        requests = rows // ROWS * (p.width + self.chunk) / K
        beside = CHUNK_INSTRUCTIONS + scores * self.score_instructions + rows * columns / WARPGROUP
        beside += requests * REQUEST + FACTOR * rows / ROWS
        beside += scores / PAIR if self.once_bytes else 0
        if not self.producer:
            beside += COPY_INSTRUCTIONS * self._copied_bytes / 16 / self.thread_count
        groups, warps = prod(self.threads), self.thread_count / t.warp
        read = HALF * rows // ROWS * (self.chunk * (p.width + columns) + ROWS * p.width)
        own = (
            groups * products / t.group_rate("half"),
            warps * beside * t.warp / t.issue_lanes,
            groups * rows * self.chunk * SPECIAL / t.special_lanes,
        )
        once = groups * rows * self.chunk * self.once_bytes
        return own, ((groups * read + self._copied_bytes + once) / (BANKS * BANK_BYTES),)

    @property
    def phases(self) -> int:
        """All warpgroups meet nowhere in a chunk, but each waits for both of its products."""
        return 2

    def _chunk_of_each(self, running: int) -> float:
        alone = self.busy_clocks(1) + self.phases * self.target.meeting_clocks
        if self.once_bytes:
            alone += self.target.latency_clocks
        copied = self.target.latency_clocks / (self.slots - 1)
        return max(self.busy_clocks(running), alone, copied)


def warpgroup_cascades(problem: CascadeProblem, target: Target) -> Iterator[WarpgroupCascade]:
    """The tilings for warpgroups that fit: of two chunks of keys at least."""
    if not problem.matrices or not target.has("wgmma") or problem.width % K:
        return
    if problem.ends_early or problem.score_bytes > problem.once_bytes or problem.rows < 2:
        return
    widths = sorted({s.n for s in WARPGROUP_SHAPES.values() if s.n >= LEAST}, reverse=True)
    for columns, groups, chunk in product(widths, GROUPS, CHUNKS):
        tile = WarpgroupCascade(problem, target, (ROWS, columns), (groups, 1), chunk)
        if tile.fits and tile.resident:
            yield tile
