"""Rings of every depth, filled in every way, with loops of few and of many chunks."""

from __future__ import annotations

import kernels
import pytest
from test_schedules import check

TILES = "blockify-launch{block=16,32 thread=4,8},stage-inputs{budget=65536}"
REGISTERS = "register-tile{extents=4,4}"


def pipeline(depth: int, steps: str, *, vector: int = 4) -> str:
    """A GEMM's schedule with chunks of 8."""
    chunks = f"chunk-matmul-k{{bk=8 vector={vector}}}"
    ring = f"double-buffer{{depth={depth}}}"
    return ",".join(s for s in ("tileify", chunks, TILES, REGISTERS, ring, steps) if s)


def with_steps(case: kernels.Case, steps: str) -> kernels.Case:
    """The kernel with a schedule that names bare steps."""
    text = case.text.replace(") {\n\n", f') schedule "{steps}" {{\n\n', 1)
    assert text != case.text
    return kernels.Case(case.name, text, case.inputs, case.expected, case.longest)


FILLS = ("", "async-copy", "pipeline-k-outer", "async-copy,pipeline-k-outer")


@pytest.mark.parametrize("mode", ["late", "early"])
@pytest.mark.parametrize("steps", FILLS)
@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("k", [5, 9, 16, 24, 50])
def test_depths_and_chunks(k: int, depth: int, steps: str, mode: str) -> None:
    case = with_steps(kernels.gemm(20, 37, k), steps or "tileify")
    check(case, pipeline(depth, steps), async_mode=mode, order="reverse")


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("transposed", [False, True])
def test_full_pipeline(transposed: bool, order: str) -> None:
    case = with_steps(kernels.gemm(33, 40, 56, transposed=transposed), FILLS[-1])
    for mode in ("late", "early"):
        check(case, pipeline(3, FILLS[-1] + ",mark-unroll{limit=8}"), async_mode=mode, order=order)
