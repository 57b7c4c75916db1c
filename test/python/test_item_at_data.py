"""Writes of items at integers in tensors without dimensions, as caches of keys are written."""

from __future__ import annotations

import pytest
import torch

import dlc

CACHE, ROW = torch.arange(40.0).reshape(2, 5, 4), torch.tensor([[-1.0, 2, 3, 4], [5, 6, 7, 8]])


def written(k: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    k[:, n] = x
    k[:, n, n - 1] = 7
    return k * 2, k.sum(1)


@pytest.mark.parametrize("at", [1, 4, -2])
def test_items_are_written(at: int) -> None:
    n = torch.tensor(at)
    compiled = dlc.compile(written, (CACHE.clone(), ROW, n), backend="host")
    ours, eager = CACHE.clone(), CACHE.clone()
    for got, wanted in zip(compiled(ours, ROW, n), written(eager, ROW, n), strict=True):
        assert torch.equal(got, wanted)
    assert torch.equal(ours, eager)
