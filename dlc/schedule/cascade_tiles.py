"""
Tilings of attention: a sum of powers of e that is a contraction, whose exponents may be sums.

A block folds its rows chunk by chunk of keys. Of a chunk it computes the scores, the largest of
each row, and the powers, once each, into slabs; a thread then sums its rows and columns. A
candidate's time is the longest of what its instructions take, as that of a `Candidate`, and of what
memory and L2 take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar, Self

from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.tile.fragments import UNROLLED_ROUNDS
from dlc.ir.cached import cached
from dlc.schedule.block_order import dealt, slowest
from dlc.schedule.block_tile import CHUNK_INSTRUCTIONS, COPY_INSTRUCTIONS, VECTOR
from dlc.schedule.candidate import ROUNDED, SHARED_WAVEFRONTS, START, WAVEFRONTS
from dlc.schedule.cascade_problem import CascadeProblem
from dlc.schedule.endings import (
    WORDS,
    Ending,
    Parts,
    ending_seconds,
    folding_registers,
    kept_bytes,
)
from dlc.schedule.part_folds import folded_in_turn
from dlc.schedule.tiling import rings
from dlc.schedule.units import clocks_of, clocks_together, path_clocks
from dlc.target import BANK_BYTES, BANKS, MAX_REGISTERS, WIDEST_ACCESS, Target

THREADS = ((16, 8), (8, 8), (8, 16), (16, 16), (8, 32), (4, 16), (4, 8), (4, 32), (2, 32), (2, 16),
           (1, 64), (1, 32))  # fmt: skip
"""Rows and columns of threads in a block."""
THREAD_TILES = ((8, 8), (4, 8), (8, 4), (4, 4), (2, 8), (2, 4), (1, 4), (1, 2))
"""Rows and columns of a thread."""
CHUNKS = (128, 64, 32, 16)
"""Keys in a chunk."""
POWER = 5
"""Instructions for the power of a score: its load and store, a difference, and two for e^x."""
SCORE_WAVEFRONTS = 9
"""Wavefronts of shared memory for a score of each lane of a warp: it is stored, read for the
largest, again for its power, which is stored and read for the sum, and parts of rows beside."""
FOLDED = 4
"""Instructions of a score beside: it is scaled and stored, the largest found, its power added."""
EASY = 32
"""Scores of a block's only row, of a chunk, beyond which each takes `Target.chained_clocks`."""
SWEPT = 1.25
"""Instructions for a score of a thread that goes through those of a row alone."""
RESCALED = 2
"""Instructions by which a chunk's sum is added to a sum that may be relative to another score."""
FACTOR = 12
"""Instructions of a thread for what the sums of a row are multiplied with."""
PHASES = 5
"""Barriers of a chunk, with what threads wait for at each."""
PADDING = WIDEST_ACCESS
"""Bytes by which the rows of a slab are padded, that threads read at once, against conflicts."""
DEPTHS = (2, 1)
"""Slots of the rings of keys and values; of one, chunks are not requested ahead."""
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
"""Parts of the keys that blocks of their own fold."""
WAVES = 4
"""Most waves of blocks that are tried where some blocks have more to do."""
SHAPES = 5
"""The number of tilings of different blocks that `--explain` shows."""
MOST_ORDERED = 48
"""Tilings, the fastest if all blocks had as much to do, of which orders of blocks are tried."""
OF_TILE = frozenset({"units", "instructions", "blocks", "memory_seconds", "_least_clocks"})
"""What does not depend on the depth of rings."""


@dataclass(frozen=True)
class CascadeCandidate:
    """One way to tile attention for a target."""

    problem: CascadeProblem
    target: Target
    thread: tuple[int, int]
    threads: tuple[int, int]
    chunk: int
    splits: int = 1
    """Parts of the keys, each a block's."""
    ending: Ending = "workspace"
    """What folds the parts of rows that blocks share."""
    waves: int = 0
    """In how many waves blocks run, those of the last rows first; 0 where all are as long."""
    depth: int = 2
    """Slots of the rings of keys and values; 1 if a chunk is copied when the last one is done."""

    vector: ClassVar[int] = VECTOR
    """Points of K that are taken at once."""
    shares_keys: ClassVar[bool] = True
    """True if several blocks may have parts of the keys of a row."""

    def with_depth(self, depth: int) -> Self:
        """The same tile with rings of another depth."""
        new, known = object.__new__(type(self)), vars(self)
        kept = known.keys() & (OF_TILE | self.__dataclass_fields__.keys())
        vars(new).update({name: known[name] for name in kept})
        vars(new).update(depth=depth)
        return new

    @property
    def mma(self) -> str:
        """The shape of the products of matrices that warps compute; none if empty."""
        return ""

    @property
    def copy_steps(self) -> list[str]:
        """The steps that say how keys are copied, and how they lie in shared memory."""
        if self.slots == 1:
            return ["pad-smem"]
        return [*rings(self.depth, self.target), "pad-smem", "pipeline-k-outer"]

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self.thread[0] * self.threads[0], self.thread[1] * self.threads[1]

    @property
    def thread_count(self) -> int:
        return prod(self.threads)

    @property
    def tile_options(self) -> str:
        """Options of `register-tile` beside its extents."""
        return f" mma={self.mma}" if self.mma else ""

    @property
    def lanes(self) -> int:
        """Rows that neighbours in a warp have, so that they share keys and columns."""
        return 2 if self.threads[0] % 2 == 0 and self.threads[1] > 1 and not self.mma else 1

    @property
    def points(self) -> tuple[int, int]:
        """Rows and keys of the scores that a thread computes at once."""
        return self.thread[0], self.chunk // self.threads[1]

    @property
    def sums(self) -> int:
        """Of a thread, those of a chunk counted."""
        return 2 * prod(self.thread)

    @property
    def chunks(self) -> int:
        """Chunks of a block."""
        return ceil(ceil(self.problem.keys / self.chunk) / self.splits)

    @property
    def chunks_held(self) -> float:
        """Chunks of a block, on average, that are not skipped."""
        if not self.problem.skips:
            return self.chunks
        held = self.problem.held(self.block[0], self.chunk)
        return sum(held) / len(held)

    @property
    def slab_bytes(self) -> int:
        """Bytes of shared memory of a chunk, each slab once."""
        return self._copied_bytes + self._row_bytes + self._computed_bytes

    @property
    def power_bytes(self) -> int:
        """Bytes of powers, which take the place of scores in the end."""
        return 4 * self.block[0] * self.chunk

    @property
    def once_bytes(self) -> int:
        """Bytes of what is loaded of a score that no other thread reads, and no slab has."""
        return 0

    @property
    def _copied_bytes(self) -> int:
        """Of a chunk. A block of one row reads values once, from no slab."""
        p, (rows, columns) = self.problem, self.block
        of_key = p.key_bytes + (columns * p.column_bytes if rows > 1 else 0)
        return self.chunk * (of_key + rows * (p.score_bytes - self.once_bytes))

    @property
    def _row_bytes(self) -> int:
        return self.block[0] * self.problem.row_bytes

    @property
    def _computed_bytes(self) -> int:
        rows = self.block[0]
        return 4 * rows * (self.chunk + 2)

    @property
    def slots(self) -> int:
        """Chunks for which there is room."""
        return self.depth if self.chunks > 1 else 1

    @cached
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block: all slots, and the padding of rows along a score's
        products and along keys."""
        size = self._copied_bytes * self.slots + self._row_bytes + self._computed_bytes
        padded = self._padded(self.chunk * bool(self.problem.key_bytes))
        return size + PADDING * (padded + self.block[0])

    def _padded(self, keys: int) -> int:
        """Rows that are padded of all slabs that are copied, of which so many are of a chunk's
        keys."""
        p, rows = self.problem, self.block[0]
        scored = p.score_bytes > self.once_bytes
        return (keys + rows * scored) * self.slots + rows * bool(p.row_bytes)

    @cached
    def registers(self) -> int:
        """Registers of a thread: its sums and a chunk's, four points of all factors, addresses."""
        (rows, columns), keys = self.thread, self.points[1]
        count = 2 * rows * columns + VECTOR * (rows + max(columns, keys)) + 48
        count += -count % 8
        return max(count, folding_registers(self.parts, self.ending))

    @cached
    def blocks(self) -> int:
        p, (rows, columns) = self.problem, self.block
        return self.splits * p.batch * ceil(p.rows / rows) * ceil(p.columns / columns)

    @cached
    def resident(self) -> int:
        """Blocks that an SM runs at once; 0 if none fits."""
        if self.registers > MAX_REGISTERS or self.shared_held > self.target.shared_per_block:
            return 0
        return occupancy(self.target, self.thread_count, self.registers, self.shared_held).blocks

    @property
    def shared_held(self) -> int:
        """Bytes of shared memory of a block, with those for what others read."""
        largest_and_sum = replace(self.parts, held=self.parts.held + 2 * self.rows_held)
        return self.shared_bytes + kept_bytes(largest_and_sum, self.thread_count, self.ending)

    @property
    def rows_held(self) -> int:
        """Rows of which a thread has sums."""
        return self.thread[0]

    @cached
    def instructions(self) -> tuple[float, float, float]:
        """Multiply-adds, shared loads and other instructions of a thread for a chunk."""
        p, (rows, columns), keys = self.problem, self.thread, self.points[1]
        steps = p.width / VECTOR, self.chunk / VECTOR
        ffma = VECTOR * (steps[0] * rows * keys + steps[1] * rows * columns)
        loads = steps[0] * (rows + keys)
        loads += steps[1] * (rows + VECTOR * ceil(columns / VECTOR))
        beside = CHUNK_INSTRUCTIONS + self.folding_instructions + rows * FACTOR
        beside += COPY_INSTRUCTIONS * self._copied_bytes / 16 / self.thread_count
        if p.key_bytes < 4 * p.width:  # halves are widened
            beside += p.width * keys
        if 0 < p.column_bytes < 4:
            beside += self.chunk * columns
        return ffma, loads, beside

    @property
    def scores(self) -> float:
        """Of a chunk, as many as a thread has."""
        return self.block[0] * self.chunk / self.thread_count

    @property
    def folding_instructions(self) -> float:
        """Of a thread for a chunk, between its products and to add it to those before."""
        beside = self.scores * (POWER + FOLDED) + RESCALED * prod(self.thread)
        if self.block[0] == 1:  # one thread finds the largest of the only row, and its sum
            beside += 2 * SWEPT * self.chunk
        return beside

    @property
    def folding_wavefronts(self) -> float:
        """Of shared memory, of a warp for a chunk, but for those of its products."""
        return SCORE_WAVEFRONTS * self.scores

    @property
    def phases(self) -> int:
        """Barriers of a chunk."""
        return PHASES

    @cached
    def units(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """
        Clocks for one chunk of one block of the units that each scheduler of an SM has, and of
        those that all share, if nothing is waited for.
        """
        p, t, (rows, columns), keys = self.problem, self.target, self.thread, self.points[1]
        of_row = SHARED_WAVEFRONTS if self.threads[1] > 1 else WAVEFRONTS
        of_key = SHARED_WAVEFRONTS if self.lanes > 1 else WAVEFRONTS
        wavefronts = p.width / VECTOR * (of_row * rows + of_key * keys)
        wavefronts += self.chunk / VECTOR * (of_row * rows + of_key * columns)
        wavefronts += self.folding_wavefronts
        written = self._copied_bytes / (BANKS * BANK_BYTES)
        ffma, loads, beside = self.instructions
        longest = max(ffma / t.fp32_lanes, (ffma + loads) / t.issue_lanes)
        slots = self.thread_count * (longest + beside / t.issue_lanes)
        return (slots,), (self.thread_count / t.warp * wavefronts + written,)

    @property
    def path_clocks(self) -> float:
        """Clocks of a chunk of a warp that a scheduler has to itself."""
        ffma, *others = self.instructions
        chained = max(self.chunk - EASY, 0) if self.block[0] == 1 else 0
        return path_clocks(ffma, sum(others), self.target) + chained * self.target.chained_clocks

    def busy_clocks(self, running: int) -> float:
        """Clocks that an SM needs for a chunk of each of so many blocks."""
        warps = running * self.thread_count / self.target.warp
        return running * clocks_together(*self.units, warps, self.unhidden, self.target)

    @property
    def unhidden(self) -> float:
        """The share of the clocks of an SM's units that others do not hide."""
        return self.target.apart

    @property
    def unrolled(self) -> int:
        """
        Most iterations of a loop that is written out. Both products of a chunk, if they are, take
        less than half of the cache of instructions: on an H100, 64 keys of 64 elements by threads
        of 8 x 8 sums, both written out, took 2.5 times as long as their instructions, and 1.45
        times by threads of 4 x 8, 5000 instructions; 2600 of 4 x 4 took 1.0 times as long.
        """
        (rows, columns), keys = self.thread, self.points[1]
        trips = ((self.problem.width // VECTOR, keys), (self.chunk // VECTOR, columns))

        def code(limit: int) -> int:
            return sum(VECTOR * rows * many * n for n, many in trips if n <= limit)

        limit = max(self.chunk, 64) // self.vector
        while limit > 1 and code(limit) >= self.target.most_instructions / 2:
            limit //= 2
        return limit

    @cached
    def issue_seconds(self) -> float:
        """Time of the SM that has the most to do."""
        left, clocks = ceil(self.blocks / self.target.sms), 0.0
        if self.waves:
            work, sms = self.problem.held(self.block[0], self.chunk), self.target.sms
            loads = dealt(work, self.blocks // len(work), sms, self.resident, self.waves)
            clocks = slowest(loads, self.resident, self._chunk_of_each)
            return (clocks + ceil(left / self.resident) * self.turn_clocks) / self.target.clock
        while left > 0:
            running = min(self.resident, left)
            rounds = left // running if running == self.resident else 1
            chunks = self.chunks_held * self._chunk_of_each(running)
            clocks += rounds * (chunks + self.turn_clocks)
            left -= rounds * running
        return clocks / self.target.clock

    @property
    def turn_clocks(self) -> float:
        """Of blocks beside their chunks."""
        return START

    def _chunk_of_each(self, running: int) -> float:
        """Clocks of an SM for a chunk of each of so many blocks."""
        latency, met = self.target.latency_clocks, self.phases * self.target.meeting_clocks
        is_read = self.once_bytes > 0 or (self.block[0] == 1 and self.slots > 1)
        hidden, waits = float(latency), int(is_read)  # through registers, in each chunk
        if self.slots > 1:
            hidden = latency / (self.slots - 1)
        elif self.chunks > 1:
            waits += self._copied_in_turn
        alone = max(self.busy_clocks(1), self.path_clocks) + met + latency * waits
        return max(self.busy_clocks(running), hidden, alone)

    @property
    def _copied_in_turn(self) -> int:
        """Times that a thread waits for what it copies of a chunk without rings."""
        p, each = self.problem, WIDEST_ACCESS * self.thread_count
        rounds = [ceil(self.chunk * p.key_bytes / each)]
        rounds.append(ceil(self.chunk * self.block[1] * p.column_bytes / each))
        return max(sum(n for n in rounds if n > UNROLLED_ROUNDS), 1)

    @cached
    def l2_bytes(self) -> int:
        """Bytes that all blocks fetch from L2."""
        return int(self.blocks * (self.chunks_held * self._chunk_bytes + self._row_bytes))

    @property
    def _chunk_bytes(self) -> int:
        """Bytes that a block fetches for a chunk."""
        p, (rows, columns) = self.problem, self.block
        values = columns * p.column_bytes if rows == 1 else 0
        return self._copied_bytes + self.chunk * (rows * self.once_bytes + values)

    @cached
    def memory_seconds(self) -> float:
        """Time to fetch each operand once for each head, by as many SMs as have a block."""
        p, t = self.problem, self.target
        of_keys = p.key_bytes + p.columns * p.column_bytes + p.rows * p.score_bytes
        fetched = p.batch * (p.keys * p.share * of_keys + p.rows * p.row_bytes)
        at_once = min(self.blocks, t.sms) * t.sm_bandwidth
        return max(fetched / at_once, min(fetched, p.memory_bytes) / t.memory_rate)

    @property
    def sums_held(self) -> int:
        """Sums of a thread, one of each row and column."""
        return prod(self.thread)

    @property
    def parts(self) -> Parts:
        """What the blocks leave that share keys."""
        p, values = self.problem, prod(self.block) * self.problem.results
        points = p.batch * p.rows * p.columns * p.results
        held = self.sums_held * p.results
        groups = self.blocks // self.splits
        return Parts(self.splits, points, held, groups, values, p.results)

    @cached
    def ending_seconds(self) -> float:
        """Of what folds the parts, whose sums wait for the largest exponent."""
        if self.splits == 1:
            return 0
        t = self.target
        waited = t.latency_seconds + t.dependent_clocks * self._folding_instructions / t.clock
        return ending_seconds(self.parts, t, self.ending, max(self.resident, 1)) + waited

    @property
    def _folding_instructions(self) -> float:
        """Of a thread that folds parts: in its own kernel each point has a factor of its own."""
        p, parts, points, rows = self.problem, self.splits, self.sums_held, self.rows_held
        points = ceil(points / parts) if self.ending == "cluster" else points
        if self.ending == "workspace":
            of_kernel = p.batch * p.rows * p.columns, p.columns, self.target, p.results
            points, parts = folded_in_turn(parts, *of_kernel)
            rows = points
        return parts * (points * (p.results - 1) * RESCALED + rows * FACTOR)

    @property
    def combine_seconds(self) -> float:
        """Of the kernel that folds the parts, if there is one."""
        return self.ending_seconds if self.ending == "workspace" else 0

    @cached
    def seconds(self) -> float:
        """The predicted time, without the launch."""
        times = self.issue_seconds, self.l2_bytes / self.target.l2_bandwidth, self.memory_seconds
        waited = self.target.unhidden_row * min(times[0], times[2]) if self.block[0] == 1 else 0
        return max(times) + waited + self.ending_seconds

    def least_seconds(self, splits: int) -> float:
        """
        Less than the time with the keys in so many parts, of a tile that does not split them: as if
        registers and shared memory kept no block out, blocks had the units of an SM to themselves,
        and parts were folded by who waits for them.
        """
        t, blocks = self.target, self.blocks * splits
        alone, busy = self._least_clocks
        chunks = self.chunks_held if splits == 1 else ceil(self.chunks / splits)
        if self.depth == 1 and chunks > 1:
            alone += t.latency_clocks
        left = ceil(blocks / t.sms)
        turns = ceil(left * self.thread_count / t.threads_per_sm)
        clocks = turns * START + chunks * max(turns * alone, left * busy)
        l2_bytes = int(blocks * (chunks * self._chunk_bytes + self._row_bytes))
        longest = max(clocks / t.clock, l2_bytes / t.l2_bandwidth)
        if splits > 1:
            return ROUNDED * (longest + t.latency_seconds)
        return ROUNDED * max(longest, self.memory_seconds)

    @cached
    def _least_clocks(self) -> tuple[float, float]:
        """Less than what a chunk takes of a block, and what units are busy with it."""
        alone, met = max(self.busy_clocks(1), self.path_clocks), self.target.meeting_clocks
        return alone + self.phases * met, clocks_of(sum(self.units, ()), self.unhidden)

    @property
    def ties(self) -> tuple[int, int]:
        """Least for the first of equally fast ones: the least padding, then the largest tile."""
        return self.blocks // self.splits * prod(self.block), -prod(self.thread)

    @property
    def flops(self) -> float:
        p, (rows, _) = self.problem, self.block
        padded = p.batch * ceil(p.rows / rows) * rows
        return padded * p.keys * p.share * (p.width + p.columns + POWER)

    def __str__(self) -> str:
        rows, columns = self.block
        split = f", in {self.splits} parts" if self.splits > 1 else ""
        split += WORDS[self.ending][1]
        times = {
            "issue": self.issue_seconds,
            "memory": self.memory_seconds,
            "L2": self.l2_bytes / self.target.l2_bandwidth,
            WORDS[self.ending][0]: self.ending_seconds,
        }
        told = ", ".join(
            f"{name} {seconds * 1e6:.3g}" for name, seconds in times.items() if seconds
        )
        return (
            f"{rows}x{columns} blocks of {self.thread_count} threads, keys in chunks of "
            f"{self.chunk}{split}: {self.seconds * 1e6:.3g} us ({told}; {self.blocks} blocks, "
            f"{self.resident} on an SM)"
        )
