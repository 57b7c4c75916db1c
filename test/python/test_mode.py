"""torch.mode of numbers and NaNs, of which no two are equal."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import torch

import dlc

ROWS = [
    [1, 2, nan, nan, nan], [nan, 1, 1, nan, nan], [nan] * 5, [nan, nan, nan, 0, 0],
    [2, 1, 2, 1, 0], [-inf, inf, inf, nan, nan],
]  # fmt: skip


def test_mode_takes_no_nan_for_another_one() -> None:
    def mode(x: torch.Tensor) -> Any:
        return tuple(x.mode(-1)), tuple(x.mT.mode(0, keepdim=True))

    x = torch.tensor(ROWS)
    found, wanted = dlc.compile(mode, (x,), backend="host")(x), mode(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
