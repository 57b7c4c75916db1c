"""Which programs of halves tensor cores multiply by default, and which they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import dlc
from dlc.judge.accuracy import compare

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


def made(name: str, program: Program) -> tuple[dlc.CompiledProgram, list[torch.Tensor]]:
    torch.manual_seed(len(name))
    f, shapes, _ = program
    inputs = [torch.randn(shape).bfloat16() for shape in shapes]
    return dlc.compile(f, tuple(inputs), target="sm_80", backend="host"), inputs


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
