"""Quotients by what is never tiny are products with a reciprocal, and right for all inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import dlc

INF, NAN = float("inf"), float("nan")
ROWS = torch.tensor(
    [
        [1.0, 2.0, 3.0, -4.0, 0.5],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [-120.0, -130.0, -140.0, -150.0, -160.0],
        [3e38, -3e38, 1e38, 0.0, 1.0],
        [1e-39, 2e-39, 0.0, -1e-40, 1e-45],
        [INF, 1.0, 2.0, 3.0, 4.0],
        [-INF, 1.0, -INF, 3.0, 4.0],
        [-INF, -INF, -INF, -INF, -INF],
        [NAN, 1.0, 2.0, 3.0, 4.0],
    ]
)
"""Ordinary rows, and those whose sums are 0, tiny, huge, infinite or no number."""

INVERTED = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of a product": lambda x: torch.softmax(x * 0.125, -1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "by a root": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5),
}
DIVIDED = {
    "by a sum": lambda x: x / x.sum(-1, keepdim=True),
    "by a sum of exps": lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
    "by the largest": lambda x: x / x.amax(-1, keepdim=True),
    "rounded": lambda x: torch.floor(x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
}


def quotients(program: Callable[[torch.Tensor], torch.Tensor]) -> tuple[bool, torch.Tensor]:
    """True if a row is inverted once, and what the program gives on the host."""
    compiled = dlc.compile(program, (ROWS,), backend="host", target="sm_90")
    inverted = any("_reciprocal = 1.0f / " in kernel.source for kernel in compiled.kernels)
    return inverted, compiled(ROWS)


@pytest.mark.parametrize("name", INVERTED | DIVIDED)
def test_what_is_never_tiny_is_inverted_once(name: str) -> None:
    program = (INVERTED | DIVIDED)[name]
    inverted, result = quotients(program)
    assert inverted == (name in INVERTED)
    torch.testing.assert_close(result, program(ROWS), equal_nan=True)
