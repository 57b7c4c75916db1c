"""Objects that are looked up at once: names, attributes, items, and the tensors of modules."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import dlc
from dlc.frontend.state.lookup import Lookup

ONE, OTHER = object(), object()


def names() -> dict[str, Any]:
    return {"a": ONE, "b": ONE}


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another object": lambda space: space.update(a=OTHER),
    "a name that was bound": lambda space: space.pop("b"),
    "a name that was not bound": lambda space: space.update(c=ONE),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("of_class", [False, True])
def test_names(change: Callable[[dict[str, Any]], object], of_class: bool) -> None:
    space = names()
    kind: Any = type("Kind", (), names())
    lookup = Lookup()
    for name in ("a", "b", "c"):
        lookup.add(kind if of_class else space, name)
    are_same = lookup.close()
    assert are_same()
    change(space)
    for name in ("a", "b", "c"):
        if name in space:
            setattr(kind, name, space[name])
        elif name in vars(kind):
            delattr(kind, name)
    assert not are_same()


def test_attributes_and_results() -> None:
    owner, numbers = SimpleNamespace(a=ONE, b=ONE), [1]
    lookup = Lookup()
    lookup.add_attribute(owner, "a")
    lookup.add_attribute(owner, "b")
    lookup.add_result(len, numbers)
    are_same = lookup.close()
    owner.c = OTHER
    assert are_same()
    numbers.append(2)
    assert not are_same()
    numbers.pop()
    assert are_same()
    del owner.b
    assert not are_same()


@pytest.mark.parametrize("place", [0, 1], ids=["first", "last"])
@pytest.mark.parametrize("change", [lambda d: d.update(b=ONE), dict.clear], ids=["more", "fewer"])
def test_items(change: Callable[[dict[str, Any]], object], place: int) -> None:
    spaces = [{"a": ONE}, {"a": ONE}]
    lookup = Lookup()
    for space in spaces:
        lookup.add_items(dict.values, space)
    are_same = lookup.close()
    assert are_same()
    change(spaces[place])
    assert not are_same()


def test_what_is_not_there_is_not_the_same() -> None:
    lookup = Lookup()
    lookup.add_attribute(SimpleNamespace(), "a")
    assert not lookup.close()()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.register_buffer("shift", torch.ones(4))
        self.plain = torch.ones(4)

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        y = self.b(self.a(x)) + self.shift + self.plain
        return y if scale is None else y * scale


def _untie(module: Tied) -> None:
    module.b.weight = nn.Parameter(torch.randn(4, 4))


def _move(module: Tied) -> None:
    module.a.weight.data = torch.randn(8)[1:].new_zeros(16).view(4, 4) + 2


def _transpose(module: Tied) -> None:
    module.a.weight.data = torch.randn(4, 4).t()


def _widen(module: Tied) -> None:
    module.double()


def _shadow(module: Tied) -> None:
    vars(module)["shift"] = torch.full((4,), 5.0)


TENSORS: dict[str, Callable[[Tied], object]] = {
    "nothing": lambda module: None,
    "in place": lambda module: module.a.weight.detach().mul_(3),
    "moved": _move,
    "transposed": _transpose,
    "other types": _widen,
    "untied": _untie,
    "replaced": lambda module: module.register_buffer("shift", torch.zeros(4)),
    "replaced plain": lambda module: setattr(module, "plain", torch.zeros(4)),
    "shadowed": _shadow,
}


@pytest.mark.parametrize("change", TENSORS.values(), ids=TENSORS)
@torch.no_grad()
def test_tensors_of_modules(change: Callable[[Tied], object]) -> None:
    """A call computes with the tensors that modules have now, after calls with others."""
    torch.manual_seed(1)
    module = Tied()
    x = torch.randn(3, 4)
    f = dlc.compile(module, (x,), backend="host")
    for _ in range(2):
        torch.testing.assert_close(f(x), module(x))
    change(module)
    x = x.to(module.a.weight.dtype)
    for _ in range(2):
        torch.testing.assert_close(f(x), module(x))
    scale = torch.full((4,), 2.0, dtype=x.dtype)
    torch.testing.assert_close(f(x=x, scale=scale), module(x, scale))
    torch.testing.assert_close(f(x, scale=scale), module(x, scale))


@torch.no_grad()
def test_tensors_whose_memory_holds_negatives() -> None:
    """They are copied at each call."""

    class Imaginary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pairs = torch.randn(4, dtype=torch.complex64)
            self.part = self.pairs.conj().imag

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.part

    module, x = Imaginary(), torch.randn(4)
    f = dlc.compile(module, (x,), backend="host")
    torch.testing.assert_close(f(x), module(x))
    module.pairs.mul_(2)
    torch.testing.assert_close(f(x), module(x))
