"""Attention of few rows: keys are folded in parts, those by a second kernel or the last block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_attention import INF, NAN, PROGRAMS, causal, draw, masked, tiled
from test_mutants import ending_in_one
from torch import Tensor

import dlc

THEN = "tileify,blockify-launch{block=32 thread=32}"
STEPS = (
    "tileify",
    "chunk-matmul-k{bk=16 vector=4}",
    f'split-matmul-k{{splits=3 then="{THEN}"}}',
    "blockify-launch{block=4,8 thread=4,4}",
    "stage-inputs{budget=20000 compute=true points=1,4}",
    "register-tile{extents=2}",
    "double-buffer{depth=2}",
    "async-copy",
    "pad-smem",
    "pipeline-k-outer",
    "mark-unroll{limit=8}",
)


SHARING = "tileify,cooperative-reduce{threads=4 rows=8 vector=1 order=rows}"
BY_SEVERAL = tuple(step.replace(THEN, SHARING) for step in STEPS)
"""The same whose threads share the parts of a point."""


def shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Several heads of queries for each of keys."""
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize(
    ("name", "rows", "keys"),
    [
        ("sdpa", 8, 100),
        ("grouped", 4, 127),
        ("causal", 3, 129),
        ("masked", 5, 7),
        ("by hand", 2, 1),
        ("a window, ALiBi", 4, 40),
        ("a window, ALiBi", 20, 7),  # the last rows have no keys: NaN
    ],
)
def test_parts_of_the_keys(name: str, rows: int, keys: int, tmp_path: Path) -> None:
    tiled(PROGRAMS[name], STEPS, tmp_path / "split.mlir", *draw(rows, keys, 8, 8))


LAST = tuple(map(ending_in_one, STEPS))


@pytest.mark.parametrize(
    ("name", "rows", "keys"), [("sdpa", 8, 100), ("grouped", 4, 127), ("a window, ALiBi", 20, 7)]
)
def test_the_last_block_folds_the_parts(name: str, rows: int, keys: int, tmp_path: Path) -> None:
    tiled(PROGRAMS[name], LAST, tmp_path / "last.mlir", *draw(rows, keys, 8, 8))


@pytest.mark.parametrize("steps", [STEPS, BY_SEVERAL])
def test_unusual_numbers_in_parts(steps: tuple[str, ...], tmp_path: Path) -> None:
    q, k, v = draw(5, 70, 8, 8)
    q[0, 0, 1, 0], q[0, 0, 2, 1] = NAN, INF
    k[0, 1, 44, 0], v[0, 0, 5, 1], v[0, 1, 60, 0] = INF, -INF, NAN
    tiled(PROGRAMS["by hand"], steps, tmp_path / "split.mlir", q, k, v)


@pytest.mark.parametrize("steps", [STEPS, BY_SEVERAL])
def test_parts_of_which_all_keys_are_masked(steps: tuple[str, ...], tmp_path: Path) -> None:
    q, k, v = draw(5, 70, 8, 8)
    k[:, 0, :40, 0] = -1.0  # masks the first two parts of a head
    k[:, 1, :, 0] = -1.0  # and all of the other
    v[0, 1, 3, 2] = INF  # of which 0 times is NaN
    tiled(masked, steps, tmp_path / "split.mlir", q, k, v)


@pytest.mark.parametrize(
    ("rows", "keys", "is_split"),
    [(2, 64, False), (1, 1025, True), (2, 512, True), (8, 500, True)],
)
def test_few_rows_share_the_keys(rows: int, keys: int, *, is_split: bool) -> None:
    """However the parts end: by default, by the last block, in a cluster."""
    generator = torch.Generator().manual_seed(keys)
    shapes = (1, 32, rows, 32), (1, 8, keys, 32), (1, 8, keys, 32)
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    compiled = dlc.compile(shared, tuple(inputs), backend="host", target="sm_90")
    kernel, *_ = compiled.kernels
    assert ("split-matmul-k" in kernel.schedule) == is_split
    exact = shared(*(x.double() for x in inputs))
    torch.testing.assert_close(compiled(*inputs).double(), exact, rtol=1e-5, atol=1e-6)
    for ending in ("last", "cluster") if is_split else ():
        schedule = ending_in_one(kernel.schedule, ending)
        schedule = re.sub("splits=[0-9]+", "splits=8", schedule)
        in_one = compiled.with_schedule({kernel.name: schedule})
        (found,) = in_one.kernels
        assert f"combine={ending}" in found.schedule
        torch.testing.assert_close(in_one(*inputs).double(), exact, rtol=1e-5, atol=1e-6)


def test_lengths_of_32_bits() -> None:
    """They are widened where they are compared, which keeps no scores from tensor cores."""

    def attend(q: Tensor, k: Tensor, v: Tensor, count: Tensor) -> Tensor:
        held = torch.arange(k.shape[2]) < count[:, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=held[:, None, None])

    generator = torch.Generator().manual_seed(0)
    shapes = (2, 2, 33, 64), (2, 2, 90, 64), (2, 2, 90, 64)
    halves = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    count = torch.tensor([90, 37], dtype=torch.int32)
    compiled = dlc.compile(attend, (*halves, count), "sm_80", "host")
    exact = attend(*(x.double() for x in halves), count)
    torch.testing.assert_close(compiled(*halves, count).double(), exact, rtol=2**-8, atol=2e-3)


def test_a_cluster_folds_the_keys_of_eight_rows() -> None:
    """As an H200 does it the fastest: bench/results/measured_h200.md, `token.attention.8`."""

    def attend(q: Tensor, k: Tensor, v: Tensor, last: Tensor) -> Tensor:
        held = (torch.arange(k.shape[2], device=k.device) <= last[:, None])[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=held, enable_gqa=True)

    with torch.device("meta"):
        q, *cache = (torch.empty(8, n, m, 64, dtype=torch.bfloat16) for n, m in SHAPES_OF_EIGHT)
        last = torch.empty(8, dtype=torch.int64)
    (kernel,) = dlc.compile(attend, (q, *cache, last), "sm_90", "host").kernels
    assert "combine=cluster" in kernel.schedule
    assert "mma=m16n8k16" in kernel.schedule


SHAPES_OF_EIGHT = (32, 1), (4, 2048), (4, 2048)
"""Heads and places of queries, of keys and of values."""
BY_WARPS = (
    "tileify,chunk-matmul-k{{bk=64 vector=16}},{}blockify-launch{{block=16,64 thread=1,1}},"
    "stage-inputs{{budget=40000 compute=true points=4,8}},register-tile{{extents=16,64 "
    "mma=m16n8k16}},double-buffer{{depth=2}},async-copy,pad-smem,pipeline-k-outer,"
    "mark-unroll{{limit=4}}"
)


@pytest.mark.parametrize("ending", [f'then="{THEN}"', "combine=last"])
def test_warps_fold_parts_of_keys_that_end_at_a_length(ending: str) -> None:
    """Of rows with one key, with some and with all: parts have no key, or end within a chunk."""

    def attend(q: Tensor, k: Tensor, v: Tensor, last: Tensor) -> Tensor:
        held = torch.arange(k.shape[2]) <= last[:, None]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=held[:, None, None], enable_gqa=True
        )

    generator = torch.Generator().manual_seed(0)
    shapes = (3, 16, 1, 64), (3, 2, 333, 64), (3, 2, 333, 64)
    halves = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    last = torch.tensor([0, 332, 130])
    split = f"split-matmul-k{{splits=3 deal=turns {ending}}},"
    schedules = {"le_scaled_dot_product_attention": BY_WARPS.format(split)}
    compiled = dlc.compile(attend, (*halves, last), "sm_90", "host", schedules=schedules)
    exact = attend(*(x.double() for x in halves), last)
    torch.testing.assert_close(compiled(*halves, last).double(), exact, rtol=2**-8, atol=2e-3)
    assert len(compiled.kernels) == 1 + ("then" in ending)


def test_keys_that_the_mask_skips_are_not_split() -> None:
    inputs = tuple(torch.empty((1, 4, 256, 64), device="meta") for _ in range(3))
    compiled = dlc.compile(causal, inputs, backend="host", target="sm_90")
    assert all("split-matmul-k" not in kernel.schedule for kernel in compiled.kernels)


ONE_ROW = (
    *STEPS[:3],
    "blockify-launch{block=8 thread=4}",
    "stage-inputs{budget=20000 compute=true points=1,2}",
    *STEPS[5:],
)


@pytest.mark.parametrize(
    ("name", "keys"), [("sdpa", 100), ("masked", 127), ("soft-capped", 129), ("sdpa", 7)]
)
def test_a_row_with_keys_of_its_own(name: str, keys: int, tmp_path: Path) -> None:
    tiled(PROGRAMS[name], ONE_ROW, tmp_path / "row.mlir", *draw(1, keys, 8, 8))


def test_unusual_numbers_in_a_row_with_keys_of_its_own(tmp_path: Path) -> None:
    q, k, v = draw(1, 70, 8, 8)
    q[0, 0, 0, 0], k[0, 1, 44, 0], v[0, 1, 60, 0] = NAN, INF, INF
    tiled(PROGRAMS["by hand"], ONE_ROW, tmp_path / "row.mlir", q, k, v)
    q, k, v = draw(1, 70, 8, 8)
    k[:, 0, :40, 0], k[:, 1, :, 0] = -1.0, -1.0  # masks parts of a head, and all of the other
    tiled(masked, ONE_ROW, tmp_path / "masked.mlir", q, k, v)
