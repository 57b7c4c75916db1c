"""What a program writes twice is computed once, and results stay tensors of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dlc


def dice(x: Tensor, t: Tensor) -> Tensor:
    both = (x.softmax(1) * t).sum((2, 3))
    return 1 - (2 * both / (x.softmax(1).sum((2, 3)) + t.sum((2, 3)))).mean()


def returned(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp(), x.exp() + 0 * t


def twins(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp(), x.exp()


def written(x: Tensor, t: Tensor) -> Tensor:
    before = x.exp().sum()
    x.mul_(2)
    return before + x.exp().sum()


def drawn(x: Tensor, t: Tensor) -> Tensor:
    return torch.rand_like(x) - torch.rand_like(x)


@pytest.mark.parametrize("program", [dice, returned, twins, written])
def test_numbers(program) -> None:
    x, t = torch.randn(2, 5, 7, 3), torch.rand(2, 5, 7, 3)
    compiled = dlc.compile(program, (x.clone(), t), target="sm_90", backend="host")
    found, exact = compiled(x.clone(), t), program(x.clone().double(), t.double())
    torch.testing.assert_close(found, exact, check_dtype=False)


def test_a_softmax_that_is_written_twice_is_computed_once() -> None:
    x, t = (torch.empty(16, 21, 128, 128, device="meta") for _ in range(2))
    text = dlc.compile(dice, (x, t), target="sm_90").ir("loop")
    assert text.count("loop.reduce max") == 1


def test_results_are_tensors_of_their_own() -> None:
    x = torch.randn(2, 3)
    first, second = dlc.compile(twins, (x, x), target="sm_90", backend="host")(x, x)
    assert first.data_ptr() != second.data_ptr()


def test_random_numbers_are_drawn_twice() -> None:
    x = torch.zeros(64)
    assert dlc.compile(drawn, (x, x), target="sm_90", backend="host")(x, x).abs().min() > 0
