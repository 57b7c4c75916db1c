"""Numbers, strings and flags that modules hold are those of the call."""

from __future__ import annotations

import enum
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from dlc.frontend.imported import ImportedProgram
from dlc.frontend.source import ImportFailure


class Mode(enum.Enum):
    SUM = "sum"
    PRODUCT = "product"


class Inner(nn.Module):
    unit = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.mode = Mode.SUM
        self.axes = (0, 1)
        self.label: str | None = None
        self.unread = 7

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale if self.mode is Mode.SUM else x**self.scale
        x = x.permute(*self.axes) + self.unit
        return x if self.label is None else x * len(self.label)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.unregistered = [Inner()]
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.inner(x)) + self.unregistered[0](x)


X = torch.arange(1.0, 10.0).view(3, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("scale", 3.0), ("mode", Mode.PRODUCT), ("axes", (1, 0)), ("label", "abc"), ("unit", 5)],
)
@pytest.mark.parametrize("registered", [True, False])
def test_changes_are_followed(name: str, value: Any, registered: bool) -> None:
    m = Outer().eval()
    inner = m.inner if registered else m.unregistered[0]
    f = dlc.compile(m, (X,), backend="host")
    before = m(X)
    own = getattr(inner, name)
    setattr(inner, name, value)
    torch.testing.assert_close(f(X), m(X))
    assert not torch.equal(m(X), before)
    setattr(inner, name, own)
    torch.testing.assert_close(f(X), before)
    assert len(f.variants) == 2
    inner.unread = 8
    torch.testing.assert_close(f(X), before)
    assert len(f.variants) == 2


def test_modules_of_a_function_are_followed() -> None:
    m = Inner()
    f = dlc.compile(lambda x: m(x).relu(), (X,), backend="host")
    m.scale = -1.0
    torch.testing.assert_close(f(X), m(X).relu())


def test_a_type_is_a_change() -> None:
    """`x * 2` and `x * 2.0` differ where x holds integers."""
    m, i = Inner(), torch.arange(9).view(3, 3)
    m.scale, m.unit = 2, 0
    f = dlc.compile(m, (i,), backend="host")
    m.scale = 2.0
    assert f(i).dtype == m(i).dtype == torch.float32


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x + self.n


def test_a_count_in_an_attribute_is_refused() -> None:
    with pytest.raises(ImportFailure, match=r"changes the attribute 'n' of a Counter, .* 0 to 1"):
        dlc.compile(Counter(), (X,), backend="host")


def test_a_count_under_torch_compile_counts() -> None:
    m, eager = Counter(), Counter()
    f = torch.compile(m, backend="dlc")
    for _ in range(3):
        torch.testing.assert_close(f(X), eager(X))
    assert m.n == eager.n


def test_modules_are_left_as_they_were() -> None:
    dlc.compile(nn.Softmax(-1), (X,), backend="host")
    assert "__getattribute__" not in vars(nn.Module)


def test_what_every_module_has_is_not_guarded() -> None:
    f = dlc.compile(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), (X,), backend="host")
    program: ImportedProgram = f.variants[0].program
    names = {name for _, name, _ in program.attributes.read.values()}
    assert names - {"training"} == {"normalized_shape", "eps"}
