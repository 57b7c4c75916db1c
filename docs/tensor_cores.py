"""
Writes the ladder at the end of docs/tensor-cores.md: one product of matrices in CUDA by schedules
that differ in one idea each, from fused multiply-adds to what dlc chooses by itself.

    python docs/tensor_cores.py          # CI checks that the page is what this makes
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import dlc
from dlc.dialects.kernel import FuncOp
from dlc.precision import Precision
from dlc.schedule.scheduled_time import scheduled_seconds
from dlc.target import get_target
from dlc.text import counted, table

PAGE = Path(__file__).with_name("tensor-cores.md")
TITLE = "## A ladder"
HOPPER_TITLE = "## The next rungs, on sm_90"
TARGET = "sm_80"
SIZE = 4096
"""Rows, columns and K of the product."""


@dataclass(frozen=True)
class Rung:
    """A schedule, and the one idea that it adds to those before."""

    title: str
    idea: str
    steps: str
    """Apart by spaces; `~` is one."""
    dtype: torch.dtype = torch.bfloat16
    precision: Precision = "f32"
    """What its results are judged by."""
    target: str = TARGET

    @property
    def schedule(self) -> str:
        return ",".join(self.steps.split()).replace("~", " ")

    def compiled(self, rows: int, columns: int, k: int) -> dlc.CompiledProgram:
        """A linear layer of such sizes by this schedule."""
        given = tuple(torch.empty(n, k, dtype=self.dtype) for n in (rows, columns))
        return dlc.compile(linear, given, self.target, "host", schedules={"linear": self.schedule})


def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The program of all rungs."""
    return F.linear(x, w)


_WARPS = "blockify-launch{block=128,128~thread=2,2}"
RUNGS = (
    Rung(
        "A thread, a point",
        "Each thread sums one point, by a fused multiply-add for each point of K, of which it "
        "loads both factors: two loads for a multiply-add.",
        "tileify blockify-launch{block=16,16~thread=16,16}",
    ),
    Rung(
        "Register tiles",
        "A block copies a chunk of K of its rows and columns to shared memory, and a thread has "
        "8 x 8 points in registers: 16 loads for 64 multiply-adds. This is what f32 gets.",
        "tileify chunk-matmul-k{bk=32~vector=4} blockify-launch{block=128,128~thread=16,16} "
        "stage-inputs{budget=16384} register-tile{extents=8,8} mark-unroll{limit=8}",
    ),
    Rung(
        "A warp multiplies matrices",
        "Each of 2 x 2 threads becomes a warp, and its 64 x 64 points are dealt to the lanes as "
        "`mma` lays out its sums: 2048 multiply-adds by one instruction of a warp. Factors are "
        "loaded element by element from global memory, to where their layout wants them.",
        f"tileify chunk-matmul-k{{bk=32~vector=16}} {_WARPS} "
        "register-tile{extents=64,64~mma=m16n8k16} mark-unroll{limit=64}",
    ),
    Rung(
        "ldmatrix",
        "In shared memory, rows of a factor lie along K, 16 bytes of which are a row of an 8 x 8 "
        "matrix: each lane names a row, and one instruction deals four such matrices to the lanes "
        "in the layout of `mma`.",
        f"tileify chunk-matmul-k{{bk=32~vector=16}} {_WARPS} stage-inputs{{budget=16384}} "
        "register-tile{extents=64,64~mma=m16n8k16} mark-unroll{limit=64}",
    ),
    Rung(
        "A ring that copies fill",
        "Slabs become rings of three slots, which `cp.async` fills two chunks ahead: warps "
        "multiply one chunk while the next ones arrive, and no register holds what is copied.",
        f"tileify chunk-matmul-k{{bk=32~vector=16}} {_WARPS} stage-inputs{{budget=16384}} "
        "register-tile{extents=64,64~mma=m16n8k16} double-buffer{depth=3} async-copy "
        "pipeline-k-outer mark-unroll{limit=64}",
    ),
    Rung(
        "Rows apart",
        "Eight rows of 64 bytes, of which `ldmatrix` reads 16 bytes each, lie in two halves of the "
        "banks: the read takes four turns. With 16 bytes after each second row, each of the eight "
        "has banks of its own.",
        f"tileify chunk-matmul-k{{bk=32~vector=16}} {_WARPS} stage-inputs{{budget=16384}} "
        "register-tile{extents=64,64~mma=m16n8k16} double-buffer{depth=3} async-copy pad-smem "
        "pipeline-k-outer mark-unroll{limit=64}",
    ),
    Rung(
        "Swizzled rows",
        "The same with no byte of padding: the places of a row's pieces are exchanged by an "
        "exclusive or with the number of the row.",
        f"tileify chunk-matmul-k{{bk=64~vector=16}} {_WARPS} stage-inputs{{budget=32768}} "
        "register-tile{extents=64,64~mma=m16n8k16} double-buffer{depth=3} "
        "split-inner-for-swizzle async-copy pipeline-k-outer mark-unroll{limit=64}",
    ),
    Rung(
        "f32, its leading bits",
        "Factors of f32 are multiplied by `mma` m16n8k8, which reads 19 bits of each. The rest of "
        "the kernel is the same; `ldmatrix` reads four elements in 16 bytes.",
        f"tileify chunk-matmul-k{{bk=32~vector=8}} {_WARPS} stage-inputs{{budget=32768}} "
        "register-tile{extents=64,64~mma=m16n8k8~precision=tf32} double-buffer{depth=3} async-copy "
        "pad-smem pipeline-k-outer mark-unroll{limit=64}",
        torch.float32,
        "tf32",
    ),
    Rung(
        "f32, by three products",
        "Each factor is taken apart into its leading bits and the rest, and three of the four "
        "products are added. A chunk of K has sums of its own, which are added in f32.",
        "tileify chunk-matmul-k{bk=32~vector=8} blockify-launch{block=128,128~thread=2,4} "
        "stage-inputs{budget=32768} register-tile{extents=64,32~mma=m16n8k8~precision=3xtf32} "
        "double-buffer{depth=3} async-copy pad-smem pipeline-k-outer mark-unroll{limit=64}",
        torch.float32,
        "3xtf32",
    ),
)
_GROUPS = (
    "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=128,256~thread=2,1} "
    "stage-inputs{budget=49152} register-tile{extents=64,256~mma=m64n256k16} "
)
HOPPER = (
    Rung(
        "Warps",
        "What was the seventh rung above, with blocks of 128 x 256: eight warps of 64 x 64 points "
        "read factors from shared memory to registers, and multiply those.",
        "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=128,256~thread=2,4} "
        "stage-inputs{budget=49152} register-tile{extents=64,64~mma=m16n8k16} "
        "double-buffer{depth=3} split-inner-for-swizzle{bytes=128} async-copy pipeline-k-outer "
        "mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "Warpgroups",
        "Each of two warpgroups has 64 x 256 points, and `wgmma` multiplies 64 x 16 and 16 x 256 "
        "elements where they lie in shared memory, as two descriptors tell it. No factor is in "
        "registers. Threads have written the slabs, and wgmma reads them through another proxy: "
        "each thread fences before the barrier.",
        f"{_GROUPS} double-buffer{{depth=3}} split-inner-for-swizzle{{bytes=128}} async-copy "
        "pipeline-k-outer mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "Boxes by TMA",
        "One thread asks the tensor memory accelerator for the slabs, which it writes in the same "
        "swizzle; mbarriers say when they are there, and when they are free again. No barrier of "
        "the block and no fence is left in the loop.",
        f"{_GROUPS} double-buffer{{depth=3}} tma-copy split-inner-for-swizzle{{bytes=128}} "
        "pipeline-k-outer mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "Larger blocks",
        "With no factor in registers, a thread has room for 192 sums. A block of 256 x 192 points "
        "reads a fifth less from L2 for each of them, and that is what the others wait for.",
        "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=256,192~thread=2,1} "
        "stage-inputs{budget=65536} register-tile{extents=128,192~mma=m64n192k16} "
        "double-buffer{depth=3} tma-copy split-inner-for-swizzle{bytes=128} pipeline-k-outer "
        "mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "A producer",
        "A warpgroup more asks for all chunks, as soon as slots are free: none of those that "
        "multiply waits for a slot, or for the other. The producer keeps 40 registers of a thread "
        "and gives the others up, so that those that multiply have 232 each in place of 168, which "
        "would not hold 192 sums.",
        "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=256,192~thread=2,1} "
        "stage-inputs{budget=65536} register-tile{extents=128,192~mma=m64n192k16} "
        "double-buffer{depth=3} tma-copy split-inner-for-swizzle{bytes=128} "
        "pipeline-k-outer{producer=1~registers=40} mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "Resident blocks",
        "A block for each SM works through up to three tiles, and chunks are numbered on from one "
        "to the next: while the results of a tile are stored, the producer requests the first "
        "chunks of the next.",
        "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=256,192~thread=2,1} "
        "stage-inputs{budget=65536} register-tile{extents=128,192~mma=m64n192k16} "
        "double-buffer{depth=3} tma-copy split-inner-for-swizzle{bytes=128} "
        "pipeline-k-outer{producer=1~registers=40~resident=1} mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "Results by TMA",
        "The two neighbours that a lane has of a row are 4 bytes, and those of four lanes half a "
        "sector: what is stored goes to L2 in twice as many sectors as it has. Here a warp writes "
        "16 rows of 128 bytes to shared memory, swizzled, fences, and one of its lanes has them "
        "stored while the warp writes the next ones. Addresses and the ends of rows are TMA's "
        "business.",
        "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=256,192~thread=2,1} "
        "stage-inputs{budget=65536} register-tile{extents=128,192~mma=m64n192k16} "
        "double-buffer{depth=3} tma-copy{store=2} split-inner-for-swizzle{bytes=128} "
        "pipeline-k-outer{producer=1~registers=40~resident=1} mark-unroll{limit=64}",
        target="sm_90",
    ),
    Rung(
        "Boxes for two blocks",
        "Two blocks with the same columns are a cluster. Each requests half of a chunk of `w`, "
        "which TMA writes to the shared memory of both: beside the 32 KB of `x`, a block reads 12 "
        "KB of L2 for a chunk in place of 24. A slot is free when the warps of both "
        "blocks have released it: one lane tells its own block, another one the other. The blocks "
        "meet when mbarriers are there, and before one ends.",
        "tileify chunk-matmul-k{bk=64~vector=16} blockify-launch{block=256,192~thread=2,1} "
        "stage-inputs{budget=65536} register-tile{extents=128,192~mma=m64n192k16} "
        "double-buffer{depth=3} tma-copy{store=2~multicast=1,2} split-inner-for-swizzle{bytes=128} "
        "pipeline-k-outer{producer=1~registers=40~resident=1} mark-unroll{limit=64}",
        target="sm_90",
    ),
)


def page() -> str:
    """The text of docs/tensor-cores.md: as it stands, up to the ladders."""
    text = PAGE.read_text()
    before = text[: text.index(TITLE)].rstrip()
    return "\n\n".join([before, TITLE, *_ladder(), HOPPER_TITLE, *_hopper()]) + "\n"


def _ladder() -> Iterator[str]:
    yield (
        f"Made by `python docs/tensor_cores.py`: `F.linear` of {SIZE} x {SIZE} x {SIZE}, bf16 and "
        f"then f32, for {TARGET}, by schedules that differ in one idea each. Times are predicted "
        "from the instructions that each kernel's IR counts to, none is measured, and what turns "
        "of the banks cost where a warp multiplies is not counted: that is the last column. Each "
        "of these schedules is run at ragged sizes and compared with fp64 by "
        "`test_tensor_cores.py -k rung`."
    )
    yield from _rungs(RUNGS)


def _hopper() -> Iterator[str]:
    yield (
        "The same product in bf16 for sm_90, made and tested likewise. What a warpgroup reads of "
        "shared memory is not counted by banks, nor what it waits where products are not in "
        "flight: an H100 took 360, 275, 221, 229, 232, 225 and 195 us."
    )
    yield from _rungs(HOPPER)


def _rungs(rungs: Sequence[Rung]) -> Iterator[str]:
    made = [(rung, rung.compiled(SIZE, SIZE, SIZE)) for rung in rungs]
    rows = [
        [str(number), rung.title, f"{_seconds(program, rung) * 1e6:.0f}", _ways(program)]
        for number, (rung, program) in enumerate(made, 1)
    ]
    yield f"```\n{table(('', 'idea', 'us', 'reads of shared memory'), rows)}\n```"
    for number, (rung, program) in enumerate(made, 1):
        yield f"### {number}. {rung.title}"
        yield rung.idea
        yield f"```\n{program.kernels[0].schedule}\n```"
        yield f"```cuda\n{_body(program.kernels[0].source)}\n```"


def _seconds(program: dlc.CompiledProgram, rung: Rung) -> float:
    module = program.variants[0].module("kernel")
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return scheduled_seconds(func, get_target(rung.target))


def _ways(program: dlc.CompiledProgram) -> str:
    """The most turns of the banks in which a slab is read."""
    found = [int(n) for n in re.findall(r"read of \w+, \d+ bytes: (\d+) way", program.explain())]
    return counted(max(found), "way") if found else ""


def _body(text: str) -> str:
    """The kernel itself: without what it calls, and without its schedule."""
    kernel = text[text.index("// grid ") :]
    return re.sub(r"; schedule: .*\n(//.*\n)*", "\n", kernel).strip()


if __name__ == "__main__":
    PAGE.write_text(page())
