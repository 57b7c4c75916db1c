"""Rings of every depth, filled in every way, with loops of few and of many chunks."""

from __future__ import annotations

import loop_cases
import numpy as np
import pytest
from harness import apply, interpret, lowered, on_host, parse, scheduled
from xdsl.dialects.builtin import ModuleOp

TILES = "blockify-launch{block=16,32 thread=4,8},stage-inputs{budget=65536}"
REGISTERS = "register-tile{extents=4,4}"
FILLS = ("", "async-copy", "pipeline-k-outer", "async-copy,pipeline-k-outer")
LAUNCHES = [
    {"async_mode": mode, "order": order, "seed": 3}
    for mode in ("late", "early")
    for order in ("forward", "reverse", "random")
]


def ringed(case: loop_cases.Case, depth: int, steps: str) -> ModuleOp:
    """Kernel IR of a GEMM in chunks of 8, with rings."""
    ring = f"double-buffer{{depth={depth}}}"
    pipeline = f"tileify,chunk-matmul-k{{bk=8 vector=4}},{TILES},{REGISTERS},{ring},{steps}"
    module = scheduled(case, pipeline.rstrip(","))
    apply(module, pipeline.rstrip(","))
    return lowered(module)


@pytest.mark.parametrize("steps", FILLS)
@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("k", [5, 24, 50])
def test_depths_and_chunks(k: int, depth: int, steps: str) -> None:
    case = loop_cases.gemm(20, 37, k)
    interpret(case, ringed(case, depth, steps), f"depth {depth}, {steps}")


@pytest.mark.parametrize(
    ("case", "depth", "steps"),
    [
        (loop_cases.gemm(20, 37, 50), 2, FILLS[1]),
        (loop_cases.gemm(20, 37, 50), 2, FILLS[3]),
        (loop_cases.gemm(20, 37, 9), 4, FILLS[3]),
        (loop_cases.gemm(33, 40, 56), 3, FILLS[3] + ",mark-unroll{limit=8}"),
        (loop_cases.gemm(33, 40, 56, transposed=True), 3, FILLS[3] + ",mark-unroll{limit=8}"),
    ],
)
def test_on_the_host(case: loop_cases.Case, depth: int, steps: str) -> None:
    on_host(case, ringed(case, depth, steps), f"depth {depth}, {steps}", LAUNCHES)


def test_slots_of_one_element() -> None:
    """A row of one point and chunks of one point of K: slots are told apart all the same."""
    case = loop_cases.silu_matmul(1, 33, 64)
    pipeline = (
        "tileify,chunk-matmul-k{bk=16 vector=4},chunk-reduce{bk=1},stage-inputs{budget=200000},"
        "double-buffer{depth=2},async-copy,pipeline-k-outer"
    )
    module = scheduled(case, pipeline, "sm_80")
    apply(module, pipeline)
    interpret(case, lowered(module), pipeline)


CHUNK_OF_A_BLOCK = """
func.func @main(%x: tensor<64xf32>) -> tensor<8xf32> {
  %y = tile.kernel @k(%x: memref<64xf32> = %x) -> (%y: memref<8xf32>) {
    tile.launch block(%b in 8) thread(%t in 8) {
      %r = tile.ring async %x(%n in 8)[%n * 8] [8] : memref<64xf32> -> memref<2x8xf32, #tile.shared>
      tile.fill %r[%b]
      %a = tile.acquire %r[%b] : memref<2x8xf32, #tile.shared> -> memref<8xf32, #tile.shared>
      %v = tile.load %a[%t] : memref<8xf32, #tile.shared>
      %s = tile.combine add %v across(%t) : f32
      tile.release %r[%b]
      tile.store %s, %y[%b] : memref<8xf32>
    }
  }
  func.return %y : tensor<8xf32>
}
"""


def test_a_chunk_of_each_block() -> None:
    """Which chunk is waited for need not be a number."""
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    case = loop_cases.Case("chunks", "", (x,), lambda x: [x.reshape(8, 8).sum(axis=1)], 8)
    interpret(case, lowered(parse(CHUNK_OF_A_BLOCK)), "a chunk of each block")
