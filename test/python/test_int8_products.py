"""Products of integers of 8 bits on tensor cores: every step, on the host and in the simulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import loop_cases
import numpy as np
import pytest
import torch
from harness import STEPS, apply, lowered, scheduled
from test_float8_products import BY_GROUPS, BY_WARPS
from test_tensor_cores import multiplies_matrices, product, schedule
from xdsl.dialects.builtin import ModuleOp

import dlc
from dlc.backend.executor import Executor
from dlc.backend.host.host_backend import HostBackend
from dlc.diagnostics import TextError
from dlc.dialects import kernel, loop
from dlc.frontend.export.fx import import_program
from dlc.pipeline import run_pipeline
from dlc.simulator import run_module
from dlc.stages import compiler_context
from dlc.target import set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

Array = np.ndarray
TYPES = {"s8": ("extsi", np.int8), "u8": ("extui", np.uint8)}


def in_integers(case: loop_cases.Case, name: str) -> loop_cases.Case:
    """A case of halves whose factors are integers of 8 bits, the ends of their range among them."""
    names = [name.split()[0], name.split()[-1]]
    (widen_x, of_x), (widen_w, of_w) = (TYPES[name] for name in names)
    rng, dtypes = np.random.default_rng(0), (of_x, of_w)
    x, w, bias = (
        rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, a.shape)
        for a, t in zip(case.inputs, (*dtypes, of_x), strict=True)
    )
    x.reshape(-1)[:3], w.reshape(-1)[:3] = np.iinfo(of_x).min, np.iinfo(of_w).max
    text = case.text
    for old, new in (
        ("f16", "i8"), ("f32", "i32"), ("%ae = arith.extf", f"%ae = arith.{widen_x}"),
        ("extf", widen_w), ("mulf", "muli"), ("addf", "addi"), ("maximumf", "maxsi"),
        ("constant 0.0", "constant 0"),
    ):  # fmt: skip
        text = text.replace(old, new)
    bits = tuple(a.astype(t).view(np.int8) for a, t in zip((x, w), dtypes, strict=True))

    def expected(x: Array, w: Array, bias: Array) -> list[Array]:
        read = (a.astype(np.int8).view(t) for a, t in zip((x, w), dtypes, strict=True))
        return case.expected(*(a.astype(np.int64) for a in read), bias)

    inputs = (*bits, bias.astype(np.int32))
    return replace(case, text=text, inputs=inputs, expected=expected)


def by_bytes(text: str) -> str:
    """A schedule for halves, for as many bytes of K."""
    text = re.sub(r"bk=(\d+) vector=16", lambda m: f"bk={2 * int(m[1])} vector=32", text)
    return re.sub(r"mma=(m\d+n\d+)k16", r"mma=\1k32", text)


def steps(case: loop_cases.Case, text: str, target: str, count: int | None = None) -> ModuleOp:
    module = scheduled(case, text, target)
    apply(module, ",".join(STEPS[:count]))
    return lowered(module)


def exact(case: loop_cases.Case) -> Array:
    (found,) = case.expected(*(a.astype(np.int64) for a in case.inputs))
    return found


def check(case: loop_cases.Case, module: ModuleOp) -> None:
    """Runs a module in the simulator, which reports hazards, and on the host in both modes."""
    (found,) = run_module(module, case.inputs)
    np.testing.assert_array_equal(found, exact(case))
    for mode in ("early", "late"):
        executor = Executor(module, HostBackend(async_mode=mode))
        (made,) = executor([torch.from_numpy(a) for a in case.inputs])
        np.testing.assert_array_equal(made.numpy(), exact(case))


@pytest.mark.parametrize("name", [*TYPES, "s8 u8", "u8 s8"])
@pytest.mark.parametrize("what", BY_WARPS)
def test_products(what: str, name: str) -> None:
    case, text = BY_WARPS[what]
    case = in_integers(case, name)
    module = steps(case, by_bytes(text), "sm_80")
    assert multiplies_matrices(module)
    rows = any(isinstance(op, kernel.LdmatrixOp) for op in module.walk())
    assert rows == (what != "not staged")
    check(case, module)


@pytest.mark.parametrize("sizes", [(17, 7, 35), (2, 9, 67)])
def test_every_prefix(sizes: tuple[int, int, int]) -> None:
    case = in_integers(product(*sizes, w_turned=True), "s8")
    text, held = by_bytes(schedule((16, 8), (16, 8), bk=16)), STEPS.index("register-tile")
    for count in range(held + 1, len(STEPS) + 1):
        module = steps(case, text, "sm_120", count)
        assert multiplies_matrices(module)
        (found,) = run_module(module, case.inputs)
        np.testing.assert_array_equal(found, exact(case), f"{count} steps")


@pytest.mark.parametrize("name", [*TYPES, "s8 u8", "u8 s8"])
@pytest.mark.parametrize("what", BY_GROUPS)
def test_products_of_warpgroups(what: str, name: str) -> None:
    case, text = BY_GROUPS[what]
    case = in_integers(case, name)
    module = steps(case, by_bytes(text), "sm_90")
    assert any(isinstance(op, kernel.WgmmaOp) for op in module.walk())
    check(case, module)


def test_sums_wrap() -> None:
    """As those of eager PyTorch do: a sum of i32 has no end."""
    case = in_integers(product(16, 8, 64, w_turned=True), "s8")
    x, w, bias = case.inputs
    case = replace(case, inputs=(np.full_like(x, -128), np.full_like(w, -128), bias))
    case.inputs[2][:] = np.iinfo(np.int32).max
    wrapped = (exact(case) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    module = steps(case, by_bytes(schedule((16, 8), (16, 8), bk=16)), "sm_80")
    (found,) = run_module(module, case.inputs)
    np.testing.assert_array_equal(found, np.maximum(wrapped, 0))


def test_factors_of_two_widths_are_refused() -> None:
    case = in_integers(product(16, 8, 64, w_turned=True), "s8")
    text = case.text.replace("8x64xi8", "8x64xi16").replace("%c : i8", "%c : i16")
    with pytest.raises(TextError, match=r"expected factors of .* s8 and u8, .* found s8 and s16"):
        steps(replace(case, text=text), by_bytes(schedule((16, 8), (16, 8), bk=16)), "sm_80")


@pytest.mark.parametrize(
    ("target", "rows", "mma"),
    [
        ("sm_75", 64, ""), ("sm_80", 64, "m16n8k32"), ("sm_120", 64, "m16n8k32"),
        ("sm_90", 1024, "m64n"),
    ],
)  # fmt: skip
def test_defaults_of_large_products(target: str, rows: int, mma: str) -> None:
    def product_of(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(x, w.t())

    given = tuple(torch.empty(n, 1024, dtype=torch.int8, device="meta") for n in (rows, 1024))
    module = import_program(product_of, given, whole=DECOMPOSITIONS).module
    set_target(module, target)
    run_pipeline(compiler_context(), module, "loop")
    (text,) = (str(op) for op in module.walk() if isinstance(op, loop.KernelOp))
    assert f"mma={mma}" in text if mma else "mma=" not in text


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("sizes", [(33, 100, 64), (256, 512, 128), (17, 1, 8), (40, 0, 8)])
def test_a_quantized_linear(sizes: tuple[int, int, int], target: str) -> None:
    """As quantized models have it: integers are multiplied, their sums scaled, a bias is added."""
    m, k, n = sizes

    def linear(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        sums = x.int() @ w.int().t()
        return torch.relu(sums.float() * scales - 3)

    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randint(-128, 128, (r, k), dtype=torch.int8, generator=generator) for r in (m, n))
    scales = torch.rand(n, generator=generator)
    compiled = dlc.compile(linear, (x, w, scales), target=target, backend="host")
    torch.testing.assert_close(compiled(x, w, scales), linear(x, w, scales), rtol=1e-6, atol=1e-5)


Program = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
PROGRAMS: dict[str, Program] = {
    "as they are": lambda x, w: x.int() @ w.int().t(),
    "viewed": lambda x, w: x.view(torch.uint8).int() @ w.int().t(),
    "added": lambda x, w: (x + 1).int() @ w.int().t(),
    "clamped": lambda x, w: x.clamp(3, 100).int() @ (w * 2).int().t(),
    "compared": lambda x, w: (x > 3).to(torch.int8).int() @ w.int().t(),
    "quantized": lambda x, w: (x * 0.5).round().clamp(0, 127).to(torch.int8).int() @ w.int().t(),
    "in batches": lambda x, w: torch.bmm(x.int()[None], w.int().t()[None]),
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("types", ["int8 int8", "uint8 uint8", "int8 uint8", "uint8 int8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, types: str, target: str) -> None:
    """Signs are those of dtypes, whatever is multiplied by what; what is computed is right, too."""
    generator = torch.Generator().manual_seed(0)
    x, w = (
        torch.randint(0, 256, (64, 64), generator=generator).to(getattr(torch, name))
        for name in types.split()
    )
    program = PROGRAMS[name]
    compiled = dlc.compile(program, (x, w), target=target, backend="host")
    assert torch.equal(compiled(x, w), program(x, w))


@pytest.mark.parametrize("other", [torch.uint8, torch.int8])
def test_factors_with_a_sign_or_without_are_multiplied_by_tensor_cores(other: torch.dtype) -> None:
    x, w = (torch.empty(1024, 1024, dtype=dtype, device="meta") for dtype in (torch.uint8, other))
    text = dlc.compile(PROGRAMS["as they are"], (x, w), target="sm_80").ir("loop")
    assert "mma=m16n8k32" in text


def quantized(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers, and the scale of each row."""
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scale).to(torch.int8), scale


def quantized_linear(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    q, scale = quantized(x)
    return torch._int_mm(q, w.t()).float() * scale * scales


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_what_is_quantized_in_a_program_is_multiplied_by_tensor_cores(target: str) -> None:
    """Memory has it in 8 bits: widening it is a part of the product, not of what stores it."""
    x, scales = torch.empty(512, 1024, device="meta"), torch.empty(512, device="meta")
    w = torch.empty(512, 1024, dtype=torch.int8, device="meta")
    text = dlc.compile(quantized_linear, (x, w, scales), target=target).ir("loop")
    assert re.search("mma=m(16n8|64n[0-9]+)k32", text)
    assert "memref<512x1024xi32" not in text


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("sizes", [(33, 64, 40), (64, 96, 128), (18, 1, 8)])
def test_a_linear_that_is_quantized_row_by_row(sizes: tuple[int, int, int], target: str) -> None:
    m, k, n = sizes
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(m, k, generator=generator)
    w = torch.randint(-128, 128, (n, k), dtype=torch.int8, generator=generator)
    scales = torch.rand(n, generator=generator)

    def linear(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        q, scale = quantized(x)
        return (q.int() @ w.int().t()).float() * scale * scales

    compiled = dlc.compile(linear, (x, w, scales), target=target, backend="host")
    torch.testing.assert_close(compiled(x, w, scales), linear(x, w, scales), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_factors_that_are_both_cast_to_halves(dtype: torch.dtype, target: str) -> None:
    """Their slabs are of halves, beside those of bytes: there is room for all of them."""
    x = torch.randint(-128, 128, (64, 100), dtype=torch.int8)
    w = torch.randint(0, 256, (100, 48), dtype=torch.uint8)

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x.to(dtype) / 16) @ (w.to(dtype) / 16)

    compiled = dlc.compile(f, (x, w), target=target, backend="host")
    assert multiplies_matrices(compiled.variants[0].module("kernel"))
    exact = (x.double() / 16) @ (w.double() / 16)
    assert (compiled(x, w) - exact).abs().max() <= torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_convolution_of_bytes_that_are_cast_to_halves(target: str) -> None:
    """What all taps read of an image leaves no room for weights: the slab of a tap does."""
    x = torch.randint(-8, 8, (8, 32, 28, 28), dtype=torch.int8)
    w = torch.randint(-8, 8, (64, 32, 3, 3), dtype=torch.int8)

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x.half() / 16, w.half() / 16, padding=1)

    compiled = dlc.compile(f, (x, w), target=target, backend="host")
    assert multiplies_matrices(compiled.variants[0].module("kernel"))
    exact = torch.nn.functional.conv2d(x.double() / 16, w.double() / 16, padding=1)
    assert (compiled(x, w) - exact).abs().max() <= 1e-3 * exact.abs().max()
