"""Products of floats of 8 bits on tensor cores: every step, on the host and in the simulator."""

from __future__ import annotations

import re
from dataclasses import replace

import loop_cases
import numpy as np
import pytest
import test_wgmma_tiles
import torch
from harness import STEPS, apply, lowered, scheduled
from test_tensor_cores import CASES, PADDED, SWIZZLED, multiplies_matrices, product, schedule
from xdsl.dialects.builtin import AnyFloat, Float8E4M3FNType, Float8E5M2Type, ModuleOp

from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.dialects import kernel, loop
from dlc.frontend.export.fx import import_program
from dlc.pipeline import run_pipeline
from dlc.remarks import collect
from dlc.simulator import run_module
from dlc.simulator.narrow_floats import rounded
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

Array = np.ndarray
TYPES: dict[str, tuple[AnyFloat, torch.dtype]] = {
    "e4m3": (Float8E4M3FNType(), torch.float8_e4m3fn),
    "e5m2": (Float8E5M2Type(), torch.float8_e5m2),
}


def in_bytes(case: loop_cases.Case, name: str) -> loop_cases.Case:
    """A case of halves whose factors are floats of 8 bits."""
    x, w, *rest = case.inputs
    types = [TYPES[each][0] for each in (name.split()[0], name.split()[-1])]
    factors = (rounded(a.astype(np.float32), t) for a, t in zip((x, w), types, strict=True))
    of_w = re.escape("x".join(map(str, w.shape)))
    text = re.sub(rf"({of_w}x|%c : )f16", rf"\g<1>{types[1].name}", case.text)
    return replace(case, text=text.replace("f16", types[0].name), inputs=(*factors, *rest))


def by_bytes(text: str) -> str:
    """A schedule for halves, for as many bytes of K."""
    text = re.sub(r"bk=(\d+) vector=16", lambda m: f"bk={2 * int(m[1])} vector=32", text)
    return re.sub(r"mma=(m\d+n\d+)k16", r"mma=\1k32 apart=true", text)


def steps(case: loop_cases.Case, text: str, target: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, target)
    apply(module, ",".join(STEPS[:count]))
    return lowered(module)


def judge(case: loop_cases.Case, found: Array, what: str) -> None:
    """Products are exact, sums f32: each element is as near to fp64 as these allow."""
    x, w, bias = (a.astype(np.float64) for a in case.inputs)
    (exact,) = case.expected(x, w, bias)
    (size,) = case.expected(np.abs(x), np.abs(w), np.abs(bias))
    excess = np.abs(found - exact) - (case.longest + 2) * 2.0**-24 * size
    assert excess.max(initial=0) <= 0, f"{what}: off by {excess.max()} more than sums in f32"


def check(case: loop_cases.Case, module: ModuleOp, name: str, what: str) -> None:
    """Runs a module in the simulator, which reports hazards, and on the host in both modes."""
    (found,) = run_module(module, case.inputs)
    judge(case, found, what)
    x, w, *rest = map(torch.from_numpy, case.inputs)
    for mode in ("early", "late"):
        executor = Executor(module, HostBackend(async_mode=mode))
        of_x, of_w = (TYPES[each][1] for each in (name.split()[0], name.split()[-1]))
        (made,) = executor([x.to(of_x), w.to(of_w), *rest])
        judge(case, made.numpy(), f"{what} on the host, {mode}")


NAMES = "both turned", "ragged", "ragged, turned", "batched, turned", "not staged"
BY_WARPS = {name: CASES[name] for name in NAMES} | {
    "swizzled": (product(24, 20, 192, w_turned=True), SWIZZLED),
    "padded": (product(24, 20, 144, w_turned=True), PADDED),
}


@pytest.mark.parametrize("name", [*TYPES, "e4m3 e5m2", "e5m2 e4m3"])
@pytest.mark.parametrize("what", BY_WARPS)
def test_products(what: str, name: str) -> None:
    case, text = BY_WARPS[what]
    case = in_bytes(case, name)
    module = steps(case, by_bytes(text), "sm_89")
    assert multiplies_matrices(module)
    rows = any(isinstance(op, kernel.LdmatrixOp) for op in module.walk())
    assert rows == (what != "not staged")
    check(case, module, name, what)


@pytest.mark.parametrize("sizes", [(17, 7, 35), (2, 9, 67)])
def test_every_prefix(sizes: tuple[int, int, int]) -> None:
    case = in_bytes(product(*sizes, w_turned=True), "e4m3")
    text, held = by_bytes(schedule((16, 8), (16, 8), bk=16)), STEPS.index("register-tile")
    for count in range(held + 1, len(STEPS) + 1):
        module = steps(case, text, "sm_120", count)
        assert multiplies_matrices(module)
        (found,) = run_module(module, case.inputs)
        judge(case, found, f"{count} steps")


BY_GROUPS: dict[str, tuple[loop_cases.Case, str]] = {
    "copied": (product(17, 24, 200, w_turned=True), test_wgmma_tiles.SMALL),
    "by TMA": (product(72, 80, 208, w_turned=True), test_wgmma_tiles.TMA),
    "with a producer": (product(72, 16, 272, w_turned=True), test_wgmma_tiles.PRODUCER),
    "two warpgroups": (product(136, 8, 144, w_turned=True), test_wgmma_tiles.REGISTERS),
}


@pytest.mark.parametrize("name", [*TYPES, "e4m3 e5m2", "e5m2 e4m3"])
@pytest.mark.parametrize("what", BY_GROUPS)
def test_products_of_warpgroups(what: str, name: str) -> None:
    case, text = BY_GROUPS[what]
    case = in_bytes(case, name)
    module = steps(case, by_bytes(text), "sm_90")
    assert any(isinstance(op, kernel.WgmmaOp) for op in module.walk())
    check(case, module, name, what)


def test_what_lies_across_k_is_multiplied_by_warps() -> None:
    case = in_bytes(product(17, 64, 256), "e4m3")
    with collect() as remarks:
        module = steps(case, by_bytes(test_wgmma_tiles.SMALL), "sm_90")
    assert "lies across K: of e4m3, wgmma reads rows along it" in " ".join(map(str, remarks))
    assert multiplies_matrices(module)
    (found,) = run_module(module, case.inputs)
    judge(case, found, "across")


@pytest.mark.parametrize(
    ("target", "rows", "mma"),
    [
        ("sm_80", 64, ""), ("sm_89", 64, "m16n8k32"), ("sm_120", 64, "m16n8k32"),
        ("sm_90", 1024, "m64n"),
    ],
)  # fmt: skip
def test_defaults_of_large_products(target: str, rows: int, mma: str) -> None:
    """Chips that multiply bytes do, and each chunk is summed apart; others multiply f32."""

    def scaled(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(x, w.t(), a, a, out_dtype=torch.bfloat16)

    x, w = (torch.empty(n, 1024, dtype=torch.float8_e4m3fn, device="meta") for n in (rows, 1024))
    given = (x, w, torch.empty((), device="meta"))
    module = import_program(scaled, given, whole=DECOMPOSITIONS).module
    set_target(module, target)
    run_pipeline(compiler_context(), module, "loop")
    (text,) = (str(op) for op in module.walk() if isinstance(op, loop.KernelOp))
    assert ("apart=true" in text) == bool(mma)
    assert f"mma={mma}" in text if mma else "mma=" not in text
