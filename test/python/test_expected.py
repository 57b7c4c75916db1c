"""The yardstick of accuracy: what it allows is what sums in order are off, and little more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from expected import judge, sum_error

ULP = torch.finfo(torch.float32).eps


def sums(terms: int, mean: float) -> tuple[torch.Tensor, torch.Tensor]:
    """256 sums of numbers from `mean` - 1/2 to `mean` + 1/2: in fp32 in order, and in fp64."""
    numbers = np.random.default_rng(0).random((terms, 256), np.float32) + np.float32(mean - 0.5)
    in_order = np.add.accumulate(numbers, axis=0)[-1]
    return torch.from_numpy(in_order), torch.from_numpy(numbers.sum(0, np.float64))


@pytest.mark.parametrize("mean", [0, 0.5])
@pytest.mark.parametrize("terms", [64, 256, 1024, 4096, 16384])
def test_sums_in_order_err_as_they_may(terms: int, mean: float) -> None:
    found, exact = sums(terms, mean)
    error = float((found - exact).abs().max() / exact.abs().max()) / ULP
    assert sum_error(terms) / 4 < error < sum_error(terms)
    assert judge(found, exact, exact.float(), terms).ok


@pytest.mark.parametrize("terms", [256, 4096])
def test_twice_the_error_of_a_sum_is_wrong(terms: int) -> None:
    _, exact = sums(terms, 0.5)
    worse = (exact + exact.max() * 2 * sum_error(terms) * ULP).float()
    assert not judge(worse, exact, exact.float(), terms).ok
    half = (exact + exact.max() * 6 * torch.finfo(torch.half).eps).half()
    assert not judge(half, exact, exact.half(), terms).ok
