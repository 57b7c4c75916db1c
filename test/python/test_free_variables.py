"""Globals, closures and gradients' modes that a program reads are those of the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from dlc.frontend.source import ImportFailure

X = torch.arange(6.0).view(2, 3)
SCALE, SHAPE = 2.0, (3, 2)
SHIFT = torch.ones(3)
LAYER = nn.Linear(3, 3)
OPTIONS = {"negate": False}
COUNT = 0


def helper(x: torch.Tensor) -> torch.Tensor:
    x = -x if OPTIONS["negate"] else x
    return x * SCALE


class Reading(nn.Module):
    def part(self, x: torch.Tensor) -> torch.Tensor:
        return (helper(x) + SHIFT).reshape(SHAPE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


def reading(x: torch.Tensor) -> torch.Tensor:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return LAYER(helper(x))

    return (inner(x) + SHIFT).reshape(SHAPE)


@pytest.mark.parametrize("program", [Reading(), reading])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCALE", 3.0),
        ("SHAPE", (1, 6)),
        ("OPTIONS", {"negate": True}),
        ("helper", lambda x: x - SCALE),
    ],
)
def test_globals_are_followed(
    program: Callable[..., Any], name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = dlc.compile(program, (X,), backend="host")
    monkeypatch.setitem(globals(), name, value)
    torch.testing.assert_close(compiled(X), program(X))
    monkeypatch.undo()
    torch.testing.assert_close(compiled(X), program(X))
    assert len(compiled.variants) == 2


def test_what_is_in_a_global_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = dlc.compile(reading, (X,), backend="host")
    monkeypatch.setitem(OPTIONS, "negate", True)
    torch.testing.assert_close(compiled(X), reading(X))


def test_modules_and_tensors_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = dlc.compile(reading, (X,), backend="host")
    monkeypatch.setitem(globals(), "SHIFT", torch.full((3,), 5.0))
    torch.testing.assert_close(compiled(X), reading(X))
    assert len(compiled.variants) == 1
    monkeypatch.setitem(globals(), "LAYER", nn.Linear(3, 3))
    torch.testing.assert_close(compiled(X), reading(X))
    assert len(compiled.variants) == 2


def test_closures_are_followed() -> None:
    factor, bias = 2.0, torch.ones(3)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * factor + bias

    compiled = dlc.compile(program, (X,), backend="host")
    factor = 3.0
    torch.testing.assert_close(compiled(X), program(X))
    bias = torch.zeros(3)
    torch.testing.assert_close(compiled(X), program(X))
    assert len(compiled.variants) == 2


def test_a_backward_is_that_of_its_forward() -> None:
    factor, weight = 2.0, torch.full((3,), 7.0)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * factor * weight

    compiled = dlc.compile(program, (X,), backend="host")
    x = X.clone().requires_grad_()
    result = compiled(x)
    factor, weight = 3.0, torch.zeros(3)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(X, 14.0))
    assert (factor, weight.sum()) == (3.0, 0.0)


def test_a_count_in_a_variable_is_refused() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        global COUNT
        COUNT += 1
        return x + COUNT

    with pytest.raises(ImportFailure, match=r"changes the variable 'COUNT', .* from 0 to 1"):
        dlc.compile(program, (X,), backend="host")


def asking(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    h = x * 2
    if torch.is_grad_enabled() and h.requires_grad:
        return h + y
    with torch.no_grad():
        k = h - y
        k = k * 7 if torch.is_grad_enabled() else k
    return k * 3 if torch.is_grad_enabled() else k


def test_questions_for_gradients_are_answered(tmp_path: Path) -> None:
    compiled = dlc.compile(asking, (X, X + 1), backend="host")
    for enabled in (True, False):
        for requires in (True, False):
            given = X.clone().requires_grad_(requires), X + 1
            with torch.set_grad_enabled(enabled):
                result, known = compiled(*given), asking(*given)
            torch.testing.assert_close(result, known)
            assert result.requires_grad == known.requires_grad
    assert len(compiled.variants) == 4
    compiled.save(tmp_path / "program.dlc")
    loaded = dlc.load_program(tmp_path / "program.dlc", backend="host")
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            torch.testing.assert_close(loaded(X, X + 1), asking(X, X + 1))


def test_who_does_not_ask_has_one_variant() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    compiled = dlc.compile(layer, (x,), backend="host")
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            compiled(x)
    assert len(compiled.variants) == 1
    assert "requires_grad" not in vars(torch.Tensor)
