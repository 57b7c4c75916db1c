"""Kernels whose reduce is shared by blocks, and ends in the same launch: either way to end it."""

from __future__ import annotations

from typing import Any

import loop_cases
import numpy as np
import pytest
import torch
from harness import STEPS, apply, interpret, lowered, obeyed, on_host, parse, scheduled
from loop_cases import Case
from test_mutants import ending_in_one
from test_rings import LAUNCHES
from test_schedules import tiled
from test_split import COUNT, REDUCES, ROW_STEPS, ROWS, SPLITS, every_split, in_one_kernel
from test_tensor_cores import product
from xdsl.dialects.builtin import ModuleOp

from dlc.backend.executor import Executor, get_backend
from dlc.dialects import kernel
from dlc.dialects.kernel_blocks import last_blocks_of
from dlc.registry import parse_pipeline
from dlc.simulator import run_module
from dlc.simulator.checker import check_module
from dlc.target import MAX_CLUSTER

ORDERS: tuple[dict[str, Any], ...] = (
    {"order": "forward"},
    {"order": "reverse"},
    {"order": "random", "seed": 3},
)
CASES = (
    *SPLITS,
    # Sums that are no products, other monoids, of several values, and what follows from them.
    *((case, "", splits, ROWS) for case, splits in REDUCES),
    (loop_cases.column_sum(53, 37), "", 4, ROW_STEPS),
    (loop_cases.column_sum(53, 37), "", 4, "cooperative-reduce{threads=8 rows=4 order=rows}"),
    (loop_cases.total(1009), "", 7, "cooperative-reduce{threads=64 vector=4}"),
)
ENDINGS = "last", "cluster"
BOTH = pytest.mark.parametrize("ending", ENDINGS)


def ends_by(module: ModuleOp, ending: str) -> bool:
    """True if the last block folds parts, or else a cluster, as `ending` says."""
    if ending == "last":
        return bool(last_blocks_of(module))
    return any(isinstance(op, kernel.ClusterBarrierOp) for op in module.walk())


@pytest.mark.parametrize(
    ("ending", "case", "chunk", "splits", "blocks"),
    [(e, *case) for e in ENDINGS for case in CASES if e == "last" or case[2] <= MAX_CLUSTER],
    ids=lambda value: getattr(value, "name", value),
)
def test_after_each_step(ending: str, case: Case, chunk: str, splits: int, blocks: str) -> None:
    """In the interpreter, which knows what comes before what; the last state on the host, too."""
    low = lowered(in_one_kernel(case, chunk, f"splits={splits} combine={ending}", blocks))
    assert ends_by(low, ending)
    interpret(case, low, blocks)
    on_host(case, low, blocks, ORDERS)


@BOTH
@every_split([case for case in SPLITS if case[2] <= MAX_CLUSTER][::3])
def test_the_same_bits_as_with_a_second_kernel(
    case: Case, chunk: str, splits: int, blocks: str, ending: str
) -> None:
    """Parts are folded in their order, whoever comes last."""
    results: list[list[bytes]] = []
    for combine in ("workspace", ending):
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


@pytest.mark.parametrize(
    ("ending", "target", "copy"),
    [
        ("last", "sm_80", "cp_async"),
        ("last", "sm_90", "tma_load"),
        ("cluster", "sm_90", "tma_load"),
    ],
)
def test_rings_of_parts(ending: str, target: str, copy: str) -> None:
    """A whole schedule: the split, then tiles, rings, asynchronous copies and their pipeline."""
    case = loop_cases.linear(20, 24, 68)
    schedule = ending_in_one(tiled(target, splits=3, depth=3), ending)
    module = scheduled(case, schedule, target)
    apply(module, ",".join(STEPS))
    module = lowered(module)
    assert f"kernel.{copy}" in str(module)
    assert ends_by(module, ending)
    interpret(case, module, schedule)
    on_host(case, module, schedule, LAUNCHES[::3])


@BOTH
@pytest.mark.parametrize(("type", "one"), [("f32", "1.0"), ("f64", "1.0"), ("i32", "1")])
def test_sums_of_every_type(type: str, one: str, ending: str) -> None:
    """One of what differs from block to block, and one of what is the same in all of them."""
    module = parse(COUNT.format(type=type, one=one))
    apply(module, f"tileify,split-matmul-k{{splits=4 combine={ending}}}")
    module = lowered(module)
    dtype = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32}[type]
    x = torch.arange(50, dtype=dtype)
    executor = Executor(module, get_backend("host"))
    for _ in range(2):  # the second time, new memory is what the first left behind
        y, z = executor([x])
        assert (y.item(), z.tolist()) == (1225, [8, 8, 8])
    found = run_module(module, [x.numpy()])
    np.testing.assert_array_equal(found[0], 1225)
    np.testing.assert_array_equal(found[1], [8, 8, 8])


MATRICES = (
    "tileify,chunk-matmul-k{bk=32 vector=16},split-matmul-k{splits=2 combine=last},"
    "blockify-launch{block=32,32 thread=2,2},stage-inputs{budget=65536},"
    "register-tile{extents=16,16 mma=m16n8k16},double-buffer{depth=3},async-copy,"
    "pipeline-k-outer,mark-unroll{limit=64}"
)


@pytest.mark.parametrize(("ending", "target"), [("last", "sm_80"), ("cluster", "sm_90")])
def test_products_of_tensor_cores(ending: str, target: str) -> None:
    case = product(20, 40, 128)
    schedule = MATRICES.replace("combine=last", f"combine={ending}")
    module = scheduled(case, schedule, target)
    apply(module, ",".join(STEPS))
    module = lowered(module)
    assert "kernel.mma" in str(module)
    assert ends_by(module, ending)
    interpret(case, module, schedule)
    on_host(case, module, schedule, ORDERS)


FLAT = """
func.func @main(%x: tensor<3x2000xf32>, %c: tensor<2x1000xf32>) -> tensor<2x1000xf32> {
  %y = tile.kernel @flat(%x: memref<3x2000xf32> = %x, %c: memref<2x1000xf32> = %c)
      -> (%y: memref<2x1000xf32>) {
    tile.launch block(%ks in 3) thread(%i in 2, %j in 1000) serial(%s in 1) {
      %b = tile.load %c[%i, %j] : memref<2x1000xf32>
      %p = tile.load %x[%ks, %j] : memref<3x2000xf32>
      %t = tile.combine add %p across(%ks) : f32
      %u = arith.addf %t, %b : f32
      tile.store %u, %y[%i, %j] : memref<2x1000xf32>
    }
  }
  func.return %y : tensor<2x1000xf32>
}
"""


@BOTH
def test_threads_that_are_dealt_over_blocks(ending: str) -> None:
    """Two in different blocks hold the same: each reads what its number stored in each block."""
    way = " cluster" if ending == "cluster" else ""
    module = lowered(parse(FLAT.replace("across(%ks)", f"across(%ks){way}")))
    x = np.arange(6000, dtype=np.float32).reshape(3, 2000)
    c = np.ones((2, 1000), np.float32)
    (found,) = run_module(module, [x, c])
    np.testing.assert_array_equal(found, x.sum(0)[None, :1000] + c)
    (verdict,) = check_module(module)
    assert verdict.answer == "clean"
    (found,) = Executor(module, get_backend("host"))([torch.from_numpy(x), torch.from_numpy(c)])
    np.testing.assert_array_equal(found, x.sum(0)[None, :1000] + c)
