"""What a row is folded to is returned beside what is computed of it: one kernel stores both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

import dlc


def norm(x: Tensor) -> Sequence[Tensor]:
    return torch.native_layer_norm(x, [x.shape[-1]], None, None, 1e-5)


def quantized(x: Tensor) -> Sequence[Tensor]:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scale).to(torch.int8), scale


def powers(x: Tensor) -> Sequence[Tensor]:
    largest = x.amax(-1, keepdim=True)
    return (x - largest).exp(), largest


def softmax(x: Tensor) -> Sequence[Tensor]:
    largest = x.amax(-1, keepdim=True)
    power = (x - largest).exp()
    total = power.sum(-1, keepdim=True)
    return power / total, largest, total


def likelihoods(x: Tensor) -> Sequence[Tensor]:
    total = x.logsumexp(-1)
    return x - total.unsqueeze(-1), total


def standard(x: Tensor) -> Sequence[Tensor]:
    variance, mean = torch.var_mean(x, -1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5), variance, mean


def columns(x: Tensor) -> Sequence[Tensor]:
    mean = x.mean(0, keepdim=True)
    return x - mean, mean


PROGRAMS = (norm, quantized, powers, softmax, likelihoods, standard, columns)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_memory_is_read_once(program: Callable[..., Sequence[Tensor]], target: str) -> None:
    x = torch.empty(4096, 1024, device="meta")
    kernels = dlc.compile(program, (x,), target=target).kernels
    assert len(kernels) == 1


@pytest.mark.parametrize("shape", [(1, 2), (7, 13), (30, 33), (2, 3, 257), (2, 20011)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers(program: Callable[..., Sequence[Tensor]], shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    compiled = dlc.compile(program, (x,), target="sm_90", backend="host")
    for found, exact in zip(compiled(x), program(x.double()), strict=True):
        assert found.shape == exact.shape
        # An integer may be the next one, where a half is rounded.
        most = 1.0 if found.dtype == torch.int8 else 1e-5
        torch.testing.assert_close(found.double(), exact.double(), rtol=1e-5, atol=most)
    assert {verdict.answer for verdict in compiled.check()} <= {"clean"}


@pytest.mark.parametrize("shape", [(0, 8), (5, 0, 4)])
@pytest.mark.parametrize("program", [norm, columns])
def test_no_elements(program: Callable[..., Sequence[Tensor]], shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    compiled = dlc.compile(program, (x,), target="sm_90", backend="host")
    for found, exact in zip(compiled(x), program(x), strict=True):
        torch.testing.assert_close(found, exact, equal_nan=True)


def chosen(x: Tensor, y: Tensor) -> Sequence[Tensor]:
    largest = x.amax(1)
    column = torch.cond(
        x.sum() > 0,
        lambda a, b: (a.unsqueeze(1).clone(),),
        lambda a, b: (b.sum(1, keepdim=True),),
        (largest, y),
    )
    return *column, (y - largest[:, None]).exp()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_gives_memory_of_its_own(sign: int) -> None:
    x, y = torch.rand(5, 7) * sign, torch.randn(5, 7)
    compiled = dlc.compile(chosen, (x, y), target="sm_90", backend="host")
    for found, exact in zip(compiled(x, y), chosen(x, y), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-5)
