"""
What dlc knows of a chip, and what follows from it.

"Measured" is on an H100 80GB HBM3 with CUDA 13.0, 2026-11-26, in captured graphs; other chips are
taken to be alike in what says so, but for the sizes of their parts: RTX 5090 has 11 of the 12 that
GB202 has, B200 has 8 (NVIDIA's whitepapers), whose SMs are dealt as evenly as pairs allow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Literal

from dlc.ir.cached import cached
from dlc.precision import Precision
from dlc.target.limits import KIB, MAX_REGISTERS, REGISTER_STEP, WARP, WARPGROUP

START_CLOCKS = 1250
"""`Target.start_clocks` of every chip so far: two thirds of it are a request to memory."""

Feature = Literal[
    "cluster",
    "cp.async",
    "float8",
    "griddepcontrol",
    "int8",
    "mma",
    "multicast",
    "setmaxnreg",
    "stmatrix",
    "tf32",
    "tma",
    "wgmma",
]
ProductKind = Literal["half", "tf32", "float8", "int8"]
"""What tensor cores multiply: f16 or bf16, tf32, floats or integers of 8 bits."""
FEATURES: Mapping[Feature, tuple[int, str]] = {
    "cluster": (90, "thread block clusters"),
    "cp.async": (80, "cp.async"),
    "float8": (89, "mma.m16n8k32 of floats of 8 bits"),
    "griddepcontrol": (90, "griddepcontrol"),
    "int8": (80, "mma.m16n8k32 of integers of 8 bits"),
    "mma": (80, "mma.m16n8k16"),
    "multicast": (90, "copies by its tensor memory accelerator to several blocks of a cluster"),
    "setmaxnreg": (90, "setmaxnreg"),
    "stmatrix": (90, "stmatrix"),
    "tf32": (80, "mma.m16n8k8 of tf32"),
    "tma": (90, "tensor memory accelerator"),
    "wgmma": (90, "wgmma"),
}
"""What not every chip has: the first instruction set that has it (PTX ISA), and its name."""


@dataclass(frozen=True)
class Target:
    """A chip; rates in bytes and floating-point operations per second, sizes in bytes."""

    name: str
    sms: int
    clock: float
    """Boost clock in Hz."""
    memory_bandwidth: float
    l2_bytes: int
    shared_per_block: int
    """The most that a block can opt in to."""
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    warp: int = WARP
    """Lanes of a warp; ValueError for another number than kernels are made for."""
    reserved_shared: int = 1 * KIB
    """Bytes of shared memory that each block takes beside its own."""
    lacks: tuple[Feature, ...] = ()
    """What it has not, though its instruction set is new enough."""
    fp32_lanes: int = 128
    """Fused multiply-adds that an SM starts in a clock."""
    issue_lanes: int = 128
    """Threads for which an SM issues an instruction in a clock: four warps."""
    integer_lanes: int = 64
    """Comparisons, minima and selections that an SM starts in a clock (CUDA C++ Programming Guide,
    "Arithmetic Instructions")."""
    special_lanes: int = 16
    """Powers, logarithms and the like that an SM starts in a clock."""
    registers_per_sm: int = 65536
    cluster_bytes: float = 14
    """Bytes a clock that an SM reads of others in its cluster: measured, 15.2 of 2, 14.7 of 4, 13.3
    of 8."""
    cluster_clocks: int = 280
    """From an SM to another in its cluster and back: measured, 272 of 2, 305 of 8."""
    cluster_barrier: int = 1000
    """Clocks that the blocks of a cluster lose where they meet and wait for what all have written,
    which is MEMBAR in machine code: measured, 830 to 1900."""
    gpcs: tuple[int, ...] = ()
    """The SMs of each part of the chip in which a cluster finds its own; if empty, it has none."""
    fitting_clusters: tuple[int, ...] = ()
    """Clusters of 2, 3, … blocks that the driver says run at once, a block an SM, if that is known
    of one of the kind: fewer than the sizes of its parts say, of 3 to 7."""
    start_clocks: int = START_CLOCKS
    """Clocks from the begin of a kernel until what its blocks fetch first arrives."""
    latency_clocks: int = 900
    """Clocks from the request of a chunk to its arrival, from memory under load."""
    apart: float = 0.62
    """The share of the clocks of an SM's units that others do not hide: warps issue, read shared
    memory and multiply matrices in much the same order. Measured, of products by threads of 8 x 4
    to 16 x 8 sums 0.5 to 0.8, by `mma` of bf16 0.65, of tf32 0.65, of three products of tf32 0.6
    and 0.8."""
    apart_mma: float = 0.25
    """The same where warps multiply halves by `mma`: of an RTX 4090 at 2520 MHz, 4096 x 4096 x 4096
    in 895 us by blocks of 128 x 128 (0.21) and 1000 us by 64 x 64 (0.27), whose chunks of 32, rings
    of three slots and barriers are as here (github.com/spatters/mma-matmul); of an A100, 0.87 of
    its rate by cuBLAS (0.13; github.com/stas00/ml-engineering), 0.73 by attention (0.25; Dao,
    "FlashAttention-2", 2023). Of sm_90, where `mma` has not the rate of its tensor cores, as
    `apart`, measured."""
    apart_scores: float = 0.45
    """As `apart`, of attention, whose powers stand between two products: measured on an H200, by
    warpgroups 0.45 of 64 and of 128 keys a chunk, by `mma` 0.33 to 0.59. Where `apart_mma` is less,
    that is what `mma` takes."""
    apart_turns: float = 0.39
    """The same where warpgroups take turns at tensor cores: measured, 0.31 and 0.39."""
    waiting_clocks: int = 250
    """Clocks of a warpgroup from the end of its products to the begin of the next, which it asks
    for then: measured, 230 to 330 of one in a block, 100 to 270 of two. None if these were asked
    for before."""
    hidden_share: float = 0.4
    """The share of what a warpgroup waits that others of an SM hide: measured of one."""
    adding_share: float = 0.16
    """The share of other units' clocks that tensor cores wait where warpgroups add what chunks sum:
    measured of 4096 x 4096 x 12288 in tf32, 1.4 ms."""
    asking_clocks: int = 350
    """Clocks more if one of its threads asks for boxes: measured, 350 to 600."""
    dependent_clocks: int = 4
    """Clocks after which a warp issues an instruction that waits for its last one (Jia et al.,
    "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018)."""
    read_clocks: int = 33
    """Clocks until a warp has what it reads of shared memory (as `product_clocks`)."""
    product_clocks: int = 35
    """Clocks until a warp has a product of matrices (Luo et al., "Benchmarking and Dissecting the
    Nvidia Hopper GPU Architecture", IPDPS 2024: 32 to 33 of `mma`)."""
    meeting_clocks: int = 120
    """Clocks that warps wait for a chunk and for each other where they meet: assumed. With it the
    path of a chunk of 32 x 64 blocks of bf16 by four warps is 760 clocks, of 840 measured."""
    chained_clocks: int = 40
    """Clocks of a score that a thread folds behind another, its values coming through registers:
    measured, of one row of 8192 keys in 12 parts by 32 threads on an H200, 17,700 clocks for 128
    keys, of 6,200 by instructions; none beyond these for 32."""
    unhidden_row: float = 0.05
    """Of a block's only row of scores, the share of what its warps do that memory does not hide."""
    stored_rate: float = 2.7
    """What a part of a sector that is stored takes of L2 over a sector that is fetched: measured,
    2.6 TB/s of sectors where each thread stored parts of its own."""
    l2_additions: float = 1
    """Additions to one element that L2 does in a clock (NVIDIA, "Kepler GK110" whitepaper, "Atomic
    Operations")."""
    adding_clocks: float = 2
    """Clocks of shared memory for each of the lanes of a warp that add to one bank, in which it is
    read and written: assumed. Since Maxwell it adds 32 bits by itself ("Tuning CUDA Applications
    for Maxwell", "Shared Memory Atomics")."""
    shared_sector_seconds: float = 50e-12
    """Of all SMs, for a sector of which two blocks store parts: measured on an H200, what was left
    of convolutions whose rows begin within sectors was 27 (1d, 64 bytes a run), 49 (2d, by 4), 52
    (1d, 128 bytes) and 59 to 62 (fire modules) for each; of other rows nothing was left."""
    filled_share: float = 0.85
    """The share of the time of its tensor cores that an SM fills at best by `wgmma`: measured, of
    4096 x 4096 x 4096 0.83 to 0.87 beside what warpgroups wait."""
    box_bytes_per_clock: float = 55
    """Bytes a clock that an SM draws of L2 by boxes if all do, and if it alone does: measured, of
    blocks of which several read the same rows at a time."""
    launch_seconds: float = 0.9e-6
    """Seconds that a kernel in a captured graph costs beside its work: measured, 0.78 us of one
    block, 0.93 of one for each SM."""
    waiting_seconds: float = 0.5e-6
    """Seconds of the launch and of the start of a kernel that begins before the one ahead ends,
    and has asked for what it reads, that stay (griddepcontrol): assumed. Measured was a chain that
    had asked for nothing: 0.07 us less a kernel, each of which read its row once more."""
    folded_apart: float = 0.5e-6
    """Seconds more that a second kernel takes which folds parts of keys: what it reads first, its
    code among that, is in no cache. Measured of 8 rows and 2048 keys on an H200, beside a cluster:
    0.8 us more, and 0.3 less where caches held all."""
    memory_share: float = 0.9
    """The share of the memory's rate that kernels reach: measured, 3.0 to 3.1 TB/s read, 2.8
    copied; as much of A100, RTX 3090 and RTX 4090 (BabelStream)."""
    l2_bytes_per_clock: float = 64 / 3
    """Bytes a clock that an SM draws of L2 if all do: about a third of what one could take."""
    instruction_bytes: int = 128 * KIB
    """Of an SM's cache of instructions (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture
    via Microbenchmarking", 2018: L1.5)."""
    tensor_lanes: int = 256
    """Multiply-adds of f16 or bf16 that the tensor cores of an SM do in a clock, sums in f32."""
    mma_share: float = 1.0
    """The share of that rate which warps reach by `mma`."""
    tf32_lanes: int = 128
    """As `tensor_lanes`, of tf32."""
    mma_float8: float = 2.0
    """How many times as fast as halves floats of 8 bits are multiplied by `mma`: 1 where ptxas
    makes it of F2FP and HMMA."""
    int8: float = 4.0
    """How many times as fast as halves integers of 8 bits are multiplied (whitepapers, dense TOPS:
    A100 624, RTX 3090 284, RTX 4090 660, H100 1979, B200 4500, RTX 5090 838)."""
    precision: Precision = "f32"
    """What products of f32 may be computed in beside f32. Not of the chip: of who compiles for
    it."""
    one_launch: bool = False
    """True if sums that blocks share end in their own launch though a second kernel that folds
    their parts may be faster. Of who compiles for the chip, too."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"sm_\d+", self.name):
            raise ValueError(f"a chip is called by its compute capability, sm_90, not {self.name}")
        if self.warp != WARP:
            raise ValueError(
                f"expected a warp of {WARP} lanes, as every chip so far has, by which kernels "
                f"shuffle, copy and multiply; {self.name} has {self.warp}"
            )

    def __hash__(self) -> int:
        """Of the name alone: targets are asked for as keys again and again."""
        return hash(self.name)

    @property
    def instructions(self) -> int:
        """The instruction set that kernels are compiled for: 75 of sm_75."""
        return int(self.name.removeprefix("sm_"))

    def entry_registers(self, threads: int) -> int:
        """Registers of each of so many threads of a block that has an SM for itself."""
        each = self.registers_per_sm // max(threads, 1)
        return min(each - each % REGISTER_STEP, MAX_REGISTERS)

    def registers_beside(self, threads: int, kept: int) -> int:
        """
        Those of each other thread of such a block where each of one warpgroup keeps so many and
        gives the rest up.
        """
        pool = threads * self.entry_registers(threads) - WARPGROUP * kept
        each = min(pool // max(threads - WARPGROUP, 1), MAX_REGISTERS)
        return each - each % REGISTER_STEP

    def has(self, feature: Feature) -> bool:
        """True if kernels can use a feature."""
        return self.instructions >= FEATURES[feature][0] and feature not in self.lacks

    def lacking(self, feature: Feature) -> str:
        """That it has not a feature, as a sentence."""
        oldest, words = FEATURES[feature]
        older = f" (PTX ISA: sm_{oldest} or later)" if self.instructions < oldest else ""
        return f"{self.name} has no {words}{older}"

    @property
    def schedulers(self) -> int:
        """Of an SM, each of which has warps, issue slots and tensor cores of its own."""
        return self.issue_lanes // self.warp

    @property
    def label(self) -> str:
        """What schedules are told apart by: the name, the precision if it is not f32, and that sums
        end in one launch if they do."""
        precision = "" if self.precision == "f32" else f" {self.precision}"
        return f"{self.name}{precision}{' in one launch' if self.one_launch else ''}"

    def mma_rate(self, kind: ProductKind) -> float:
        """Multiply-adds that the tensor cores of an SM do in a clock by `mma`."""
        if kind == "float8":
            return self.tensor_lanes * self.mma_share * self.mma_float8
        return self.group_rate(kind) * self.mma_share

    def group_rate(self, kind: ProductKind) -> float:
        """The same by `wgmma`: of floats of 8 bits twice those of halves, as of all chips that have
        them (whitepapers)."""
        match kind:
            case "half":
                return self.tensor_lanes
            case "tf32":
                return self.tf32_lanes
            case "float8":
                return 2 * self.tensor_lanes
            case "int8":
                return self.int8 * self.tensor_lanes

    @property
    def tensor_flops(self) -> float:
        """Operations per second of tensor cores, dense, of f16 or bf16 with sums in f32."""
        return self.sms * self.tensor_lanes * 2 * self.clock

    @property
    def flops(self) -> float:
        """fp32 operations per second, a fused multiply-add counting as two."""
        return self.sms * self.fp32_lanes * 2 * self.clock

    @property
    def issue_rate(self) -> float:
        """Instructions of threads that all SMs issue per second."""
        return self.sms * self.issue_lanes * self.clock

    @property
    def roofs(self) -> dict[str, float]:
        """Operations per second at most, by what computes them: the lowest first."""
        tf32 = self.sms * self.tf32_lanes * 2 * self.clock
        found = {
            "f32": self.flops,
            "tf32 on tensor cores": tf32,
            "halves on tensor cores": self.tensor_flops,
        }
        return {name: rate for name, rate in found.items() if rate}

    @property
    def most_instructions(self) -> int:
        """Instructions, of 16 bytes, that an SM keeps."""
        return self.instruction_bytes // 16

    @cached
    def memory_rate(self) -> float:
        """Bytes a second that kernels reach."""
        return self.memory_bandwidth * self.memory_share

    @cached
    def start_seconds(self) -> float:
        """From the begin of a kernel until what its blocks fetch first arrives."""
        return self.start_clocks / self.clock

    @cached
    def latency_seconds(self) -> float:
        """From the request of a chunk to its arrival, from memory under load."""
        return self.latency_clocks / self.clock

    @cached
    def l2_bandwidth(self) -> float:
        """Bytes a second that all SMs draw of L2."""
        return self.sms * self.l2_bytes_per_clock * self.clock

    @property
    def box_bandwidth(self) -> float:
        """Bytes a second that all SMs draw of L2 by boxes."""
        return self.sms * self.box_bytes_per_clock * self.clock

    def clusters_at_once(self, blocks: int, resident: int = 1) -> int:
        """Clusters of so many blocks that run at once, where an SM has at most so many blocks."""
        return _clusters_at_once(self.gpcs, blocks, resident)

    def surely_at_once(self, blocks: int, resident: int = 1) -> int:
        """The same of any chip of the kind: as few as of this one, as the driver says of another,
        or where pairs of SMs are dealt to its parts as evenly as they can be."""
        return _surely_at_once(self, blocks, resident)

    def busiest_share(self, blocks: int, cluster: int = 1, resident: int = 1) -> int:
        """
        How many of so many blocks the SM has that has most: those of a cluster find their SMs in
        one part of the chip, at the same time. How many SMs a part has differs between chips of a
        kind: 19 clusters of 6, which fit an H100, took two turns on an H200 (27.6 us).
        """
        if cluster == 1:
            return ceil(blocks / self.sms)
        at_once = max(self.surely_at_once(cluster, resident), 1)
        turns, rest = divmod(ceil(blocks / cluster), at_once)
        ways = range(resident + 1)
        own = next((n for n in ways if self.surely_at_once(cluster, n) >= rest), resident)
        return turns * resident + own

    @property
    def most_l2_bandwidth(self) -> float:
        """64 bytes a clock for each SM, which no kernel exceeds."""
        return self.sms * 64 * self.clock

    @property
    def sm_bandwidth(self) -> float:
        """Bytes a second that one SM alone draws: about half of 64 bytes a clock."""
        return 32 * self.clock


@lru_cache(maxsize=4096)
def _surely_at_once(target: Target, blocks: int, resident: int) -> int:
    """`Target.surely_at_once`."""
    even, odd = divmod(target.sms // 2, max(len(target.gpcs), 1))
    parts = tuple(2 * (even + (n < odd)) for n in range(len(target.gpcs)))
    fitting = [_clusters_at_once(gpcs, blocks, resident) for gpcs in (target.gpcs, parts)]
    known = dict(enumerate(target.fitting_clusters, 2)).get(blocks) if resident == 1 else None
    return min(fitting if known is None else [*fitting, known])


def _clusters_at_once(gpcs: tuple[int, ...], blocks: int, resident: int) -> int:
    """`Target.clusters_at_once` of a chip with so many SMs in each of its parts."""
    return sum(sms * resident // blocks for sms in gpcs)
