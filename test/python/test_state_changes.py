"""Random changes of a program's state between its calls: each call is as in eager PyTorch."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from dlc.judge.accuracy import compare

SEQUENCES = 4
CHANGES = 4
FACTOR = 1.0


class Small(nn.Module):
    """A module that reads state of each kind."""

    shift: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner: nn.Module = nn.Linear(3, 3)
        self.scale = 2.0
        self.options = {"negate": False}
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x) * self.scale + self.shift
        y = -y if self.options["negate"] else y
        y = y + torch.full((3,), 0.5) * FACTOR
        y = y - 1 if torch.is_grad_enabled() else y
        return y.relu() if self.training else y


class State:
    """A module, and the modes and the global that its next call is made with."""

    def __init__(self) -> None:
        self.module = Small()
        self.autocast = False
        self.dtype = torch.float32
        self.gradients = True
        self.factor = 1.0

    @contextmanager
    def modes(self) -> Iterator[None]:
        global FACTOR
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        FACTOR = self.factor
        try:
            with (
                torch.autocast("cpu", torch.bfloat16, enabled=self.autocast),
                torch.set_grad_enabled(self.gradients),
            ):
                yield
        finally:
            torch.set_default_dtype(before)
            FACTOR = 1.0

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        """What the next call computes, in fp64."""
        wide = State()
        wide.module, wide.factor = copy.deepcopy(self.module).double(), self.factor
        wide.dtype, wide.gradients = torch.float64, self.gradients
        with wide.modes():
            return wide.module(x.double()).detach()


def attribute(state: State, draw: random.Random) -> None:
    state.module.scale = draw.choice([2.0, 0.5])


def item(state: State, draw: random.Random) -> None:
    state.module.options["negate"] = not state.module.options["negate"]


def train(state: State, draw: random.Random) -> None:
    state.module.train(not state.module.training)


def buffer_in_place(state: State, draw: random.Random) -> None:
    state.module.shift.add_(draw.randint(1, 3))


def buffer_rebound(state: State, draw: random.Random) -> None:
    state.module.shift = torch.full((3,), float(draw.randint(-3, 3)))


def parameter_data(state: State, draw: random.Random) -> None:
    for parameter in state.module.inner.parameters():
        parameter.data = parameter.data.clone() * draw.choice([-1.0, 0.5])


def autocast(state: State, draw: random.Random) -> None:
    state.autocast = not state.autocast


def default_dtype(state: State, draw: random.Random) -> None:
    state.dtype = draw.choice([torch.float32, torch.float64])


def grad_mode(state: State, draw: random.Random) -> None:
    state.gradients = not state.gradients


def global_number(state: State, draw: random.Random) -> None:
    state.factor = draw.choice([1.0, -2.0])


def submodule(state: State, draw: random.Random) -> None:
    state.module.inner = draw.choice([nn.Tanh, nn.Sigmoid, lambda: nn.Linear(3, 3)])()


KINDS: list[Callable[[State, random.Random], None]] = [
    attribute,
    item,
    train,
    buffer_in_place,
    buffer_rebound,
    parameter_data,
    autocast,
    default_dtype,
    grad_mode,
    global_number,
    submodule,
]


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_calls_after_changes_are_as_in_eager(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    state, x = State(), torch.randn(2, 3)
    compiled: list[Callable[..., Any]] = [dlc.compile(state.module, (x,), backend="host")]
    if seed == 0:
        torch._dynamo.reset()
        compiled.append(torch.compile(state.module, backend="dlc"))
    done: list[str] = []
    for change in [None, *draw.choices(KINDS, k=CHANGES)]:
        if change is not None:
            change(state, draw)
            done.append(change.__name__)
        with state.modes():
            expected = state.module(x)
            found = [program(x) for program in compiled]
        exact = state.exact(x)
        for result in found:
            assert result.requires_grad == expected.requires_grad, done
            assert (verdict := compare(result, exact, expected.detach())).ok, f"{verdict}, {done}"
