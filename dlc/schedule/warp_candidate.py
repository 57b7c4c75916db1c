"""
Tilings of a contraction on tensor cores, and the cost of each.

As a `Candidate`, but for what an SM needs for a chunk: the longest of the clocks of its tensor
cores, of the instructions that its warps issue, and of the wavefronts of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from dlc.analysis.loop.mma_products import FLOAT8, INT8
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.mma_layouts import TYPES
from dlc.ir.cached import cached
from dlc.schedule.block_tile import CHUNK_INSTRUCTIONS, COPY_INSTRUCTIONS
from dlc.schedule.candidate import WAVEFRONTS, Candidate
from dlc.schedule.problem import TensorProduct
from dlc.schedule.units import path_clocks
from dlc.target import BANK_BYTES, BANKS, WARP, ProductKind

ROWS, COLUMNS = 16, 8
"""Of the sums of a product that a warp computes at once."""
LANES_OF_ROW = 4
"""Lanes that share the columns of a row of sums."""
PADDING = 16
"""Bytes after each row of a slab, which keep 8 rows off each other's banks."""
ROW_LOADS, ROW_WAVEFRONTS = 1, WAVEFRONTS
"""Instructions and wavefronts by which a warp reads 16 rows of 32 bytes that lie in runs of 16."""
ROW_WORDS = 8
"""Words of a row of a factor that a product takes: 16 halves, or 8 elements of f32."""
SPLIT_INSTRUCTIONS = 5
"""By which a lane takes an element of f32 apart: its leading bits, the rest, and 0 for both where
it is infinite."""
SUM_BYTES = 4
ADDED_CLOCKS = 4
"""Clocks of a point of a sum beside products, which a thread adds one after the other."""
OTHER_REGISTERS = 48
"""Registers of a thread beside sums and factors: addresses, copies, the next factors."""


@dataclass(frozen=True)
class WarpCandidate(Candidate):
    """One way to tile a problem for tensor cores: `thread` is what a warp has, `threads` warps."""

    depths: ClassVar[tuple[int, ...]] = (4, 3, 2)
    kind: ClassVar[ProductKind] = "half"
    vector: ClassVar[int] = 16
    """Points of K of a product that a warp computes at once."""
    element_loads: ClassVar[tuple[int, int]] = 12, 8
    """Instructions and wavefronts by which a warp reads 16 rows of so many points of K element by
    element, and packs halves in pairs."""
    precision: ClassVar[str] = ""
    """What factors of f32 are multiplied in."""
    chunk_sizes: ClassVar[tuple[int, ...]] = (128, 64, 32)
    """Points of K in a chunk that are tried."""
    most: ClassVar[int] = 128
    """Sums of a lane that leave registers for factors."""

    @property
    def mma(self) -> str:
        return f"m16n8k{self.vector}"

    @property
    def product(self) -> TensorProduct:
        assert self.problem.tensor is not None
        return self.problem.tensor

    @cached
    def thread_count(self) -> int:
        return WARP * prod(self.threads)

    @property
    def least_along(self) -> tuple[int, int]:
        return self.thread

    @property
    def unit_along(self) -> tuple[int, int]:
        """A warp's rows are along one axis, and its columns."""
        return self.thread

    @property
    def sums(self) -> int:
        return prod(self.thread) * self.problem.sums // WARP

    @property
    def computed_type(self) -> str:
        return self.product.type if self.computes else ""

    @cached
    def computes(self) -> bool:
        """True if what is multiplied is computed of inputs: then always once for the block."""
        return self.product.row_work + self.product.column_work > 0

    @property
    def _computed_bytes(self) -> int:
        p, t = self.problem, self.product
        rows, columns = p.row_factors * (t.row_work > 0), p.column_factors * (t.column_work > 0)
        sums = SUM_BYTES * max(self.block) * t.sums_beside
        return self._points(rows, columns) * self._factor_bytes + sums

    @property
    def _factor_bytes(self) -> int:
        """Bytes of a factor, which may be computed of narrower or wider elements."""
        return element_bytes(TYPES[self.product.type].element)

    @cached
    def shared_bytes(self) -> int:
        slots = self.depth if self.rings else 1
        parts = (
            (self.slab_bytes * slots, self.problem.bytes_),
            (self.computed_bytes, self._factor_bytes),
        )
        return sum(n * (self.points + PADDING // each) // self.points for n, each in parts)

    @cached
    def registers(self) -> int:
        after = ceil(self.sums * self.product.after)
        after += self.thread[1] // LANES_OF_ROW * self.product.after_columns
        count = self.sums + after + self._factor_words + OTHER_REGISTERS
        return count + -count % 8

    @property
    def _factor_words(self) -> int:
        """Registers of a lane for its parts of factors at `vector` points of K."""
        p, (rows, columns) = self.problem, self.thread
        return (rows * p.row_factors + columns * p.column_factors) * ROW_WORDS // WARP

    @cached
    def step(self) -> tuple[int, int]:
        """Products of matrices and other instructions of a warp for `vector` points of K."""
        rows, columns = self._fragments
        t, each = self.product, self.element_loads[0]
        loads = rows * (ROW_LOADS if t.row_runs else each)
        loads += columns * (ROW_LOADS if t.column_runs else each)
        return prod(self.thread) * self.problem.sums // (ROWS * COLUMNS), loads

    @property
    def _fragments(self) -> tuple[int, int]:
        """How often a warp reads 16 rows of factors along rows, and as many along columns."""
        p, (rows, columns) = self.problem, self.thread
        return rows * p.row_factors // ROWS, columns * p.column_factors // ROWS

    @cached
    def beside(self) -> float:
        work = self._work(together=True) if self.computes else 0
        return CHUNK_INSTRUCTIONS + (self.copies + work) / self.thread_count

    def _work(self, *, together: bool) -> float:
        t, (rows, columns) = self.product, self.block
        work = self.points * (rows * t.row_work + columns * t.column_work)
        copied = COPY_INSTRUCTIONS * self._computed_bytes / 16
        return work + CHUNK_INSTRUCTIONS * self.thread_count + copied

    @cached
    def tensor_clocks(self) -> float:
        """Clocks of an SM's tensor cores for a chunk."""
        return self._products / self.target.mma_rate(self.kind)

    @property
    def _products(self) -> int:
        """Multiply-adds of a block for a chunk."""
        return prod(self.block) * self.points * self.problem.sums

    @cached
    def units(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        t, steps, warps = self.target, self.points / self.vector, prod(self.threads)
        issue = warps * self._instructions * t.warp / t.issue_lanes
        (rows, columns), p = self._fragments, self.product
        each = self.element_loads[1]
        wavefronts = rows * (ROW_WAVEFRONTS if p.row_runs else each)
        wavefronts += columns * (ROW_WAVEFRONTS if p.column_runs else each)
        written = (self.slab_bytes + self.computed_bytes) / (BANKS * BANK_BYTES)
        return (self.tensor_clocks, issue), (warps * steps * wavefronts + written,)

    @property
    def unhidden(self) -> float:
        return self.target.apart_mma

    @property
    def _instructions(self) -> float:
        """That a warp issues for a chunk."""
        return self.points / self.vector * sum(self.step) + self.beside

    @cached
    def path_clocks(self) -> float:
        """What a warp does one after the other: it meets others, reads factors, multiplies them."""
        t = self.target
        steps = self.points / self.vector * (t.read_clocks + t.product_clocks)
        added = self.points * ADDED_CLOCKS if self.product.sums_beside else 0
        return t.meeting_clocks + path_clocks(0, self._instructions, t) + steps + added

    @property
    def points_held(self) -> tuple[tuple[int, int], tuple[int, int]]:
        rows, columns = self.thread
        return (rows, 1), (columns, 1)

    @cached
    def stored_seconds(self) -> float:
        """None: four lanes have what makes a sector, or half of one."""
        return 0

    @property
    def is_dense(self) -> bool:
        """True: all that warps issue is counted."""
        return True

    @property
    def tensor_flops(self) -> float:
        p = self.problem
        return 2 * p.batch * p.results * p.k * p.taps

    @property
    def ties(self) -> tuple[float, ...]:
        """Least for the one that keeps SMs busy for the fewest clocks, then the deepest ring."""
        return self.blocks * self.chunks * self.chunk_clocks, -self.depth

    @property
    def copy_share(self) -> float:
        mma, loads = self.step
        copies = self.copies / self.thread_count
        return copies / (self.points / self.vector * (mma + loads) + self.beside)


@dataclass(frozen=True)
class Tf32Candidate(WarpCandidate):
    """One for factors of f32, of which tensor cores multiply the leading bits."""

    kind: ClassVar[ProductKind] = "tf32"
    vector: ClassVar[int] = 8
    element_loads: ClassVar[tuple[int, int]] = 4, 4
    precision: ClassVar[str] = "tf32"
    chunk_sizes: ClassVar[tuple[int, ...]] = (32, 16)

    @property
    def unhidden(self) -> float:
        """As of threads: measured of halves alone is another share."""
        return self.target.apart


@dataclass(frozen=True)
class Int8Candidate(WarpCandidate):
    """One for factors of integers of 8 bits."""

    kind: ClassVar[ProductKind] = "int8"
    vector: ClassVar[int] = 32
    element_loads: ClassVar[tuple[int, int]] = 28, 16
    chunk_sizes: ClassVar[tuple[int, ...]] = (128, 64)


@dataclass(frozen=True)
class Float8Candidate(Int8Candidate):
    """
    One for factors of floats of 8 bits. Tensor cores may keep as few as 14 bits of their sums
    (Zhang et al., "SageAttention2", 2024): each chunk has sums of its own, which threads add.
    """

    kind: ClassVar[ProductKind] = "float8"
    most: ClassVar[int] = 64
    apart: ClassVar[bool] = True

    @cached
    def registers(self) -> int:
        return super().registers + self.sums

    @cached
    def beside(self) -> float:
        return super().beside + self.sums


@dataclass(frozen=True)
class SplitCandidate(Tf32Candidate):
    """
    One whose factors are taken apart into two parts, of whose products three are added; what a
    chunk sums is added to the sums in f32.
    """

    precision: ClassVar[str] = "3xtf32"
    most: ClassVar[int] = 64

    @cached
    def registers(self) -> int:
        count = 2 * self.sums + 3 * self._factor_words + OTHER_REGISTERS
        return count + -count % 8

    @cached
    def step(self) -> tuple[int, int]:
        mma, loads = super().step
        return 3 * mma, loads + SPLIT_INSTRUCTIONS * self._factor_words

    @cached
    def beside(self) -> float:
        return super().beside + self.sums

    @cached
    def tensor_clocks(self) -> float:
        return 3 * super().tensor_clocks


def warp_candidate_of(type: str, precision: str = "tf32") -> type[WarpCandidate]:
    """How factors of a type are tiled for tensor cores, those of f32 in a precision."""
    if type in INT8:
        return Int8Candidate
    if type in FLOAT8:
        return Float8Candidate
    if type != "f32":
        return WarpCandidate
    return SplitCandidate if precision == "3xtf32" else Tf32Candidate
