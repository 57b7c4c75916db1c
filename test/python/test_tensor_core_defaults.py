"""Which programs of halves tensor cores multiply by default, and which they do not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import dlc
from dlc.backend.cuda.run.nvcc import compile_cubin
from dlc.frontend.export.fx import import_program
from dlc.judge.accuracy import compare
from dlc.models.find import find
from dlc.models.load import ModelOptions, load_model
from dlc.pipeline import run_pipeline
from dlc.schedule.kernel_table import kernel_table
from dlc.stages import compiler_context
from dlc.target import get_target, set_target
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS

Program = tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], int]

TAKEN: dict[str, Program] = {
    "stride 2": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1), [(2, 32, 15, 15), (40, 32, 3, 3)], 288,
    ),
    "groups": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=2), [(2, 64, 9, 9), (64, 32, 3, 3)], 288,
    ),
    "one dimension": (
        lambda x, w: F.conv1d(x, w, padding=1), [(2, 48, 101), (40, 48, 3)], 144,
    ),
    "1 x 1": (F.conv2d, [(2, 40, 13, 13), (33, 40, 1, 1)], 40),
    "channels last": (
        lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1),
        [(2, 10, 10, 32), (40, 3, 3, 32)], 288,
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 64, 7, 7), (64, 33, 2, 2)], 64,
    ),
    "K in parts, both turned": (lambda x, g: x.mT @ g, [(2053, 40), (2053, 33)], 2053),
    "odd rows": (F.linear, [(100, 2047), (57, 2047)], 2047),
    "columns cut off": (lambda x, w: F.linear(x[:, 1:], w), [(40, 129), (48, 128)], 128),
    "permuted": (
        lambda q, k: q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1),
        [(2, 33, 4, 32), (2, 40, 4, 32)], 32,
    ),
    "masked": (lambda x, m, w: (x * m) @ w, [(40, 100), (40, 100), (100, 48)], 100),
}  # fmt: skip


BY_GROUPS: dict[str, Program] = {
    "linear": (F.linear, [(1032, 200), (1000, 200)], 200),
    "large blocks": (F.linear, [(2050, 72), (2056, 72)], 72),
    "product": (torch.matmul, [(1000, 136), (136, 1032)], 136),
    "both turned": (lambda x, w: x.mT @ w.mT, [(264, 1032), (1000, 264)], 264),
    "K in parts": (lambda x, w: x.mT @ w, [(1544, 264), (1544, 520)], 1544),
    "batches": (torch.matmul, [(6, 250, 136), (6, 136, 264)], 136),
    "one factor for all": (torch.matmul, [(2, 500, 136), (136, 512)], 136),
    "bias, gelu and residual": (
        lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
        [(1030, 200), (520, 200), (520,), (1030, 520)], 200,
    ),
    "two products": (
        lambda x, a, b: F.silu(F.linear(x, a)) * F.linear(x, b),
        [(500, 136), (1032, 136), (1032, 136)], 136,
    ),
    "odd rows, which threads copy": (F.linear, [(600, 131), (1100, 131)], 131),
    "columns from the third on, which threads copy": (
        lambda x, w: F.linear(x[:, 3:131], w), [(600, 136), (1100, 128)], 128,
    ),
}  # fmt: skip


def made(
    name: str, program: Program, target: str = "sm_80"
) -> tuple[dlc.CompiledProgram, list[torch.Tensor]]:
    torch.manual_seed(len(name))
    f, shapes, _ = program
    inputs = [torch.randn(shape).bfloat16() for shape in shapes]
    return dlc.compile(f, tuple(inputs), target=target, backend="host"), inputs


def takes_tensor_cores(module: dlc.CompiledProgram) -> bool:
    return any("mma=m16n8k16" in kernel.schedule for kernel in module.kernels)


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    f, _, length = TAKEN[name]
    module, inputs = made(name, TAKEN[name])
    assert takes_tensor_cores(module)
    exact = f(*(x.double() for x in inputs))
    verdict = compare(module(*inputs), exact, f(*inputs), length)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("name", BY_GROUPS)
def test_taken_by_warpgroups(name: str) -> None:
    """On sm_90, where slabs lie as `wgmma` reads them: of none a warp multiplies by itself."""
    f, _, length = BY_GROUPS[name]
    module, inputs = made(name, BY_GROUPS[name], "sm_90")
    first = module.kernels[0]
    assert "mma=m64n" in first.schedule
    assert ("tma-copy" in first.schedule) == ("threads copy" not in name)
    assert "wgmma_m64n" in first.source
    assert not re.search("mma_m16n8|ldmatrix", first.source)
    exact = f(*(x.double() for x in inputs))
    verdict = compare(module(*inputs), exact, f(*inputs), length)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("chip", ["sm_80", "sm_100", "sm_120"])
def test_other_chips_have_no_warpgroups(chip: str) -> None:
    module, _ = made("linear", BY_GROUPS["linear"], chip)
    assert "mma=m16n8k16" in module.kernels[0].schedule


def _heads(heads: int) -> Callable[..., torch.Tensor]:
    """A linear layer whose results lie head by head, as attention reads them: (B, H, S, D)."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w).unflatten(-1, (heads, -1)).transpose(1, 2)

    return f


COLUMNS_FIRST: dict[str, Program] = {
    "heads": (_heads(3), [(1, 136, 128), (192, 128)], 128),
    "heads of batches": (_heads(3), [(2, 136, 128), (192, 128)], 128),
    "few columns of a head": (_heads(2), [(1, 72, 128), (80, 128)], 128),
    "heads of a matrix": (
        lambda x, w: (x @ w).view(-1, 8, 64).transpose(0, 1), [(520, 128), (128, 512)], 128,
    ),
    "one first factor for all": (torch.matmul, [(200, 136), (3, 136, 264)], 136),
    "results turned": (lambda x, w: F.linear(x, w).mT, [(3, 264, 136), (200, 136)], 136),
    "a convolution of one tap": (F.conv1d, [(3, 128, 264), (264, 128, 1)], 128),
    "panels of what has one element at each place": (
        lambda x, w: w.squeeze(-1).mT @ x, [(3, 136, 512), (136, 512, 1)], 136,
    ),
}  # fmt: skip
"""Programs whose axis of columns stands before that of rows, as its operand comes first."""


@pytest.mark.parametrize("type", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", COLUMNS_FIRST)
def test_a_default_can_be_obeyed(name: str, chip: str, type: torch.dtype) -> None:
    """The rows of a warpgroup are along the axis that stands first, whichever operand it is of."""
    f, shapes, length = COLUMNS_FIRST[name]
    torch.manual_seed(len(name))
    inputs = [torch.randn(shape).to(type) for shape in shapes]
    module = dlc.compile(f, tuple(inputs), chip, "host")
    assert ("mma=m64n" if chip == "sm_90" else "mma=m16n8k16") in module.kernels[0].schedule
    exact = f(*(x.double() for x in inputs))
    verdict = compare(module(*inputs), exact, f(*inputs), length)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("shape", [(2, 8, 32, 32), (2, 7, 32, 40), (5, 24, 64, 24)])
def test_small_batches_have_whole_rows_of_warps(shape: tuple[int, ...]) -> None:
    """Rows of several matrices in a block: of each as many as whole warps have."""
    batch, rows, k, columns = shape
    x, w = torch.randn(batch, rows, k).bfloat16(), torch.randn(columns, k).bfloat16()
    for chip in ("sm_80", "sm_90", "sm_100", "sm_120"):
        for f in (F.linear, lambda x, w: F.linear(x.transpose(0, 1), w)):
            dlc.compile(f, (x, w), chip, "host").variants[0].module("tile").verify()


@pytest.mark.parametrize("type", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("shape", [(1, 1024, 1024, 16), (2, 1024, 1024, 16), (1, 128, 512, 8),
                                   (2, 128, 512, 8)])  # fmt: skip
def test_heads_of_models(shape: tuple[int, ...], chip: str, type: torch.dtype) -> None:
    """A default of heads is obeyed at sizes of models."""
    batch, length, width, heads = shape
    given = tuple(torch.empty(s, dtype=type) for s in [(batch, length, width), (width, width)])
    first, *_ = dlc.compile(_heads(heads), given, chip, "host").kernels
    assert ("wgmma_m64n" if chip == "sm_90" else "mma_m16n8") in first.source


LARGE: dict[str, Program] = {
    "plain": (F.linear, [(2048, 2048), (2048, 2048)], 2048),
    "gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [(2048, 2048), (2048, 2048), (2048,)], 0),
    "residual": (
        lambda x, w, r: F.linear(x, w) + r, [(2000, 2040), (2008, 2040), (2000, 2008)], 0,
    ),
    "all of it": (
        lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
        [(2001, 2047), (2003, 2047), (2003,), (2001, 2003)], 0,
    ),
    "silu": (
        lambda x, a, b: F.silu(F.linear(x, a)) * F.linear(x, b),
        [(512, 2048), (5632, 2048), (5632, 2048)], 0,
    ),
}  # fmt: skip


def _added(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w) + r


PRODUCERS: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], str]] = {
    "large blocks, more than SMs": (
        F.linear, [(4096, 4096), (4096, 4096)], "producer=1 registers=40 resident=1",
    ),
    "a warpgroup": (F.linear, [(520, 136), (520, 136)], "producer=1"),
    "parts of K, which another kernel adds": (
        F.linear, [(64, 4096), (256, 4096)], "producer=1",
    ),
    "parts of 161 and 160 chunks, more than SMs": (
        F.linear, [(1152, 41088), (2304, 41088)], "producer=1",
    ),
    "what is added, loaded box by box": (
        _added, [(4096, 1024), (4096, 1024), (4096, 4096)], "producer=1 registers=40 resident=1",
    ),
    "large blocks of 144 columns": (
        F.linear, [(512, 3584), (18944, 3584)], "producer=1 registers=40 resident=1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCERS)
def test_a_producer_by_default(name: str) -> None:
    """Where the estimate says that requests would not be hidden; nothing spills."""
    f, shapes, options = PRODUCERS[name]
    given = tuple(torch.empty(shape, dtype=torch.bfloat16) for shape in shapes)
    kernel, *_ = dlc.compile(f, given, "sm_90", "host").kernels
    made = f"{{{options}}}" if options else ""
    assert f"pipeline-k-outer{made}," in kernel.schedule
    cubin = compile_cubin(kernel.source, "sm_90")
    assert (cubin.spill_bytes, cubin.serialized) == (0, 0)


def _activated(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b))


def _gated(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, a)) * F.linear(x, b)


def _updated(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y.add_(F.linear(x, w))
    return y


STORED: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], str]] = {
    "half sectors": (F.linear, [(4096, 4096), (4096, 4096)], "{store=2}"),
    "batches": (torch.matmul, [(16, 512, 512), (16, 512, 512)], "{store=2}"),
    "few blocks": (F.linear, [(2048, 1024), (1024, 1024)], "{store=2}"),
    "rows of no multiple of 16 bytes": (F.linear, [(4096, 1024), (2044, 1024)], ""),
    "an activation": (_activated, [(4096, 1024), (4096, 1024), (4096,)], "{store=2}"),
    "what is added": (_added, [(4096, 1024), (4096, 1024), (4096, 4096)], "{store=2}"),
    "two products": (
        _gated,
        [(2048, 1024), (4096, 1024), (4096, 1024)],
        "",
    ),
    "what is read before": (_updated, [(4096, 4096), (4096, 1024), (4096, 1024)], ""),
    "parts of K in f32": (F.linear, [(64, 4096), (256, 4096)], ""),
}


@pytest.mark.parametrize("name", STORED)
def test_tma_stores_by_default(name: str) -> None:
    """Where threads would write sectors in halves, TMA can, and nothing spills."""
    f, shapes, option = STORED[name]
    given = tuple(torch.empty(shape, dtype=torch.bfloat16) for shape in shapes)
    kernel, *_ = dlc.compile(f, given, "sm_90", "host").kernels
    assert f",tma-copy{option}," in kernel.schedule
    assert ("tma_store" in kernel.source) == bool(option)
    if option:
        cubin = compile_cubin(kernel.source, "sm_90")
        assert (cubin.spill_bytes, cubin.serialized) == (0, 0)


@pytest.mark.parametrize("name", LARGE)
def test_registers_hold_what_large_tiles_sum(name: str) -> None:
    """By ptxas: nothing is spilled, and products are not serialized."""
    module, _ = made(name, LARGE[name], "sm_90")
    assert "mma=m64n" in module.kernels[0].schedule
    for kernel in module.kernels:
        cubin = compile_cubin(kernel.source, "sm_90")
        assert (cubin.spill_bytes, cubin.serialized) == (0, 0)


def test_a_long_k_is_split() -> None:
    module, _ = made("K in parts, both turned", TAKEN["K in parts, both turned"])
    assert "split-matmul-k" in module.kernels[0].schedule


LEFT: dict[str, Program] = {
    "a channel each": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=32), [(2, 32, 9, 9), (32, 1, 3, 3)], 9,
    ),
    "three channels": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=3), [(2, 3, 33, 33), (32, 3, 7, 7)], 147,
    ),
    "one row": (F.linear, [(1, 256), (512, 256)], 256),
    "a factor in f32": (
        lambda x, w: F.linear(x.float() * 1.1, w.float()), [(40, 128), (48, 128)], 128,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_left_to_threads(name: str) -> None:
    f, _, length = LEFT[name]
    module, inputs = made(name, LEFT[name])
    assert not takes_tensor_cores(module)
    exact = f(*(x.double() for x in inputs))
    assert compare(module(*inputs), exact, f(*inputs), length).ok


def test_a_block_of_a_model() -> None:
    """TinyLlama's, of 128 tokens, on an H100: predicted to take no more than 100 us."""
    options = ModelOptions(layer=0, seq_len=128, dtype="bf16")
    layer, states = load_model(find("TinyLlama/TinyLlama-1.1B-Chat-v1.0"), options)
    module = import_program(layer, states, whole=DECOMPOSITIONS).module
    set_target(module, "sm_90")
    run_pipeline(compiler_context(), module, "loop")
    told = re.search(r": ([\d.]+) us predicted", kernel_table(module, get_target("sm_90")))
    assert told
    assert float(told[1]) <= 100
