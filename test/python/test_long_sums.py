"""Sums that one thread adds: as accurate as eager PyTorch's, whatever their length."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import sqrt

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from dlc.judge.accuracy import compare
from dlc.schedule.long_sums import accumulators

SHAPES = [(97, 1, 1), (5, 5, 5), (7, 7, 7), (29, 29, 1), (10, 10, 10), (499, 2, 1)]
"""With 97 to 1000 elements."""
SAMPLES = 40

Function = Callable[[Tensor, Tensor], Tensor]
FUNCTIONS: dict[str, Function] = {
    "sum": lambda a, b: (a.abs() + b.abs()).sum(),
    "norm": lambda a, b: torch.linalg.vector_norm(a * b),
    "var": lambda a, b: torch.var(a + b),
    "hinge": lambda a, b: F.hinge_embedding_loss(a, b.sign()),
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "rows": lambda a, b: (a.abs() + b.abs()).mean((-1, -2)),
    "columns": lambda a, b: (a.abs() + b.abs()).flatten(1).mean(0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    """Within the rule as it is on a GPU, on each of many samples."""
    function, generator = FUNCTIONS[name], torch.Generator().manual_seed(0)
    for shape in SHAPES if name not in ("rows", "columns") else [(6, 333, 3), (500, 2, 2)]:
        compiled = None
        for _ in range(SAMPLES):
            a, b = (torch.randn(shape, generator=generator) for _ in range(2))
            compiled = compiled or dlc.compile(function, (a, b), backend="host")
            eager, exact = function(a, b), function(a.double(), b.double())
            accuracy = compare(compiled(a, b), exact, eager)
            assert accuracy.ok, f"{name} of {shape}: {accuracy}"


@pytest.mark.parametrize(
    ("channels", "results", "sides", "window"),
    [(40, 24, (19, 16), 3), (131, 8, (21, 13), 5), (32, 32, (5, 7, 6), 3)],
    ids=str,
)
def test_chunks_apart(channels: int, results: int, sides: tuple[int, ...], window: int) -> None:
    """
    Of transposed convolutions with strides, which libraries sum in other orders, chunks of K are
    summed apart: half as far off at most, and within what may be if PyTorch is off by 1.5 ulp.
    """
    torch.manual_seed(0)
    dims = len(sides)
    x, w = torch.rand(2, channels, *sides), torch.rand(channels, results, *[window] * dims) - 0.5
    function = getattr(F, f"conv_transpose{dims}d")

    def transposed(x: Tensor, w: Tensor) -> Tensor:
        return function(x, w, stride=2)

    def error(program: dlc.CompiledProgram) -> float:
        return float((program(x, w) - exact).abs().max() / exact.abs().max())

    exact = transposed(x.double(), w.double())
    apart = dlc.compile(transposed, (x, w), backend="host")
    found = re.findall(r'@(\w+)[^"]*schedule "([^"]* apart=true[^"]*)"', apart.ir("tile"))
    ((kernel, schedule),) = found
    in_order = schedule.replace(" apart=true", "")
    plain = dlc.compile(transposed, (x, w), backend="host", schedules={kernel: in_order})
    terms = channels * (-(-window // 2)) ** dims
    allowed = max(4, max(2, sqrt(terms) / 4) * 1.5) * torch.finfo(torch.float32).eps
    assert error(apart) <= min(error(plain) / 2, allowed)


@pytest.mark.parametrize("at", [0, 41, 124])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number(at: int, value: float) -> None:
    x = torch.randn(5, 5, 5)
    schedule = "tileify,cooperative-reduce{threads=2},chunk-reduce{bk=4 apart=true}"
    compiled = dlc.compile(torch.sum, (x,), backend="host", schedules={"sum": schedule})
    x.view(-1)[at] = value
    torch.testing.assert_close(compiled(x), x.sum(), equal_nan=True)
    x.view(-1)[7] = -float("inf")
    torch.testing.assert_close(compiled(x), x.sum(), equal_nan=True)


def test_zeros() -> None:
    """Sums begin with a zero, whatever the sign of what is added, as in eager PyTorch."""
    zeros = torch.full((5, 5, 5), -0.0)
    result = dlc.compile(torch.sum, (zeros,), backend="host")(zeros)
    assert result.signbit() == zeros.sum().signbit()


@pytest.mark.parametrize(
    ("lengths", "run", "count"),
    [
        ([64], 1, None),
        ([65], 1, 5),
        ([16], 4, None),
        ([5, 5, 5], 1, 5),
        ([37], 4, 4),
        ([256], 1, 4),
        ([97], 1, 7),
        ([1000], 1, 8),
        ([997], 1, 9),
        ([499, 2], 1, 10),
        ([3, 3, 3, 3], 1, 3),
        ([1, 1], 500, 2),
    ],
    ids=str,
)
def test_accumulators(lengths: list[int], run: int, count: int | None) -> None:
    """Four, or eight for more than 256 terms, or some more that leave fewer points over."""
    expected = [] if count is None else [f"chunk-reduce{{bk={count} apart=true}}"]
    assert accumulators([[2], lengths], run) == expected
