"""`torch.compile(model, backend="dlc")`, through the installed entry point, on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F


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


def test_a_step_of_an_optimizer_is_compiled_as_a_whole():
    def step(weight: torch.Tensor, mean: torch.Tensor, square: torch.Tensor, slope: torch.Tensor):
        mean.mul_(0.9).add_(slope, alpha=0.1)
        square.mul_(0.999).addcmul_(slope, slope, value=0.001)
        weight.addcdiv_(mean, square.sqrt() + 1e-8, value=-0.01)

    compiled = torch.compile(step, backend="dlc", options={"fallback": False})
    for dtype in (torch.float32, torch.float64):
        ours = [torch.rand(33).to(dtype) for _ in range(4)]
        eagers = [x.clone() for x in ours]
        for _ in range(2):
            compiled(*ours)
            step(*eagers)
        torch.testing.assert_close(ours, eagers)


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


@pytest.mark.parametrize("dynamic", [None, True])
def test_floats_may_change(dynamic: bool | None):
    class Scaled(nn.Module):
        factor = 0.5

        def forward(self, x: torch.Tensor, s: float) -> tuple[torch.Tensor, float]:
            return x * s + self.factor, s * 2

    model, x = Scaled(), torch.randn(5)
    compiled = torch.compile(model, backend="dlc", dynamic=dynamic)
    for s, factor in ((2.0, 0.5), (3.0, 0.5), (4.5, 0.25), (0.0, math.inf)):
        model.factor = factor
        torch.testing.assert_close(compiled(x, s), model(x, s))


def test_many_variants_are_counted_once(caplog: pytest.LogCaptureFixture):
    """What divides by a part of the size that is no integer is compiled for each."""
    compiled = torch.compile(lambda x: x.std(correction=0.5), backend="dlc", dynamic=True)
    for n in range(2, 10):
        x = torch.arange(1.0, n + 1)
        torch.testing.assert_close(compiled(x), x.std(correction=0.5))
    (record,) = (r for r in caplog.records if r.name == "dlc.compile")
    assert "compiled 5 times" in record.message


def gradients(function: Callable[..., Any], *args: torch.Tensor) -> list[torch.Tensor]:
    """The sum of results of a function, and its gradients."""
    own = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
    total = function(*own).pow(2).sum()
    wanted = [arg for arg in own if arg.requires_grad]
    return [total, *torch.autograd.grad(total, wanted)]


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_are_eagers(dynamic: bool | None):
    def function(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2)
        return F.gelu(x @ w) + F.softmax(x, -1).sum() + y.t()

    compiled, w = torch.compile(function, backend="dlc", dynamic=dynamic), torch.randn(3, 4)
    for n in (4, 5):
        args = torch.randn(n, 3, requires_grad=True), w.requires_grad_(), torch.randn(4, n)
        mine, eagers = gradients(compiled, *args), gradients(function, *args)
        torch.testing.assert_close(mine, eagers, rtol=1e-4, atol=1e-4)


def test_a_module_learns():
    x, y = torch.randn(8, 16), torch.randn(8, 8)
    losses: list[list[float]] = []
    for compile_it in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
        step = torch.compile(model, backend="dlc") if compile_it else model
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        losses.append([])
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.mse_loss(step(x), y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < 0.8 * losses[0][0]


def test_views_of_arguments_keep_their_gradients():
    x = torch.randn(4, 3, requires_grad=True)
    view, product = torch.compile(lambda x: (x.view(-1), x * 2), backend="dlc")(x)
    assert view.data_ptr() == x.data_ptr()
    (view.sum() + product.sum()).backward()
    assert x.grad is not None
    assert x.grad.unique().tolist() == [3]
