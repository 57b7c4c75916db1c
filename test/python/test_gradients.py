"""Gradients of what `dlc.compile` gives: those of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dlc
from dlc.frontend.source import ImportFailure


class Tied(nn.Module):
    """Two linears of one weight, a buffer, and results of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(4, 4), nn.Linear(4, 4)
        self.up.weight = self.down.weight
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: torch.Tensor, n: int) -> dict[str, Any]:
        y = self.up(F.gelu(self.down(x))) * self.scale
        most, turned = y.argmax(-1), y.t()
        return {"y": y, "most": most, "again": y, "n": n, "view": x.view(-1), "turned": turned}


def check(program: Callable[..., torch.Tensor], *args: torch.Tensor) -> None:
    """The gradients of the sum of squares of a result are eager's."""
    wanted = [a for a in {id(a): a for a in args}.values() if a.requires_grad]
    compiled = dlc.compile(program, args, backend="host")
    for _ in range(2):
        found, expected = (
            torch.autograd.grad(f(*args).pow(2).sum(), wanted) for f in (compiled, program)
        )
        torch.testing.assert_close(found, expected)


def test_of_arguments():
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
    check(lambda x, w: F.softmax(x @ w, -1), x, w)
    check(lambda x, w: F.softmax(x @ w, -1), x.detach(), w * 2 + w)


def test_of_one_tensor_twice_and_of_its_view():
    x = torch.randn(4, requires_grad=True)
    check(lambda a, b: a * b.exp(), x, x)
    check(lambda a, b: a[1:] * b.exp(), x, x[1:])


def test_of_a_module():
    torch.manual_seed(0)
    model, x = Tied(), torch.randn(3, 4, requires_grad=True)
    compiled = dlc.compile(model, (x, 2), backend="host")
    gradients: list[Any] = []
    for call in (model, compiled):
        out = call(x, 2)
        assert out["y"].requires_grad
        assert not out["most"].requires_grad
        total = (out["y"] * out["again"]).sum() + out["view"].sum() + out["turned"][0].sum()
        gradients.append(torch.autograd.grad(total, [x, *model.parameters()]))
    torch.testing.assert_close(*gradients)
    with torch.no_grad():
        assert not compiled(x, 2)["y"].requires_grad


def test_a_program_that_writes_has_none():
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * y

    x, y = torch.zeros(2), torch.ones(2, requires_grad=True)
    compiled = dlc.compile(step, (x, y), backend="host")
    with pytest.raises(ImportFailure, match="writes to 'x', and gradients of what it returns are"):
        compiled(x, y)
    assert x.tolist() == [0, 0]
    with torch.no_grad():
        assert compiled(x, y).tolist() == [1, 1]


def test_a_change_before_the_backward_is_an_error():
    x = torch.randn(3, requires_grad=True)
    y = x * 1
    result = dlc.compile(torch.square, (y,), backend="host")(y)
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("whole", [True, False])
def test_results_that_share_memory_share_gradients(whole: bool) -> None:
    """They are views of one result of `@main`, which need not be the user's."""

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = x @ x
        return [y[0], y[1:], y.t(), x.t()] + [y] * whole

    given = torch.randn(4, 4)
    gradients: list[torch.Tensor] = []
    for f in (program, dlc.compile(program, (given,), backend="host")):
        x = given.clone().requires_grad_()
        sum((n + 1) * (r * r).sum() for n, r in enumerate(f(x))).backward()  # pyright: ignore
        assert x.grad is not None
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)
