"""Kernels that read the same tensor and go over the same points are one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

import dlc


def waves(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    return x.sin(), x.cos()


def columns(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    return x.sum(0), (x * y).sum(0)


def rows(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    return x.sum(1), x.amax(1), (x * y).sum(1)


def derivatives(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    mean, rstd = x.mean(1, keepdim=True), torch.rsqrt(x.var(1, keepdim=True) + 1e-5)
    return torch.ops.aten.native_layer_norm_backward(
        y, x, [x.shape[1]], mean, rstd, x[0], x[0], [True, True, True]
    )


def chained(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    """The second one needs the first: they are not side by side."""
    total = x.sum(1)
    return total, (x * total.sum()).sum(1)


PROGRAMS = {waves: 1, columns: 1, rows: 1, derivatives: 3, chained: 3}


@pytest.mark.parametrize("program", PROGRAMS)
def test_kernels(program: Callable[..., Sequence[Tensor]]) -> None:
    given = tuple(torch.empty(4096, 1024, device="meta") for _ in range(2))
    assert len(dlc.compile(program, given, target="sm_90").kernels) <= PROGRAMS[program]


@pytest.mark.parametrize("shape", [(1, 2), (7, 13), (300, 33), (2, 20011), (4099, 3)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers(program: Callable[..., Sequence[Tensor]], shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(shape, generator=generator) for _ in range(2))
    compiled = dlc.compile(program, (x, y), target="sm_90", backend="host")
    for found, exact in zip(compiled(x, y), program(x.double(), y.double()), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)
    assert {verdict.answer for verdict in compiled.check()} <= {"clean"}


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
@pytest.mark.parametrize("program", [waves, columns])
def test_no_elements(program: Callable[..., Sequence[Tensor]], shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    compiled = dlc.compile(program, (x, x), target="sm_90", backend="host")
    for found, exact in zip(compiled(x, x), program(x, x), strict=True):
        torch.testing.assert_close(found, exact)


def test_products_keep_their_tiles() -> None:
    def both(x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
        return x @ w, x @ v, x.sum(1)

    given = tuple(torch.empty(1024, 1024, device="meta") for _ in range(3))
    text = dlc.compile(both, given, target="sm_90").ir("loop")
    assert text.count("arith.mulf") == 1  # one kernel, launched twice


class Average(torch.nn.Module):
    """What is read beside is updated in between."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x: Tensor) -> Sequence[Tensor]:
        far = (x - self.seen).abs().mean(1)
        self.seen.mul_(0.9).add_(x[0], alpha=0.1)
        return far, x.square().mean(1)


def updated(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    total = (x * y).sum(1)
    x.mul_(2)
    return total, y.sum(1)


def replaced(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    waves = (x + y).sin()
    x[0] = 5
    return waves, y.cos()


@pytest.mark.parametrize("program", [updated, replaced])
def test_what_is_updated_between_two_keeps_them_apart(
    program: Callable[..., Sequence[Tensor]],
) -> None:
    x, y = torch.randn(300, 64), torch.randn(300, 64)
    compiled = dlc.compile(program, (x.clone(), y), target="sm_90", backend="host")
    ours, own = x.clone(), x.clone()
    for found, exact in zip(compiled(ours, y), program(own, y), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-5)
    assert torch.equal(ours, own)


def test_a_buffer_is_updated_between_two() -> None:
    x, module = torch.randn(300, 64), Average()
    compiled = dlc.compile(module, (x,), target="sm_90", backend="host")
    exact = Average()(x)
    for found, own in zip(compiled(x), exact, strict=True):
        torch.testing.assert_close(found, own, rtol=1e-5, atol=1e-5)
