"""
Tilings of a contraction of halves by warpgroups, which multiply matrices where these lie in shared
memory (`wgmma`), and the cost of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf, prod
from typing import ClassVar

from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.loop.mma_products import FLOAT8, HALVES, INT8
from dlc.dialects.kernel_tma import MAX_BOX
from dlc.dialects.mma_layouts import WARP_SUMS, WARPGROUP_SHAPES
from dlc.dialects.register_counts import BESIDE_SUMS, KEPT
from dlc.ir.cached import cached
from dlc.schedule.block_tile import CHUNK_INSTRUCTIONS
from dlc.schedule.candidate import START
from dlc.schedule.problem import Problem, TensorProduct
from dlc.schedule.result_boxes import ResultBoxes
from dlc.schedule.warp_candidate import LANES_OF_ROW, WarpCandidate
from dlc.target import (
    BANK_BYTES,
    BANKS,
    MAX_REGISTERS,
    MAX_THREADS,
    WARP,
    WARPGROUP,
    ProductKind,
    Target,
)

ROWS = 64
"""Rows of a product of a warpgroup."""
PANEL = 64
"""Halves in a row of the widest swizzle, 128 bytes: what rows of a slab are a multiple of."""
GROUPS = ((2, 1), (1, 1), (1, 2), (2, 2), (1, 4), (4, 1))
"""Rows and columns of warpgroups in a block."""
LEAST = 16
"""Columns of a warpgroup at least: of fewer, reading A takes four times as long as multiplying."""
TILES = (64, 128)
"""Rows of a warpgroup."""
REQUEST = 5
"""Instructions of a warp for a product, two descriptors and itself (ptxas for sm_90a: 80 for 8 in
a loop that has `CHUNK_INSTRUCTIONS` beside them)."""
SLOTS = 4
"""Of a ring, even if there are fewer chunks."""
COPIED_REGISTERS, BOX_REGISTERS = 64, 32
"""Registers of a thread beside its sums, where threads copy slabs and where TMA does."""
BESIDE_SLABS = 3 << 10
"""Bytes of shared memory that mbarriers and the alignment of slabs take."""


@dataclass(frozen=True)
class WarpgroupCandidate(WarpCandidate):
    """
    One way to tile a problem for warpgroups: `thread` is what one of them has, `threads` how many
    there are. Slabs are rings, swizzled, and copied by TMA where it can; a warpgroup more asks for
    them if the block has a `producer`.
    """

    producer: bool = False
    depths: ClassVar[tuple[int, ...]] = (8, 6, 4, 3, 2)
    chunk_sizes: ClassVar[tuple[int, ...]] = (PANEL, 2 * PANEL)

    @property
    def mma(self) -> str:
        return f"m64n{self.thread[1]}k{self.vector}"

    @property
    def multiplied_by(self) -> str:
        return "wgmma"

    @property
    def boxes(self) -> bool:
        """True if TMA copies slabs."""
        return self.product.boxes and self.target.has("tma") and max(self.block) <= MAX_BOX

    @property
    def ring_steps(self) -> list[str]:
        store = f"{{store={self.results.places}}}" if self.stores_boxes else ""
        copies = [f"tma-copy{store}", _SWIZZLE] if self.boxes else [_SWIZZLE, "async-copy"]
        return [f"double-buffer{{depth={self.depth}}}", *copies]

    @property
    def pipeline(self) -> str:
        if not self.producer:
            return super().pipeline
        options = f" registers={KEPT}" if self.gives_registers else ""
        options += f" resident={self.resident}" if self.takes_turns else ""
        return f"{super().pipeline}{{producer=1{options}}}"

    @property
    def sm_rate(self) -> float:
        return self.target.box_bandwidth / self.target.sms if self.boxes else super().sm_rate

    @property
    def l2_rate(self) -> float:
        return self.target.box_bandwidth if self.boxes else super().l2_rate

    @property
    def takes_turns(self) -> bool:
        """
        True if a producer requests what comes next, for blocks that do the work of several, each of
        as many chunks. In such a loop ptxas keeps addresses of what is loaded for each sum, which
        spills (2 KB of 192 sums and 232 registers) unless it is loaded box by box: then there is
        none.
        """
        several = self.blocks > self.resident * self.target.sms
        alike = not self.problem.skips and self.chunks * self.splits == self.chunks_of_k
        stored = self.stores_boxes or not self.product.loads_after
        ends = self.ending != "cluster"
        return self.producer and several and alike and stored and ends

    @property
    def turn_clocks(self) -> float:
        """What is before a first chunk is hidden, about half of `START`."""
        return START / 2 if self.takes_turns else START

    @cached
    def thread_count(self) -> int:
        return WARPGROUP * prod(self.threads)

    @property
    def block_threads(self) -> int:
        return self.thread_count + (WARPGROUP if self.producer else 0)

    @property
    def gives_registers(self) -> bool:
        """True if a producer gives registers up, without which the sums have no room."""
        return self._gives(self.registers)

    def _gives(self, registers: int) -> bool:
        return self.producer and registers > self.target.entry_registers(self.block_threads)

    @cached
    def registers_held(self) -> int:
        if not self.gives_registers:
            return super().registers_held
        return self.target.entry_registers(self.block_threads)

    @property
    def _most_registers(self) -> int:
        """That a thread can have."""
        t, threads = self.target, self.block_threads
        if not self.producer:
            return MAX_REGISTERS
        entry = t.entry_registers(threads)
        return max(entry, t.registers_beside(threads, KEPT)) if t.has("setmaxnreg") else entry

    @property
    def sums(self) -> int:
        return prod(self.thread) * self.problem.sums // WARPGROUP

    @property
    def fits(self) -> bool:
        """True if slabs have rows that the swizzle takes, and threads registers for the sums."""
        assert self.product.along_k is not None
        _, columns_along_k = self.product.along_k
        columns = self.thread[1]  # of which none begins within a panel
        whole = columns % PANEL == 0 or PANEL % columns == 0
        panels = columns_along_k or (whole and self.block[1] % PANEL == 0)
        if self.producer and (not self.boxes or self.block_threads > MAX_THREADS):
            return False
        product = ROWS * self.thread[1] // WARPGROUP + BESIDE_SUMS
        if product > self.target.entry_registers(self.block_threads):
            return False
        if max(self.block) > MAX_BOX and self.product.boxes and self.target.has("tma"):
            return False  # threads would copy what smaller blocks have copied
        return panels and self.registers <= self._most_registers

    @cached
    def rings(self) -> bool:
        """True: what is no ring is not swizzled, and a chunk alone is multiplied by warps."""
        return self.chunks > 1

    @cached
    def seconds(self) -> float:
        """Infinite for what cannot be: where the last block folds parts all threads meet."""
        meet = self.producer and self.ending == "last"
        slots = max(self.chunks, SLOTS) < self.depth
        return inf if not self.rings or slots or meet else super().seconds

    def busy_clocks(self, running: float) -> float:
        """All warpgroups wait for a chunk and for their products at about the same times."""
        return running * self.chunk_clocks / self.target.filled_share + self._waiting(running)

    def _waiting(self, running: float) -> float:
        """Clocks that tensor cores wait for warpgroups of so many blocks."""
        t, others = self.target, running * prod(self.threads) - 1
        waiting = t.waiting_clocks * (1 - t.hidden_share * min(others, 1))
        return waiting + (0 if self.producer else t.asking_clocks)

    @cached
    def path_clocks(self) -> float:
        """A warpgroup's own products, and what it waits beside."""
        return self.tensor_clocks / prod(self.threads) + self._waiting(1)

    @cached
    def shared_bytes(self) -> int:
        return self._bytes_beside_results + (self.results.place_bytes if self.stores_boxes else 0)

    @property
    def _bytes_beside_results(self) -> int:
        return self.slab_bytes * self.depth + BESIDE_SLABS

    @property
    def results(self) -> ResultBoxes:
        """What a block stores, as boxes."""
        rows, columns = self.thread
        warps, bytes = self.thread_count // WARP, self.product.stored_bytes
        return ResultBoxes(warps, rows // ROWS, columns, bytes)

    @cached
    def stores_boxes(self) -> bool:
        """
        True if TMA stores what warps hold: where that saves sectors, takes no place from slabs or
        other blocks, and a warp that writes a box does not wait for the one before.
        """
        if not (self.boxes and self.splits == 1 and self.results.pay):
            return False
        return self._blocks_if(boxes=True) >= max(self._blocks_if(boxes=False), 1)

    def _blocks_if(self, *, boxes: bool) -> int:
        """Blocks that an SM holds if TMA stores boxes, or if threads store."""
        t, threads, registers = self.target, self.block_threads, self._registers_if(boxes=boxes)
        if registers > self._most_registers:
            return 0
        held = t.entry_registers(threads) if self._gives(registers) else registers
        shared = self._bytes_beside_results + (self.results.place_bytes if boxes else 0)
        return occupancy(t, threads, held, shared).blocks

    @property
    def l2_bytes(self) -> float:
        """With the sectors that stores touch again."""
        again = 0 if self.stores_boxes or self.splits > 1 else self.results.parts_of_sector - 1
        stored = self.problem.batch * self.problem.results * self.product.stored_bytes
        return super().l2_bytes + again * stored

    @cached
    def points(self) -> int:
        return self.chunk

    @cached
    def registers(self) -> int:
        return self._registers_if(boxes=self.stores_boxes)

    def _registers_if(self, *, boxes: bool) -> int:
        """Of a thread, which computes what follows its sums box by box or for all of them."""
        at_once = self._sums_of_box if boxes else self.sums
        beside = BOX_REGISTERS if self.boxes else COPIED_REGISTERS
        columns = 0 if boxes else self.thread[1] // LANES_OF_ROW * self.product.after_columns
        count = self.sums * (1 + self.apart) + ceil(at_once * self.product.after) + columns + beside
        return count + -count % 8

    @property
    def _sums_of_box(self) -> int:
        """Of a thread."""
        points = WARP_SUMS.rows * self.results.row_bytes // self.product.stored_bytes
        return points * self.problem.sums // WARP

    @property
    def _requests(self) -> int:
        """Products that a warpgroup asks for at `vector` points of K."""
        return self.thread[0] // ROWS * self.problem.sums

    @cached
    def step(self) -> tuple[int, int]:
        return self._requests, self._requests * (REQUEST - 1)

    @cached
    def copies(self) -> float:
        return 0 if self.boxes else super().copies

    @cached
    def beside(self) -> float:
        added = self.sums if self.apart else 0
        return CHUNK_INSTRUCTIONS + added + self.copies / self.thread_count

    @property
    def ties(self) -> tuple[float, ...]:
        """Of those that wait for memory alike, the one that passes L2 least, then the one whose own
        work takes least."""
        busy, deepest = super().ties
        return busy, self.l2_bytes, deepest, self.issue_seconds

    @cached
    def tensor_clocks(self) -> float:
        return self._products / self.target.group_rate(self.kind)

    @cached
    def units(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        t, steps = self.target, self.points / self.vector
        groups, warps = prod(self.threads), self.thread_count / WARP
        issue = warps * (steps * sum(self.step) + self.beside) * t.warp / t.issue_lanes
        read = self._requests * (ROWS + self.thread[1]) * self.vector * self.problem.bytes_
        return (self.tensor_clocks, issue), (groups * steps * read / (BANKS * BANK_BYTES),)

    @property
    def unhidden(self) -> float:
        """Nothing: tensor cores have been asked."""
        return 0.0


_SWIZZLE = "split-inner-for-swizzle{bytes=128}"


@dataclass(frozen=True)
class Int8WarpgroupCandidate(WarpgroupCandidate):
    """One for factors of integers of 8 bits."""

    kind: ClassVar[ProductKind] = "int8"
    vector: ClassVar[int] = 32
    chunk_sizes: ClassVar[tuple[int, ...]] = (2 * PANEL,)


@dataclass(frozen=True)
class Float8WarpgroupCandidate(Int8WarpgroupCandidate):
    """One for factors of floats of 8 bits, of which each chunk is summed apart."""

    kind: ClassVar[ProductKind] = "float8"
    apart: ClassVar[bool] = True

    @property
    def unhidden(self) -> float:
        """Sums are added when their products have been waited for."""
        return self.target.adding_share


@dataclass(frozen=True)
class Tf32WarpgroupCandidate(WarpgroupCandidate):
    """One for factors of f32, of which tensor cores multiply the leading bits."""

    kind: ClassVar[ProductKind] = "tf32"
    vector: ClassVar[int] = 8
    precision: ClassVar[str] = "tf32"
    chunk_sizes: ClassVar[tuple[int, ...]] = (PANEL // 2,)

    @property
    def multiplied_by(self) -> str:
        return f"wgmma of {self.precision}"


@dataclass(frozen=True)
class PartsWarpgroupCandidate(Tf32WarpgroupCandidate):
    """One for factors that are laid out in parts, of which each chunk is summed apart."""

    apart: ClassVar[bool] = True

    @property
    def unhidden(self) -> float:
        """Sums are added when their products have been waited for."""
        return self.target.adding_share

    @property
    def multiplied_by(self) -> str:
        return f"wgmma of parts in {self.precision}"


def warpgroup_candidate_of(tensor: TensorProduct) -> type[WarpgroupCandidate]:
    """How factors of a product are tiled for warpgroups."""
    if tensor.type in INT8:
        return Int8WarpgroupCandidate
    if tensor.type in FLOAT8:
        return Float8WarpgroupCandidate
    if tensor.type != "f32":
        return WarpgroupCandidate
    return PartsWarpgroupCandidate if tensor.in_parts else Tf32WarpgroupCandidate


def warpgroup_tiles(problem: Problem, target: Target) -> Iterator[WarpgroupCandidate]:
    """Tiles for warpgroups, if these can compute the sums: but of halves if all lies along K."""
    tensor = problem.tensor
    if tensor is None or tensor.along_k is None or not target.has("wgmma"):
        return
    if tensor.type not in HALVES and not all(tensor.along_k):
        return
    if tensor.type == "f32":
        may = target.precision == "tf32" or (tensor.in_parts and target.precision != "f32")
        if not may:
            return
    made = warpgroup_candidate_of(tensor)
    widths = sorted({s.n for s in WARPGROUP_SHAPES.values() if s.n >= LEAST}, reverse=True)
    for rows, columns, groups, chunk in product(TILES, widths, GROUPS, made.chunk_sizes):
        tile = made(problem, target, (rows, columns), groups, chunk, 2, 1)
        yield from (t for t in (tile, replace(tile, producer=True)) if t.fits)
