"""
Tilings of a contraction on tensor cores, and the cost of each.

As a `Candidate`, but for what an SM needs for a chunk: the longest of the clocks of its tensor
cores, of the instructions that its warps issue, and of the wavefronts of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from dlc.ir.cached import cached
from dlc.schedule.candidate import (
    CHUNK_INSTRUCTIONS,
    COPY_INSTRUCTIONS,
    SCHEDULERS,
    UNHIDDEN,
    WAVEFRONTS,
    Candidate,
)
from dlc.schedule.problem import TensorProduct
from dlc.target import BANK_BYTES, BANKS, WARP

STEP = 16
"""Points of K, and rows, and twice the columns, of a product that a warp computes at once."""
PADDING = 8
"""Elements after each row of a slab: 16 bytes, which keep 8 rows off each other's banks."""
ROW_LOADS, ROW_WAVEFRONTS = 1, WAVEFRONTS
"""Instructions and wavefronts by which a warp reads 16 x 16 elements that lie in runs of 8."""
ELEMENT_LOADS, ELEMENT_WAVEFRONTS = 12, 8
"""The same for elements that a warp reads one by one, and packs in pairs."""
OTHER_REGISTERS = 48
"""Registers of a thread beside sums and factors: addresses, copies, the next factors."""


@dataclass(frozen=True)
class WarpCandidate(Candidate):
    """One way to tile a problem for tensor cores: `thread` is what a warp has, `threads` warps."""

    depths: ClassVar[tuple[int, ...]] = (4, 3, 2)
    vector: ClassVar[int] = STEP
    mma: ClassVar[str] = "m16n8k16"

    @property
    def product(self) -> TensorProduct:
        assert self.problem.tensor is not None
        return self.problem.tensor

    @cached
    def thread_count(self) -> int:
        return WARP * prod(self.threads)

    @property
    def least_along(self) -> tuple[int, int]:
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
        return self._points(rows, columns) * p.bytes_

    @cached
    def shared_bytes(self) -> int:
        slots = self.depth if self.rings else 1
        slabs = self.slab_bytes * slots + self.computed_bytes
        return slabs * (self.points + PADDING) // self.points

    @cached
    def registers(self) -> int:
        p, (rows, columns) = self.problem, self.thread
        factors = (rows * p.row_factors + columns * p.column_factors) * STEP // 2 // WARP
        count = self.sums + factors + OTHER_REGISTERS
        return count + -count % 8

    @cached
    def step(self) -> tuple[int, int]:
        """Products of matrices and other instructions of a warp for 16 points of K."""
        rows, columns = self._fragments
        t = self.product
        loads = rows * (ROW_LOADS if t.row_runs else ELEMENT_LOADS)
        loads += columns * (ROW_LOADS if t.column_runs else ELEMENT_LOADS)
        return prod(self.thread) * self.problem.sums * 2 // STEP**2, loads

    @property
    def _fragments(self) -> tuple[int, int]:
        """The 16 x 16 elements of factors along rows and along columns that a warp reads."""
        p, (rows, columns) = self.problem, self.thread
        return rows * p.row_factors // STEP, columns * p.column_factors // STEP

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
        products = prod(self.block) * self.points * self.problem.sums
        return products / self.target.mma_lanes

    @cached
    def chunk_clocks(self) -> float:
        t, (mma, loads), steps = self.target, self.step, self.points / STEP
        warps = prod(self.threads)
        issue = warps * (steps * (mma + loads) + self.beside) * t.warp / t.issue_lanes
        (rows, columns), p = self._fragments, self.product
        wavefronts = rows * (ROW_WAVEFRONTS if p.row_runs else ELEMENT_WAVEFRONTS)
        wavefronts += columns * (ROW_WAVEFRONTS if p.column_runs else ELEMENT_WAVEFRONTS)
        written = (self.slab_bytes + self.computed_bytes) / (BANKS * BANK_BYTES)
        shared = warps * steps * wavefronts + written
        longest = max(self.tensor_clocks, issue, shared)
        return longest + UNHIDDEN * (self.tensor_clocks + issue + shared - longest)

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

    def utilization(self, warps: float) -> float:
        """As of any warps, of which each has the tensor cores of one scheduler alone."""
        return min(warps / SCHEDULERS, super().utilization(warps))

    @property
    def copy_share(self) -> float:
        mma, loads = self.step
        copies = self.copies / self.thread_count
        return copies / (self.points / STEP * (mma + loads) + self.beside)
