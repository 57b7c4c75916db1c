"""Kernels whose reduce is shared by the blocks of a cluster, which fold what they hold together."""

from __future__ import annotations

import loop_cases
import numpy as np
import pytest
import torch
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, parse, scheduled
from loop_cases import Case
from test_last_blocks import CASES, COUNT, FLAT, MATRICES, ORDERS
from test_mutants import ending_in_one
from test_printer import nvcc_takes
from test_rings import LAUNCHES
from test_schedules import tiled
from test_split import GEMM, SPLITS, every_split, in_one_kernel
from test_tensor_cores import product
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.executor import Executor, get_backend
from dlc.dialects import kernel
from dlc.registry import parse_pipeline
from dlc.simulator import run_module
from dlc.simulator.checker import check_module
from dlc.target import MAX_CLUSTER

FITTING = tuple(case for case in CASES if case[2] <= MAX_CLUSTER)


def is_cluster(module: ModuleOp) -> bool:
    return any(isinstance(op, kernel.ClusterBarrierOp) for op in module.walk())


@every_split(FITTING)
def test_after_each_step(case: Case, chunk: str, splits: int, blocks: str) -> None:
    """In the interpreter, which knows what comes before what; the last state on the host, too."""
    low = lowered(in_one_kernel(case, chunk, f"splits={splits} combine=cluster", blocks))
    assert is_cluster(low)
    interpret(case, low, blocks)
    on_host(case, low, blocks, ORDERS)


@every_split([case for case in SPLITS if case[2] <= MAX_CLUSTER][::3])
def test_the_same_bits_as_with_a_second_kernel(
    case: Case, chunk: str, splits: int, blocks: str
) -> None:
    """Parts are folded in their order."""
    results: list[list[bytes]] = []
    for combine in ("workspace", "cluster"):
        module = parse(case.text)
        split = f"split-matmul-k{{splits={splits} combine={combine}}}"
        apply(module, ",".join(s for s in ("tileify", chunk, split) if s))
        for step in parse_pipeline(blocks):
            obeyed(module, str(step))
        low = lowered(module)
        inputs = [torch.from_numpy(np.ascontiguousarray(x)) for x in case.inputs]
        found = Executor(low, get_backend("host"))(inputs)
        simulated = run_module(low, case.inputs)
        results.append([np.asarray(x).tobytes() for x in (*found, *simulated)])
    assert results[0] == results[1]


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


def test_rings_of_parts_that_a_cluster_folds() -> None:
    """A whole schedule: the split, then tiles, rings, asynchronous copies and their pipeline."""
    case = loop_cases.linear(20, 24, 68)
    schedule = ending_in_one(tiled("sm_90", splits=3, depth=3), "cluster")
    module = scheduled(case, schedule, "sm_90")
    apply(module, ",".join(STEPS))
    module = lowered(module)
    assert "kernel.tma_load" in str(module)
    assert is_cluster(module)
    interpret(case, module, schedule)
    on_host(case, module, schedule, LAUNCHES[::3])


@pytest.mark.parametrize(("type", "one"), [("f32", "1.0"), ("f64", "1.0"), ("i32", "1")])
def test_sums_of_every_type(type: str, one: str) -> None:
    """One of what differs from block to block, and one of what is the same in all of them."""
    module = parse(COUNT.format(type=type, one=one))
    apply(module, "tileify,split-matmul-k{splits=4 combine=cluster}")
    module = lowered(module)
    dtype = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32}[type]
    x = torch.arange(50, dtype=dtype)
    y, z = Executor(module, get_backend("host"))([x])
    assert (y.item(), z.tolist()) == (1225, [8, 8, 8])
    found = run_module(module, [x.numpy()])
    np.testing.assert_array_equal(found[0], 1225)
    np.testing.assert_array_equal(found[1], [8, 8, 8])


def test_threads_that_are_dealt_over_blocks() -> None:
    """Each reads what the thread of its number stored, in each block of its cluster."""
    module = lowered(parse(FLAT.replace("across(%ks)", "across(%ks) cluster")))
    x = np.arange(6000, dtype=np.float32).reshape(3, 2000)
    c = np.ones((2, 1000), np.float32)
    (found,) = run_module(module, [x, c])
    np.testing.assert_array_equal(found, x.sum(0)[None, :1000] + c)
    (verdict,) = check_module(module)
    assert verdict.answer == "clean"
    (found,) = Executor(module, get_backend("host"))([torch.from_numpy(x), torch.from_numpy(c)])
    np.testing.assert_array_equal(found, x.sum(0)[None, :1000] + c)


def test_products_of_tensor_cores() -> None:
    case = product(20, 40, 128)
    schedule = MATRICES.replace("combine=last", "combine=cluster")
    module = scheduled(case, schedule, "sm_90")
    apply(module, ",".join(STEPS))
    module = lowered(module)
    assert "kernel.mma" in str(module)
    assert is_cluster(module)
    interpret(case, module, schedule)
    on_host(case, module, schedule, ORDERS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(bad: float) -> None:
    """It comes through, in its row alone."""
    case = loop_cases.gemm(13, 17, 53)
    module = parse(case.text)
    apply(module, f"tileify,split-matmul-k{{splits=4 combine=cluster}},{GEMM}")
    x, w, *rest = (np.array(a) for a in case.inputs)
    x[3, 50] = bad
    (found,) = run_module(lowered(module), [x, w, *rest])
    same = np.isfinite(found).all(axis=1)
    assert not same[3] or np.isfinite(case.inputs[0]).all()
    assert np.delete(same, 3).all()


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
