"""
What a block of a tiled contraction has: its sums, the threads among which they are dealt, and the
registers and shared memory that these and chunks of the operands take.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from dlc.analysis.kernel.occupancy import occupancy
from dlc.ir.cached import cached
from dlc.schedule import grain
from dlc.schedule.endings import Ending, Parts, folding_registers, kept_bytes
from dlc.schedule.problem import Problem
from dlc.schedule.spreads import spread_over
from dlc.target import Target

VECTOR = 4
"""Elements of fp32 in a 16-byte access."""
FACTORS_AT_ONCE = 2
"""Points of K of which a thread holds the factors, as nvcc has it."""
ADDRESSES = 32
"""Registers of a thread beside sums and factors."""
FEW_SUMS = 64
"""Sums of a thread up to which addresses of chunks that are no rings take no more registers."""
CHUNK_INSTRUCTIONS = 40
"""Instructions of a warp for a chunk beside copies and computing: barrier, slot, addresses."""
COPY_INSTRUCTIONS = 4
"""Instructions of a thread for one copy of 16 bytes."""


@dataclass(frozen=True)
class BlockTile:
    """One way to tile a problem for a target: what a thread, a block and a chunk of K are."""

    problem: Problem
    target: Target
    thread: tuple[int, int]
    threads: tuple[int, int]
    chunk: int
    depth: int
    splits: int
    ending: Ending = "workspace"
    """What folds the parts of sums that blocks share."""
    lone: int | None = None
    """The side, rows or columns, on which a thread has all its points beside, so that neighbours
    are neighbouring threads'; on the other, and on both if None, it has strips, read at once."""

    gaps: int = 1
    """Threads side by side that store what lies between neighbours: all `Problem.gaps`, or one."""

    row: int = 0
    """Points along a row of results that a block has at least, to store all of it; 0 if any."""

    depths: ClassVar[tuple[int, ...]] = (3, 2)
    """Slots that rings may have; the first of two numbers that cost the same is taken."""
    vector: ClassVar[int] = VECTOR
    """Points of K that a thread takes at once."""
    precision: ClassVar[str] = ""
    """What tensor cores multiply factors of f32 in, if they do."""
    apart: ClassVar[bool] = False
    """True if they sum each chunk apart, which is added to the sums of those before."""

    @cached
    def block(self) -> tuple[int, int]:
        """Rows and columns of outputs of a block."""
        return self.thread[0] * self.threads[0], self.thread[1] * self.threads[1]

    @cached
    def thread_count(self) -> int:
        """Threads of a block that compute."""
        return prod(self.threads) * self.gaps

    @property
    def block_threads(self) -> int:
        """All of a block."""
        return self.thread_count

    @cached
    def chunks(self) -> int:
        """Chunks that a block works through at most: the last parts of K may have fewer."""
        return ceil(self.chunks_of_k / self.splits)

    @cached
    def chunks_of_k(self) -> int:
        """Chunks of all parts of K."""
        return ceil(ceil(self.problem.k / self.chunk) * self.problem.taps)

    @cached
    def points(self) -> int:
        """Points of K in a chunk, in runs."""
        return min(self.chunk, self.problem.k + -self.problem.k % self.vector)

    @cached
    def copies(self) -> float:
        """Instructions of all threads to copy a chunk of the operands."""
        p = self.problem
        scalar = self._points(p.scalar_row_operands, p.scalar_column_operands)
        return COPY_INSTRUCTIONS * (max(self.slab_bytes - scalar * p.bytes_, 0) / 16 + scalar)

    @cached
    def slab_bytes(self) -> int:
        """Bytes of shared memory that one chunk of the inputs takes."""
        p = self.problem
        return self._points(p.row_operands, p.column_operands) * p.bytes_

    @property
    def computed_type(self) -> str:
        """The type of what is computed once for the block, if only that of one type is."""
        return ""

    @property
    def computed_bytes(self) -> int:
        """Bytes of shared memory for a chunk of what is computed once for the block."""
        return self._computed_bytes if self.computes else 0

    @property
    def _computed_bytes(self) -> int:
        """Bytes of a chunk of the factors on the sides where something is computed."""
        p = self.problem
        rows, columns = p.row_factors * (p.row_work > 0), p.column_factors * (p.column_work > 0)
        return self._points(rows, columns) * p.computed_bytes_

    @cached
    def copied(self) -> tuple[int, int]:
        """
        Rows and columns of operands of a block, with those between its own: other ones for each gap
        along one of the two.
        """
        stored = self.problem.stored[0]
        rows, columns = (
            along + (beside - 1) * run if run else along * beside
            for (along, beside), run in zip(self.spread, self.problem.runs, strict=True)
        )
        return (rows * self.gaps, columns) if stored else (rows, columns * self.gaps)

    def _points(self, row_operands: float, column_operands: float) -> int:
        """Elements of one chunk of so many operands."""
        rows, columns = self.copied
        return ceil((rows * row_operands + columns * column_operands) * self.points)

    @cached
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block: all slots, and room for padding if there is any."""
        slots = self.depth if self.rings else 1
        size = self.slab_bytes * slots + self.computed_bytes
        return size * 5 // 4 if self.problem.padded or not self.problem.is_plain else size

    @cached
    def rings(self) -> bool:
        """True if chunks are copied to rings."""
        return self.chunks > 1 and not self.problem.skips

    @cached
    def registers(self) -> int:
        """
        Registers of a thread: its sums, two points of K of all factors, addresses (nvcc 13.0 for
        sm_90: 64 of 4x4 sums, 85 of 8x4, 126 of 8x8; of convolutions 142 to 150 of 8x8, 186 to 255
        of 16x8, but 65 of 8x4, 96 to 128 of 8x8 and 191 to 243 of 16x8 where chunks are skipped).
        """
        p, (rows, columns) = self.problem, self.thread
        factors = rows * p.row_factors + columns * p.column_factors
        sums = rows * columns * p.sums
        few = p.is_flat or (p.skips and sums <= FEW_SUMS)
        beside = ADDRESSES if few else 2 * ADDRESSES - 8
        count = sums + FACTORS_AT_ONCE * factors + beside
        return count + -count % 8

    @cached
    def registers_held(self) -> int:
        """Registers of a thread that its block keeps others from, with those for the fold."""
        if self.ending == "workspace":  # another kernel folds
            return self.registers
        return max(self.registers, folding_registers(self.parts, self.ending))

    @cached
    def shared_held(self) -> int:
        """Bytes of shared memory of a block, with those for what others read."""
        if self.ending != "cluster":
            return self.shared_bytes
        return self.shared_bytes + kept_bytes(self.parts, self.thread_count, self.ending)

    @property
    def parts(self) -> Parts:
        return self.parts_of(self.splits)

    def parts_of(self, splits: int) -> Parts:
        """What so many blocks leave of a point."""
        p, groups = self.problem, self.blocks // self.splits
        points = p.batch * p.results
        return Parts(splits, points, self.sums, groups, self.sums * self.thread_count, p.sums)

    @cached
    def blocks(self) -> int:
        p = self.problem
        sides = zip((p.rows, p.columns), p.beside, self.spread, strict=True)
        tiles = prod(ceil(n / a) * ceil(other / b) for n, other, (a, b) in sides)
        return p.batch // self.gaps * tiles * self.splits

    @cached
    def spread(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """
        The rows of a block along their axis and along the one beside it, and its columns, so that
        the fewest lie beyond; at least as many along an axis as are read from memory at once.
        """
        p, block = self.problem, self.block
        held = [n if side == self.lone else 1 for side, n in enumerate(self.thread)]
        rows, columns = zip(self.least_along, held, self.unit_along, strict=True)
        along_rows = spread_over(block[0], p.rows, p.beside[0], *rows)
        return along_rows, spread_over(block[1], p.columns, p.beside[1], *columns)

    @property
    def least_along(self) -> tuple[int, int]:
        """The least of a block's rows along their axis, and of its columns: what is fetched from
        memory at once."""
        rows, columns = self.problem.sectors
        if self.problem.stored[0] == 0:
            return max(rows, self.row), columns
        return rows, max(columns, self.row)

    @property
    def unit_along(self) -> tuple[int, int]:
        """What a block's rows along their axis, and its columns, are multiples of."""
        return 1, 1

    @property
    def points_held(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of a thread's rows those along their axis and along the one beside it; its columns."""
        return grain.points_held(self.thread, self.spread, self.lone, VECTOR)

    @cached
    def resident(self) -> int:
        """Blocks that an SM runs at once; 0 if none fits."""
        held = occupancy(self.target, self.block_threads, self.registers_held, self.shared_held)
        return held.blocks

    @property
    def cluster(self) -> int:
        """Blocks that run at the same time because they read each other's shared memory."""
        return self.splits if self.ending == "cluster" else 1

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return prod(self.thread) * self.problem.sums

    @cached
    def computes(self) -> bool:
        """True if what is computed of inputs is computed once for the block."""
        return self._work(together=True) < self._work(together=False)

    def _work(self, *, together: bool) -> float:
        """Instructions of all threads in a chunk for what is computed, together or by each."""
        p, threads = self.problem, self.thread_count
        rows, columns = self.copied if together else (n * threads for n in self.thread)
        work = self.points * (rows * p.row_work + columns * p.column_work)
        if together:
            copied = COPY_INSTRUCTIONS * self._computed_bytes / 16
            work += CHUNK_INSTRUCTIONS * threads + copied
        return work

    @cached
    def most_resident(self) -> int:
        """No fewer blocks than an SM runs at once, however deep rings are and K is split."""
        held = occupancy(self.target, self.block_threads, self.registers_held, self.slab_bytes)
        return held.blocks
