"""
What only a GPU can show of its instructions: mma, wgmma, ldmatrix, TMA, mbarriers, clusters,
registers that producers give up, atomics, each in kernels that the simulator and the host have run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import loop_cases
import numpy as np
import pytest
import tensor_cores
import test_clusters
import test_held_rows
import test_mma
import test_multicast
import test_resident
import test_tensor_cores
import test_tma
import test_tma_store
import test_wgmma
import test_wgmma_attention
import test_wgmma_held
import test_wgmma_tiles
import torch
import torch.nn.functional as F
from harness import STEPS, apply, lowered, obeyed, parse, scheduled
from on_device import (
    DEVICE,
    TARGET,
    any_backend,
    launched,
    marks,
    on_hopper,
    run_case,
    whole_context,
    with_clusters,
)
from test_endings import MATRICES
from test_mutants import ending_in_one
from test_printer import kernel_of
from test_schedules import tiled
from test_split import ATOMIC, COUNT, REDUCES, ROWS, SPLITS
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.executor import Executor
from dlc.judge.accuracy import compare
from dlc.registry import parse_pipeline
from dlc.simulator import run_kernel
from dlc.target import TARGETS

__all__ = ["any_backend", "whole_context"]
pytestmark = marks
Array = np.ndarray[Any, Any]
SUMS = {"float16": 4e-3, "float32": 1e-5}
"""Errors of sums of one product of matrices, relative to the largest: tensor cores cut digits."""


def near(found: Array, exact: Array) -> None:
    """What is no number is where it should be, and the rest near."""
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(found[~finite], exact[~finite])
    error = np.abs(found[finite] - exact[finite]).max() / np.abs(exact[finite]).max()
    assert error <= SUMS[str(found.dtype)], f"{error:.3g}"


def by_text(text: str, inputs: Sequence[Array], types: Sequence[str], backend: Any) -> Any:
    """The bits that a launch of the kernel of a text writes, and what the simulator finds."""
    func = kernel_of(parse(text))
    (expected,) = run_kernel(func, inputs)
    given = [test_mma.bits(x, type) for x, type in zip(inputs, types, strict=True)]
    expected = test_mma.bits(np.asarray(expected), types[-1])
    return launched(func, given, expected, backend), expected


# Single instructions, by texts of Kernel IR.


@pytest.mark.parametrize("unusual", [False, True], ids=["numbers", "inf and nan"])
@pytest.mark.parametrize(("shape", "factors", "sums"), test_mma.PRODUCTS)
def test_mma_of_figures(
    shape: str, factors: str, sums: str, unusual: bool, any_backend: Any
) -> None:
    rng = np.random.default_rng(0)
    k, dtype = test_mma.SHAPES[shape, factors].k, np.float16 if sums == "f16" else np.float32
    half = np.float16 if factors == "f16" else np.float32
    a, b = rng.standard_normal((16, k)).astype(half), rng.standard_normal((k, 8)).astype(half)
    c = rng.standard_normal((16, 8)).astype(dtype)
    if factors == "bf16":
        a, b = test_mma.bf16(a), test_mma.bf16(b)
    if unusual:
        a[3, 5], b[2, 4], c[7, 1], a[9, 0] = np.inf, np.nan, -np.inf, 0
    figures = test_mma.FIGURES[shape]
    lanes = [test_mma.in_lanes(m, f) for m, f in zip((a, b, c), figures, strict=True)]
    text = test_mma.product_text(shape, factors, sums)
    found, expected = by_text(text, lanes, (factors, factors, sums), any_backend)
    near(found, expected)


@pytest.mark.parametrize("type", ["f16", "bf16"])
@pytest.mark.parametrize("name", test_mma.LOADS)
def test_ldmatrix(name: str, type: str, any_backend: Any) -> None:
    rows, columns, width, at, trans, *_ = test_mma.LOADS[name]
    matrix = np.arange(rows * columns).reshape(rows, columns).astype(np.float16)
    matrix = matrix.astype(np.float32) if type == "bf16" else matrix
    layout = "#kernel.swizzle<32>, " if "swizzled" in name else ""
    text = test_mma.rows_text(rows, columns, type, width, at, trans=trans, layout=layout)
    np.testing.assert_array_equal(*by_text(text, [matrix], [type], any_backend))


def test_ldmatrix_of_tf32(any_backend: Any) -> None:
    matrix = np.arange(128).reshape(16, 8).astype(np.float32)
    text = test_mma.rows_text(16, 8, "f32", 4, ("%t mod 16", "%t floordiv 16 * 4"))
    np.testing.assert_array_equal(*by_text(text, [matrix], ["f32"], any_backend))


@with_clusters
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix(trans: bool, any_backend: Any) -> None:
    lanes = np.arange(128).reshape(32, 4).astype(np.float16)
    text = test_mma.STORED.format(row="%t mod 16", trans=" transposed" if trans else "")
    np.testing.assert_array_equal(*by_text(text, [lanes], ["f16"], any_backend))


@on_hopper
@pytest.mark.parametrize(("n", "e", "swizzles", "majors"), test_wgmma.BOTH)
def test_wgmma_of_figures(
    n: int, e: str, swizzles: tuple[int, int], majors: tuple[bool, bool], any_backend: Any
) -> None:
    product = test_wgmma.Product(n, e, swizzles, majors)
    types = product.type, product.type, "f32"
    found, _ = by_text(product.text, product.inputs, types, any_backend)
    near(product.in_lanes(found), product.exact)


@on_hopper
@pytest.mark.parametrize(("n", "e", "swizzle", "n_major"), test_wgmma_held.CASES)
def test_wgmma_of_held_factors(
    n: int, e: str, swizzle: int, n_major: bool, any_backend: Any
) -> None:
    product = test_wgmma_held.Product(n, e, swizzle, n_major=n_major)
    found, _ = by_text(product.text, product.inputs, (e, e, "f32"), any_backend)
    near(product.in_lanes(found), product.exact)


@with_clusters
@pytest.mark.parametrize("swizzled", [False, True], ids=["plain", "swizzled"])
@pytest.mark.parametrize(
    ("depth", "rows", "columns", "chunks"), [(2, 32, 24, 3), (3, 75, 44, 7), (4, 60, 20, 3)]
)
def test_rings_of_boxes(
    depth: int, rows: int, columns: int, chunks: int, swizzled: bool, any_backend: Any
) -> None:
    func = test_tma.ring(rows, columns, depth, chunks, swizzled=swizzled)
    x, w = test_tma.aligned(rows, columns), test_tma.aligned(columns)
    expected = test_tma.folded(x, w, chunks)
    found = launched(func, [x, w], expected.astype(np.float32), any_backend)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@with_clusters
@pytest.mark.parametrize(
    "text", [test_clusters.REVERSED, test_clusters.LARGE], ids=["static", "dynamic"]
)
def test_shared_memory_of_a_cluster(text: str, any_backend: Any) -> None:
    (found,) = Executor(parse(text), any_backend)([torch.from_numpy(test_clusters.X)])
    np.testing.assert_array_equal(found.cpu(), test_clusters.Y)


# Whole schedules.


@pytest.mark.parametrize("rung", [*tensor_cores.RUNGS, *tensor_cores.HOPPER], ids=lambda r: r.title)
def test_rungs_of_the_ladder(rung: tensor_cores.Rung, any_backend: Any) -> None:
    """At sizes that are no multiples of tiles; some rows of factors and results are of 16 bytes."""
    if rung.target == "sm_90" and TARGET != "sm_90" and "mma=m64" in rung.steps:
        pytest.skip("needs a GPU of sm_90")
    rows, columns, k = 300, 270, 204
    k += -k % 8 if "producer" in rung.steps else 0
    columns += -columns % 8 if "store" in rung.steps else 0
    x, w = (torch.randn(n, k).to(rung.dtype) for n in (rows, columns))
    given = x.to(DEVICE), w.to(DEVICE)
    schedules = {"linear": rung.schedule}
    made = dlc.compile(tensor_cores.linear, given, rung.target, any_backend, schedules=schedules)
    exact, eager = F.linear(x.double(), w.double()), F.linear(x, w)
    for _ in range(2):
        found = made(*given).cpu()
        verdict = compare(found, exact, eager, k, precision=rung.precision)
        assert verdict.ok, verdict


def steps(case: loop_cases.Case, schedule: str, target: str) -> ModuleOp:
    module = scheduled(case, schedule, target)
    apply(module, ",".join(STEPS), round_trip=False)
    return lowered(module, round_trip=False)


@pytest.mark.parametrize("name", test_tensor_cores.CASES)
def test_products_of_warps(name: str, any_backend: Any) -> None:
    case, schedule = test_tensor_cores.CASES[name]
    run_case(case, steps(case, schedule, "sm_80"), any_backend)


@on_hopper
@pytest.mark.parametrize("name", test_wgmma_tiles.CASES)
def test_products_of_warpgroups(name: str, any_backend: Any) -> None:
    case, schedule = test_wgmma_tiles.CASES[name]
    run_case(case, steps(case, schedule, "sm_90"), any_backend)


FEW_SMS = {
    **{f"resident, {name}": given for name, given in test_resident.CASES.items()},
    **{f"stored by TMA, {name}": given for name, given in test_tma_store.CASES.items()},
}


@on_hopper
@pytest.mark.parametrize("name", FEW_SMS)
def test_blocks_that_take_turns(
    name: str, any_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "sm_90", replace(TARGETS["sm_90"], sms=3))
    case, schedule = FEW_SMS[name]
    run_case(case, steps(case, schedule, "sm_90"), any_backend)


@on_hopper
@pytest.mark.parametrize("name", test_multicast.CASES)
def test_boxes_for_several_blocks(
    name: str, any_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "sm_90", test_multicast.FEW_SMS)
    case, schedule = test_multicast.CASES[name]
    run_case(case, steps(case, schedule, "sm_90"), any_backend)


@pytest.mark.parametrize("name", test_held_rows.CASES)
def test_attention_of_warps(name: str, any_backend: Any) -> None:
    case, schedule = test_held_rows.CASES[name]
    run_case(case, steps(case, schedule, "sm_80"), any_backend)


@on_hopper
@pytest.mark.parametrize("name", test_wgmma_attention.CASES)
def test_attention_of_warpgroups(name: str, any_backend: Any) -> None:
    case, schedule = test_wgmma_attention.CASES[name]
    run_case(case, steps(case, schedule, "sm_90"), any_backend)


# Reduces that blocks share.

ENDS = ("workspace", "last", "cluster")
SHARED = [
    *((end, *split) for end in ENDS for split in SPLITS),
    *((end, case, "", splits, ROWS) for end in ENDS for case, splits in REDUCES),
    *(("atomic", *split) for split in ATOMIC),
]


@pytest.mark.parametrize(
    ("combine", "case", "chunk", "splits", "blocks"),
    SHARED[:: 2],
    ids=lambda v: getattr(v, "name", v) if isinstance(v, str | loop_cases.Case) else None,
)  # fmt: skip
def test_parts(
    combine: str, case: loop_cases.Case, chunk: str, splits: int, blocks: str, any_backend: Any
) -> None:
    need(combine)
    module = parse(case.text)
    split = f"split-matmul-k{{splits={splits} combine={combine}}}"
    apply(module, ",".join(s for s in ("tileify", chunk, split) if s), round_trip=False)
    for step in parse_pipeline(blocks):
        obeyed(module, str(step))
    module = lowered(module, round_trip=False)
    for _ in range(2):
        run_case(case, module, any_backend)


def need(combine: str) -> None:
    if combine == "cluster" and DEVICE == "cuda" and TARGET < "sm_90":
        pytest.skip("needs a GPU with clusters (sm_90)")


@pytest.mark.parametrize("type", ["f32", "f64", "i32"])
@pytest.mark.parametrize("combine", ["last", "cluster", "atomic"])
def test_parts_of_every_type(combine: str, type: str, any_backend: Any) -> None:
    need(combine)
    module = parse(COUNT.format(type=type, one="1" if type == "i32" else "1.0"))
    apply(module, f"tileify,split-matmul-k{{splits=4 combine={combine}}}", round_trip=False)
    executor = Executor(lowered(module, round_trip=False), any_backend)
    dtype = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32}[type]
    for _ in range(3):  # later, new memory is what the first left behind
        y, z = executor([torch.arange(50, dtype=dtype)])
        assert (y.item(), z.tolist()) == (1225, [8, 8, 8])


RINGS: dict[str, Callable[[str], str]] = {
    "last": lambda schedule: ending_in_one(schedule),
    "cluster": lambda schedule: ending_in_one(schedule, "cluster"),
    "atomic": lambda schedule: re.sub(' then="[^"]*"', " combine=atomic", schedule),
    "workspace": lambda schedule: schedule,
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("combine", RINGS)
def test_rings_of_parts(combine: str, target: str, any_backend: Any) -> None:
    """A whole schedule: the split, then tiles, rings, asynchronous copies and their pipeline."""
    if target > TARGET or (target, combine) == ("sm_80", "cluster"):
        pytest.skip(f"no {combine} for {target} here")
    atomic = combine == "atomic"
    case = loop_cases.batched(2, 20, 24, 68) if atomic else loop_cases.linear(20, 24, 68)
    schedule = RINGS[combine](tiled(target, splits=3, depth=3))
    run_case(case, steps(case, schedule, target), any_backend)


@pytest.mark.parametrize("combine", ["last", "cluster"])
def test_parts_of_tensor_cores(combine: str, any_backend: Any) -> None:
    need(combine)
    case = test_tensor_cores.product(20, 40, 128)
    schedule = MATRICES.replace("combine=last", f"combine={combine}")
    run_case(case, steps(case, schedule, TARGET), any_backend)
