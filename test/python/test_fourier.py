"""Discrete Fourier transforms against PyTorch's in fp64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from test_complex import check, normal, number


@pytest.mark.parametrize("n", [1, 2, 3, 8, 31, 37, 64, 90])
def test_lengths(n: int) -> None:
    check(lambda x, y: (torch.fft.fft(x), torch.fft.ifft(x), torch.fft.rfft(y)),
          number(2, n), normal(2, n), longest=n)  # fmt: skip


@pytest.mark.parametrize("n", [7, 8, 66])
def test_real_results(n: int) -> None:
    check(lambda x: (torch.fft.irfft(x, n), torch.fft.hfft(x, n, norm="ortho")),
          number(3, n // 2 + 1), longest=n)  # fmt: skip


FUNCTIONS: list[Callable[..., object]] = [
    lambda x, y: (
        torch.fft.fft(x, dim=0),
        torch.fft.fft(x, 8, 1),
        torch.fft.fft(x, 3, norm="ortho"),
    ),
    lambda x, y: (torch.fft.fft2(x), torch.fft.ifft2(x, norm="forward"), torch.fft.rfft2(y)),
    lambda x, y: (
        torch.fft.fftn(y),
        torch.fft.ihfft(y),
        torch.fft.irfft2(x),
        torch.fft.fftshift(x),
    ),
    lambda x, y: (torch.fft.rfftn(y, norm="ortho"), torch.fft.fft(x.conj().T)),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_dimensions_and_norms(function: Callable[..., object]) -> None:
    check(function, number(4, 6), normal(4, 6), longest=24)


def test_a_convolution_by_transforms() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(x, 96) * torch.fft.rfft(w, 96), 96)[..., :48]

    check(f, normal(3, 48), normal(3, 48), longest=96)


def test_a_spectrogram() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 16, 4, window=torch.ones(16), return_complex=True).abs()

    check(f, normal(2, 64), longest=16)
