"""What depends on constants alone is no kernel, and no kernel does nothing but move a weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dlc


def launches(program: Callable[..., Any], *args: torch.Tensor) -> list[tuple[set[str], list[str]]]:
    """Of each launch, the names of the program's tensors that it reads, and its operations."""
    with torch.no_grad():
        variant = dlc.compile(program, args, backend="host").variants[0]
    arguments = variant.program.arguments
    return [
        (
            {arguments[n].name if n < len(arguments) else f"%{n}" for n in launch.inputs},
            [text.partition(" ")[2] for text in launch.ops],
        )
        for launch in variant.executor.program.launches
    ]


class Weights(torch.nn.Module):
    """(N, K) weights, one of them tied to the embedding, and all ways to transpose a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 32)
        self.linear = torch.nn.Linear(32, 32)
        self.head = torch.nn.Linear(32, 50, bias=False)
        self.head.weight = self.table.weight
        self.strided = torch.nn.Parameter(torch.randn(32, 32).t())
        self.square = torch.nn.Parameter(torch.randn(32, 32))

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        x = self.linear(self.table(i)) @ self.strided @ self.square.t()
        x = x @ self.square.T.contiguous() + torch.einsum("bij,kj->bik", x, self.square)
        return self.head(x)


def test_weights_are_read_where_they_lie() -> None:
    found = launches(Weights(), torch.randint(0, 50, (4, 7)))
    names = {n for read, _ in found for n in read if n != "i" and not n.startswith("%")}
    assert len(names) == 5, "the tied weight is one"
    for read, ops in found:
        assert read - names, f"a kernel reads weights alone: {ops}"
    # One kernel a product at most: nothing is copied on the way.
    assert len(found) <= 6


def rotary(x: torch.Tensor) -> torch.Tensor:
    rates = 1.0 / (10000 ** (torch.arange(0, 32, 2).float() / 32))
    angles = torch.outer(torch.arange(x.shape[-2]).float(), rates)
    angles = torch.cat([angles, angles], -1)
    turned = torch.cat([-x[..., 16:], x[..., :16]], -1)
    return x * angles.cos() + turned * angles.sin()


@pytest.mark.parametrize(
    ("program", "shape"),
    [
        (lambda x: x + (torch.arange(10) * 2 + torch.ones(10)), (10,)),
        (lambda x: x.masked_fill(torch.tril(torch.ones(9, 9)) == 0, -torch.inf), (2, 9, 9)),
        (lambda x: x * (torch.full((4,), 2.0) * 3).sum(), (5, 4)),
        (rotary, (2, 8, 32)),
    ],
    ids=["arange", "causal mask", "sum", "rotary"],
)
def test_tables_cost_no_kernel(program: Callable[..., Any], shape: tuple[int, ...]) -> None:
    (only,) = launches(program, torch.randn(shape))
    assert only[0] == {"x"}
