"""Kernels whose reduce is shared by the blocks of a cluster, which fold what they hold together."""

from __future__ import annotations

import loop_cases
import numpy as np
import pytest
import torch
from harness import apply, interpret, lowered, on_host, parse
from test_endings import ORDERS
from test_printer import nvcc_takes
from test_split import GEMM

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.dialects import kernel
from dlc.simulator import run_module
from dlc.simulator.checker import check_module


@pytest.mark.parametrize("splits", [2, 3, 5, 8])
def test_tiles_whose_points_the_blocks_share(splits: int) -> None:
    """As evenly as it can be; ragged tiles, and what is beyond them."""
    case = loop_cases.gemm(21, 30, 101)
    steps = f"tileify,chunk-matmul-k{{bk=4}},split-matmul-k{{splits={splits} combine=cluster}},"
    steps += "blockify-launch{block=16,16 thread=4,4},stage-inputs,register-tile{extents=4,4}"
    module = parse(case.text)
    apply(module, steps)
    module = lowered(module)
    interpret(case, module, steps)
    on_host(case, module, steps, ORDERS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(bad: float) -> None:
    """It comes through, in its row alone."""
    case = loop_cases.gemm(13, 17, 53)
    module = parse(case.text)
    apply(module, f"tileify,split-matmul-k{{splits=4 combine=cluster}},{GEMM}")
    x, w, *rest = (np.array(a) for a in case.inputs)
    x[3, 50] = bad
    (found,) = run_module(lowered(module), [x, w, *rest])
    finite = np.isfinite(np.asarray(found)).all(axis=1)
    assert np.flatnonzero(~finite).tolist() == [3]


def test_nvcc_takes_it() -> None:
    module = parse(loop_cases.linear(13, 17, 53).text)
    steps = "tileify,chunk-matmul-k{bk=4},split-matmul-k{splits=5 combine=cluster},"
    apply(module, steps + GEMM.replace("register-tile", "register-tile{extents=2,2}"))
    text = print_module(lowered(module))
    assert "__cluster_dims__(5, 1, 1)" in text
    assert nvcc_takes(text, "sm_90", "sm_100", "sm_120") == [0, 0, 0]


SIZES = {"matmul": "cluster", "matmul_relu": "cluster", "matmul_2": "last", "matmul_3": "cluster"}
"""How splits of products that read the same end."""


def test_joined_with_others() -> None:
    """Clusters of 8, of 4, of 2, two or four of which run as one, and blocks that are in none."""
    torch.manual_seed(0)
    args = [torch.randn(20, 512), *(torch.randn(512, n) for n in (256, 128, 192, 64))]

    def f(
        x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return x @ a, torch.relu(x @ b), x @ c, x @ d

    tiles = (
        "tileify,chunk-matmul-k{{bk=16 vector=4}},split-matmul-k{{splits={} combine={}}},"
        "blockify-launch{{block=16,32 thread=4,16}},stage-inputs{{budget=65536}},"
        "register-tile{{extents=4,2}}"
    )
    compiled = dlc.compile(f, tuple(args), backend="host", target="sm_90")
    parts = zip(SIZES.items(), (2, 8, 4, 4), strict=True)
    compiled = compiled.with_schedule({k: tiles.format(n, way) for (k, way), n in parts})
    module = compiled.variants[0].module("kernel")
    (func,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    assert func.cluster_size == 8
    assert "kernel.last_block" in str(func)
    for found, expected in zip(compiled(*args), f(*(t.double() for t in args)), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)
    for blocks in (None, 8):
        (verdict,) = check_module(module, blocks=blocks)
        assert verdict.answer == "clean", verdict
