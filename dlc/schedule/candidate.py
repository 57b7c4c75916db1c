"""
Tilings of a contraction: candidates, and the cost of each on a target.

A candidate says what a thread, a block and a chunk of K are (`dlc.schedule.block_tile`), how many
slots a ring has and into how many parts K is split. Its time is the longest of three, plus
launches:

- *issue*: the busiest SM works through its blocks, as many at once as registers, threads and shared
  memory allow. A chunk costs the instructions of its multiply-adds, shared loads and copies, and of
  the wavefronts of its shared loads what these do not hide (`dlc.schedule.units`), and at least the
  time on its way of a copy that rings do not hide; what is computed of whole sums costs its
  instructions, too. What is computed of inputs is computed by every thread that reads it or, for
  one more barrier, once for a block, into a slab of its own: whichever takes fewer instructions.
- *memory*: operands and results once, at the memory's rate; *l2*: the sectors that all blocks
  fetch, at L2's.

A split ends in a kernel that combines the partial sums, or in the last block that has some
(`dlc.schedule.endings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, prod
from typing import Self

from dlc.analysis.tile.fragments import UNROLLED_ROUNDS
from dlc.ir.cached import cached
from dlc.schedule import grain
from dlc.schedule.block_tile import CHUNK_INSTRUCTIONS, COPY_INSTRUCTIONS, VECTOR, BlockTile
from dlc.schedule.endings import WORDS, Ending, ending_seconds
from dlc.schedule.problem import Problem
from dlc.schedule.units import clocks_of, clocks_together, path_clocks
from dlc.target import START_CLOCKS
from dlc.text import microseconds

MANY = 64
"""Sums of a thread whose products with a chunk of factors are written out in full."""
WAVEFRONTS = 4
"""Clocks of shared memory for 16 bytes in each lane of a warp: eight lanes at a time."""
SHARED_WAVEFRONTS = 2
"""The same where each lane reads what its neighbour does: sixteen lanes at a time
(`dlc.analysis.kernel.banks`): neighbours have the same rows."""
DENSE = 0.85
"""The share of multiply-adds from which on what the estimate leaves out is hidden by them."""
START = 2 * START_CLOCKS
"""Clocks of a block before its first and after its last chunk."""
ROUNDED = 1 - 1e-9
"""Keeps a bound below what it bounds when both are rounded."""

OF_TILE = frozenset({"block", "thread_count", "points", "copies", "slab_bytes", "registers",
                     "spread", "copied", "reads", "step", "beside", "share", "computes",
                     "tensor_clocks", "units", "chunk_clocks", "fetched_bytes", "stored_seconds",
                     "path_clocks"})  # fmt: skip
"""What depends neither on the depth of rings nor on the parts of K, nor, of K, on more than the
points of a chunk."""


@dataclass(frozen=True)
class Candidate(BlockTile):
    """One way to tile a problem for a target, and the time that it takes."""

    def for_problem(self, problem: Problem, depth: int, splits: int, *, ending: Ending) -> Self:
        """
        The same tile with rings of other depths, for K in other parts, of a problem that is like
        its own (`Problem.like`).
        """
        new, known = object.__new__(type(self)), vars(self)
        kept = known.keys() & (OF_TILE | self.__dataclass_fields__.keys())
        vars(new).update({name: known[name] for name in kept})
        vars(new).update(problem=problem, depth=depth, splits=splits, ending=ending)
        return new

    @property
    def mma(self) -> str:
        """The shape of products of matrices that warps compute at once, if they do."""
        return ""

    @property
    def multiplied_by(self) -> str:
        """By what other products than those of threads, or of halves by warps, if at all."""
        return self.precision

    @property
    def pipeline(self) -> str:
        """The step that has chunks requested ahead."""
        return "pipeline-k-outer"

    @cached
    def path_clocks(self) -> float:
        """Clocks of a chunk that only other chunks hide, of other threads or blocks."""
        (ffma, loads), steps = self.step, self.points / VECTOR
        return path_clocks(steps * ffma, steps * loads + self.beside, self.target)

    @property
    def turn_clocks(self) -> float:
        """Clocks of blocks beside their chunks, where they follow others on an SM."""
        return START

    @cached
    def reads(self) -> tuple[int, int]:
        """Shared loads of a thread for four points of K, of rows and of columns."""
        return grain.reads(self.problem, self.thread, self.lone, VECTOR)

    @cached
    def step(self) -> tuple[int, int]:
        """Multiply-adds and shared loads that a thread issues for four points of K."""
        return VECTOR * self.sums, sum(self.reads)

    @cached
    def beside(self) -> float:
        """Instructions that a thread issues for a chunk beside its steps."""
        work = min(self._work(together=True), self._work(together=False))
        return CHUNK_INSTRUCTIONS + (self.copies + work) / self.thread_count

    @cached
    def share(self) -> float:
        """The share of multiply-adds among the instructions of a chunk."""
        ffma, loads = self.step
        steps = self.points / VECTOR
        return steps * ffma / (steps * (ffma + loads) + self.beside)

    @property
    def is_dense(self) -> bool:
        """True if multiply-adds are enough of a chunk to hide what the estimate leaves out."""
        return self.share >= DENSE

    @property
    def copy_share(self) -> float:
        """The share of copies among the instructions of a chunk."""
        copies = self.copies / self.thread_count
        return copies / (self.points / VECTOR * sum(self.step) + self.beside)

    @cached
    def units(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """
        Clocks for one chunk of one block of the units that each scheduler of an SM has, and of
        those that all share, if nothing is waited for: shared memory, which looks up lines, too.
        """
        t, (ffma, loads), (of_rows, of_columns) = self.target, self.step, self.reads
        of_row = SHARED_WAVEFRONTS if self.threads[1] > 1 else WAVEFRONTS
        wavefronts = (1 if self.lone == 0 else of_row) * of_rows
        wavefronts += (1 if self.lone == 1 else WAVEFRONTS) * of_columns
        issue = (ffma + loads) * t.warp / t.issue_lanes
        steps, warps = self.points / VECTOR, self.thread_count / t.warp
        longest = max(ffma * t.warp / t.fp32_lanes, issue)
        slots = warps * (self.beside * t.warp / t.issue_lanes + steps * longest)
        lines = grain.line_clocks(self.problem, self.copied, self.spread, self.points)
        return (slots,), (warps * steps * wavefronts + lines,)

    @cached
    def chunk_clocks(self) -> float:
        """Clocks that an SM needs for one chunk of one block where it has warps enough."""
        return clocks_of(sum(self.units, ()), self.unhidden)

    @property
    def unhidden(self) -> float:
        """The share of the clocks of an SM's units that others do not hide."""
        return self.target.apart

    @property
    def after_clocks(self) -> float:
        """Clocks that an SM issues what a block computes of its sums, which have not been split."""
        points = self.thread_count * self.sums / self.problem.sums
        return points * self.problem.after / self.target.issue_lanes if self.splits == 1 else 0

    def busy_clocks(self, running: float) -> float:
        """Clocks that an SM needs for a chunk of each of so many blocks."""
        warps = running * self.thread_count / self.target.warp
        return running * clocks_together(*self.units, warps, self.unhidden, self.target)

    @property
    def sm_rate(self) -> float:
        """Bytes a second that pass to an SM."""
        return self.target.sm_bandwidth

    @property
    def l2_rate(self) -> float:
        """Bytes a second that all SMs draw of L2."""
        return self.target.l2_bandwidth

    def _awaited(self, running: float) -> float:
        """
        Clocks from a chunk to the next at least: those of the chunks that are requested ahead share
        what passes to an SM, and the time that the first of them is on its way.
        """
        t = self.target
        passing = running * self.fetched_bytes * t.clock / self.sm_rate
        arriving = t.latency_clocks + passing
        if not self.rings and self.chunks > 1 and not t.has("cp.async"):  # but for each round
            rounds = self.copies / COPY_INSTRUCTIONS / self.thread_count
            arriving += (ceil(rounds / UNROLLED_ROUNDS) - 1) * t.latency_clocks
        if self.rings:
            return max(passing, arriving / max(self.depth - 1, 1), self.path_clocks)
        if self.chunks == 1:  # whose way is before all
            return max(passing, self.path_clocks)
        return max(arriving + self.busy_clocks(1), self.path_clocks)

    @cached
    def issue_seconds(self) -> float:
        """Time of the SM that has the most blocks."""
        share = self.target.busiest_share(self.blocks, self.cluster, max(self.resident, 1))
        clocks, left = 0.0, share
        while left > 0:
            running = min(self.resident, left)
            rounds = left // running if running == self.resident else 1
            chunk = max(self.busy_clocks(running), self._awaited(running))
            clocks += rounds * (self.chunks * chunk + running * self.after_clocks)
            clocks += rounds * self.turn_clocks
            left -= rounds * running
        return (clocks + START - self.turn_clocks) / self.target.clock

    @property
    def memory_seconds(self) -> float:
        return self.problem.compulsory_bytes / self.target.memory_rate

    @cached
    def l2_seconds(self) -> float:
        """Seconds that all blocks take to fetch, at L2's rate."""
        return self.l2_bytes / self.l2_rate

    @cached
    def stored_seconds(self) -> float:
        """Seconds that L2 takes where sectors are stored in parts."""
        held, between = self.points_held, self.gaps
        return grain.stored_seconds(self.problem, self.spread, held, between, self.target)

    @property
    def l2_bytes(self) -> float:
        """Bytes that all blocks fetch from L2."""
        return self.blocks * self.chunks * self.fetched_bytes

    @cached
    def fetched_bytes(self) -> float:
        """Bytes of the sectors of a chunk of the operands."""
        fetched = grain.fetched_elements(self.problem, self.copied, self.spread)
        return max(self.slab_bytes, fetched * self.points * self.problem.bytes_)

    @cached
    def ending_seconds(self) -> float:
        """Of what follows the partial sums."""
        return ending_seconds(self.parts, self.target, self.ending, max(self.resident, 1))

    @property
    def combine_seconds(self) -> float:
        """Of the kernel that adds partial sums, if there is one."""
        return self.ending_seconds if self.ending == "workspace" else 0

    @cached
    def seconds(self) -> float:
        """The predicted time."""
        if self.resident < 1 or self.shared_held > self.target.shared_per_block:
            return inf
        fetching = self.target.start_seconds + max(self.memory_seconds, self.l2_seconds)
        longest = max(self.issue_seconds, fetching)
        return self.target.launch_seconds + longest + self.stored_seconds + self.ending_seconds

    @property
    def tensor_flops(self) -> float:
        """Operations that tensor cores do."""
        return 0

    @property
    def ties(self) -> tuple[float, ...]:
        """Least for the first of candidates that take equally long: the largest thread tile, then
        the deepest ring."""
        return -prod(self.thread), -self.depth

    def __str__(self) -> str:
        parts = {
            "issue": self.issue_seconds,
            "memory": self.memory_seconds,
            "L2": self.l2_seconds,
            "stores": self.stored_seconds,
            WORDS[self.ending][0]: self.ending_seconds,
        }
        times = ", ".join(f"{name} {microseconds(s)}" for name, s in parts.items() if s)
        shape = "x".join(f"{a}*{b}" if b > 1 else f"{a}" for a, b in self.spread)
        split = f", K in {self.splits} parts" if self.splits > 1 else ""
        split += WORDS[self.ending][1]
        split += ", summed apart" if self.apart else ""
        split += "" if self.lone is None else ", stored side by side"
        split += f" with {self.gaps - 1} between" if self.gaps > 1 else ""
        how = f", products by {self.multiplied_by}" if self.multiplied_by else ""
        return (
            f"{shape} blocks of {self.block_threads} threads, chunks of {self.chunk}"
            f"{split}{how}: {microseconds(self.seconds)} us ({times}; {self.blocks} blocks, "
            f"{self.resident} on an SM)"
        )
