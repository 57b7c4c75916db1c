"""The index that a window of max pooling names where several of its points are NaN: the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import dlc

NAN, INF = torch.nan, torch.inf
POINTS = torch.tensor([1, NAN, 2, NAN, 3, NAN, NAN, NAN, NAN, 4, 4, -INF])
AT = torch.tensor([1, 5, 8, 9])
"""The index of windows of three."""
HALF = torch.full((1, 1, 3), 0.5)
POOLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "1d": lambda x: F.max_pool1d(x[None], 3, return_indices=True),
    "2d": lambda x: F.max_pool2d(x[None, None], (1, 3), return_indices=True),
    "3d": lambda x: F.max_pool3d(x[None, None, None], (1, 1, 3), return_indices=True),
    "padded": lambda x: F.max_pool1d(x[None, 2:-1], 3, padding=1, return_indices=True),
    "adaptive 1d": lambda x: F.adaptive_max_pool1d(x[None], 4, return_indices=True),
    "adaptive 2d": lambda x: F.adaptive_max_pool2d(x[None, None], (1, 4), return_indices=True),
    "adaptive 3d": lambda x: F.adaptive_max_pool3d(x[None, None, None], (1, 1, 4), True),
    "fractional 2d": lambda x: F.fractional_max_pool2d(
        x[None, None], (1, 3), (1, 4), return_indices=True, _random_samples=HALF[..., :2].to(x)
    ),
    "fractional 3d": lambda x: F.fractional_max_pool3d(
        x.expand(1, 1, 2, 2, 12),
        (1, 1, 3),
        (1, 1, 4),
        return_indices=True,
        _random_samples=HALF.to(x),
    ),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_last_of_several_nans(name: str, dtype: torch.dtype) -> None:
    pool = POOLS[name]
    compiled = dlc.compile(pool, (POINTS.to(dtype),), backend="host")
    found, at = compiled(POINTS.to(dtype))
    windows, expected = torch.tensor([NAN, NAN, NAN, 4]), AT
    if name == "padded":
        windows, expected = windows[:3], torch.tensor([1, 4, 6])
    if name == "fractional 3d":
        expected = AT + 36  # a window is at the end of the other dimensions
    assert torch.equal(at.flatten(), expected)
    assert torch.equal(found.float().flatten().nan_to_num(), windows.nan_to_num())
