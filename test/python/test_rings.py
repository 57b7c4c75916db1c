"""Rings of every depth, filled in every way, with loops of few and of many chunks."""

from __future__ import annotations

import kernels
import pytest
from harness import apply, interpret, lowered, on_host, scheduled
from xdsl.dialects.builtin import ModuleOp

TILES = "blockify-launch{block=16,32 thread=4,8},stage-inputs{budget=65536}"
REGISTERS = "register-tile{extents=4,4}"
FILLS = ("", "async-copy", "pipeline-k-outer", "async-copy,pipeline-k-outer")
LAUNCHES = [
    {"async_mode": mode, "order": order, "seed": 3}
    for mode in ("late", "early")
    for order in ("forward", "reverse", "random")
]


def ringed(case: kernels.Case, depth: int, steps: str) -> ModuleOp:
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
    case = kernels.gemm(20, 37, k)
    interpret(case, ringed(case, depth, steps), f"depth {depth}, {steps}")


@pytest.mark.parametrize(
    ("case", "depth", "steps"),
    [
        (kernels.gemm(20, 37, 50), 2, FILLS[1]),
        (kernels.gemm(20, 37, 50), 2, FILLS[3]),
        (kernels.gemm(20, 37, 9), 4, FILLS[3]),
        (kernels.gemm(33, 40, 56), 3, FILLS[3] + ",mark-unroll{limit=8}"),
        (kernels.gemm(33, 40, 56, transposed=True), 3, FILLS[3] + ",mark-unroll{limit=8}"),
    ],
)
def test_on_the_host(case: kernels.Case, depth: int, steps: str) -> None:
    on_host(case, ringed(case, depth, steps), f"depth {depth}, {steps}", LAUNCHES)


def test_slots_of_one_element() -> None:
    """A row of one point and chunks of one point of K: slots are told apart all the same."""
    case = kernels.silu_matmul(1, 33, 64)
    pipeline = (
        "tileify,chunk-matmul-k{bk=16 vector=4},chunk-reduce{bk=1},stage-inputs{budget=200000},"
        "double-buffer{depth=2},async-copy,pipeline-k-outer"
    )
    module = scheduled(case, pipeline, "sm_80")
    apply(module, pipeline)
    interpret(case, lowered(module), pipeline)
