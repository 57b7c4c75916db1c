"""A chip without cp.async, mma.m16n8k16 and TMA: dlc says so, and its kernels do without."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import loop_cases
import pytest
import torch
from harness import STEPS, apply, lowered, scheduled

import dlc
from dlc.backend.cuda.print.prelude import NEWEST, PRELUDE, prelude_for
from dlc.backend.cuda.print.printer import print_module
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.diagnostics import OpError, TextError
from dlc.remarks import collect
from dlc.target import TARGETS, Target, get_target, set_target

RING = (
    "tileify,chunk-matmul-k{bk=8 vector=4},blockify-launch{block=16,16 thread=4,4},"
    "stage-inputs{budget=16384},register-tile{extents=4,4},double-buffer{depth=2},async-copy,pipeline-k-outer"
)


def compiled(function, *arguments: torch.Tensor, target: str = "sm_75"):
    return dlc.compile(function, arguments, target=target, backend="host")


def test_its_default_schedules_ask_for_no_cp_async():
    x, w = torch.randn(96, 100), torch.randn(100, 64)
    for target, copies in (("sm_75", False), ("sm_80", True)):
        f = compiled(torch.matmul, x, w, target=target)
        assert "double-buffer" in f.kernels[0].schedule
        assert ("async-copy" in f.kernels[0].schedule) == copies
        assert ("cp.async" in f.ir("cuda")) == copies
        torch.testing.assert_close(f(x, w).double(), x.double() @ w.double(), rtol=1e-4, atol=1e-4)


def test_a_schedule_that_names_it_takes_plain_copies():
    case = loop_cases.gemm(37, 52, 24)
    module = scheduled(case, RING, "sm_75")
    with collect() as remarks:
        apply(module, ",".join(STEPS))
    said = [r.text for r in remarks if r.pass_name == "async-copy"]
    assert said == ["skipped, sm_75 has no cp.async (PTX ISA: sm_80 or later)"]
    assert "cp_async" not in print_module(lowered(module))


def test_products_of_tensor_cores_are_refused():
    case = loop_cases.gemm(32, 32, 32)
    text = "tileify,blockify-launch{block=16,8 thread=1,1},register-tile{extents=16,8 mma=m16n8k16}"
    with pytest.raises(TextError, match=r"register-tile: sm_75 has no mma\.m16n8k16 \(PTX ISA"):
        apply(scheduled(case, text, "sm_75"), ",".join(STEPS), round_trip=False)
    half = torch.randn(256, 256).half()
    assert "mma" in compiled(torch.matmul, half, half, target="sm_80").kernels[0].schedule
    assert "mma" not in compiled(torch.matmul, half, half).kernels[0].schedule


def test_kernels_with_what_it_lacks_are_not_printed():
    module = lowered(_done(loop_cases.gemm(37, 52, 24), "sm_80"))
    assert "cp_async_16" in print_module(module)
    set_target(module, "sm_75")
    said = r"calls cp_async_\w+, of sm_80 or later, and its target is sm_75"
    with pytest.raises(OpError, match=said):
        print_module(module)


def _done(case: loop_cases.Case, target: str):
    module = scheduled(case, RING, target)
    apply(module, ",".join(STEPS))
    return module


def test_a_row_says_what_it_lacks_though_its_instructions_are_new_enough(
    monkeypatch: pytest.MonkeyPatch,
):
    row = replace(TARGETS["sm_80"], lacks=("cp.async",))
    monkeypatch.setitem(TARGETS, "sm_80", row)
    module = scheduled(loop_cases.gemm(37, 52, 24), RING, "sm_80")
    with collect() as remarks:
        apply(module, ",".join(STEPS))
    assert "skipped, sm_80 has no cp.async" in [r.text for r in remarks]


def test_chips_are_called_by_their_compute_capability():
    with pytest.raises(ValueError, match="a chip is called by its compute capability"):
        Target("orin", 1, 1, 1, 1, 1, 1, 1, 1)


def test_warps_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"expected a warp of 32 lanes.*; sm_90 has 64"):
        replace(get_target("sm_90"), warp=64)


def test_the_largest_of_numbers_is_found_without_an_instruction():
    x = torch.randn(5, 300)
    x[2, 7], x[3] = torch.nan, -torch.inf
    f = compiled(lambda x: x.amax(1), x)
    assert ".NaN.f32" not in f.ir("cuda")
    assert ".NaN.f32" in compiled(lambda x: x.amax(1), x, target="sm_80").ir("cuda")
    torch.testing.assert_close(f(x), x.amax(1), equal_nan=True, rtol=0, atol=0)


def test_older_bodies_stand_for_older_chips_alone():
    for name, function in PRELUDE.items():
        if function.older:
            old, new = prelude_for([name], 75), prelude_for([name], NEWEST)
            assert re.sub(r"\s", "", function.older) in re.sub(r"\s", "", old)
            assert old != new


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_takes_every_function_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    names = [
        name for name, function in PRELUDE.items() if function.min_arch <= 75 or function.older
    ]
    body = "x[0] = max_nan(x[0], min_nan(x[1], x[2]));"
    source = f'{prelude_for(names, 75)}extern "C" __global__ void k(float* x) {{ {body} }}\n'
    assert compile_cubin(source, "sm_75").registers > 0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nvcc_compiles_its_kernels(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLC_CACHE_DIR", str(tmp_path))
    x, w = torch.randn(70, 68).to(dtype), torch.randn(68, 36).to(dtype)
    f = compiled(lambda x, w: torch.relu(x @ w).softmax(-1).amax(0), x, w)
    for kernel in f.kernels:
        assert compile_cubin(kernel.source, "sm_75").registers > 0
