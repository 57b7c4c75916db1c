"""Programs that change lists, tables and sets that they are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module

import dlc
from dlc.frontend.export.fx import import_program
from dlc.frontend.source import ImportFailure


def appends(x: torch.Tensor, held: list[Any]) -> torch.Tensor:
    held.append(x * 2)
    return x + len(held)


def pops(x: torch.Tensor, held: list[Any]) -> torch.Tensor:
    return x + held.pop()


def replaces(x: torch.Tensor, held: list[Any]) -> torch.Tensor:
    held[0] = x * 3
    return held[0] + 1


def sorts(x: torch.Tensor, held: list[Any]) -> torch.Tensor:
    held.sort()
    return x * held[0]


def appends_inside(x: torch.Tensor, held: list[Any]) -> torch.Tensor:
    held[0]["k"].append(1)
    return x * 2


def adds_to_a_table(x: torch.Tensor, *, table: dict[str, Any]) -> torch.Tensor:
    table["k"] = x
    return x * 2


class Flagging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *rest: Any, flags: dict[str, int], **more: Any) -> Any:
        flags["a"] = 1
        return self.inner(x)


def hooks(function: Any) -> list[Any]:
    """The hooks of all modules, and which of them a program's own module is asked to call."""
    own = getattr(function, "_forward_pre_hooks_with_kwargs", {})
    return [*module._global_forward_pre_hooks, *module._global_forward_hooks, *own]


X = torch.randn(4)


@pytest.mark.parametrize(
    ("function", "given", "named", "said"),
    [
        (appends, [[]], {}, "its argument 'held', a list"),
        (pops, [[X]], {}, "its argument 'held', a list"),
        (replaces, [[X]], {}, "'held[0]' of its argument 'held', a list"),
        (sorts, [[2, 1]], {}, "'held[0]' of its argument 'held', a list"),
        (appends_inside, [[{"k": []}]], {}, "'held[0]['k']' of its argument 'held', a list"),
        (adds_to_a_table, [], {"table": {}}, "its argument 'table', a dict"),
        (Flagging(), [[1]], {"flags": {}, "z": {}}, "its argument 'flags', a dict"),
    ],
)
def test_what_changes_a_container_that_it_is_given_is_told(
    function: Any, given: list[Any], named: dict[str, Any], said: str
) -> None:
    with pytest.raises(ImportFailure) as error:
        dlc.compile(function, (X, *given), backend="host", kwargs=named)
    assert not hooks(function)
    assert f"error: the program changes {said}: a call of its kernels would not" in str(error.value)


def test_what_leaves_them_compiles() -> None:
    def use(x: torch.Tensor, held: list[Any], *, table: dict[str, Any]) -> Any:
        own = [*held]
        own.append(x)
        held.append(1)
        held.pop()
        return sum(own) * table["k"]

    program = import_program(use, (X, [X + 1]), {"table": {"k": 2}})
    assert len(program.guards) == 2
    assert not hooks(use)
