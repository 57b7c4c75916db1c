"""`torch.compile(model, backend="dlc")`, through the installed entry point, on the host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from dlc.frontend.source import ImportFailure


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)).eval()


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_other_shapes_strides_and_alignments(dynamic: bool | None):
    model = perceptron()
    compiled = torch.compile(model, backend="dlc", dynamic=dynamic)
    inputs = [
        torch.randn(3, 16),
        torch.randn(7, 16),
        torch.randn(1, 16),
        torch.randn(16, 5).t(),
        torch.randn(5 * 16 + 1)[1:].view(5, 16),
        torch.randn(3, 16),
    ]
    with torch.no_grad():
        for x in inputs:
            torch.testing.assert_close(compiled(x), model(x))


def test_inputs_are_written_and_the_graph_may_break():
    heard: list[float] = []

    @torch.compiler.disable
    def listen(x: torch.Tensor) -> None:
        heard.append(x.sum().item())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        listen(x)
        return x[1:] * 2

    compiled = torch.compile(step, backend="dlc")
    for n in (4, 6):
        x, y = torch.ones(n), torch.arange(float(n))
        expected = 1 + y
        assert torch.equal(compiled(x, y), expected[1:] * 2)
        assert torch.equal(x, expected)
        assert heard[-1] == expected.sum().item()


def test_integers_among_the_arguments():
    compiled = torch.compile(lambda x, n: x.roll(n, 0) + n, backend="dlc", dynamic=True)
    x = torch.randn(5)
    for n in (1, 2, 3):
        assert torch.equal(compiled(x, n), x.roll(n, 0) + n)


def test_changed_weights_are_seen():
    model = perceptron()
    compiled = torch.compile(model, backend="dlc")
    x = torch.randn(3, 16)
    with torch.no_grad():
        compiled(x)
        model[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))


def test_gradients_are_refused_by_name():
    compiled = torch.compile(lambda x: x * 2, backend="dlc")
    with pytest.raises(ImportFailure, match="'x' requires a gradient"):
        compiled(torch.randn(3, requires_grad=True))
