"""What eager PyTorch refuses for want of elements, or for a zero, is refused when compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dlc
from dlc.frontend.source import ImportFailure

NOTHING, COLUMNS, FOUR = torch.zeros(0), torch.zeros(3, 0), torch.arange(4)
REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "max": (lambda x: x.max(), NOTHING),
    "min of integers": (lambda x: x.min(), NOTHING.long()),
    "max.dim": (lambda x: x.max(1)[0], COLUMNS),
    "min.dim": (lambda x: x.min(dim=-1, keepdim=True), COLUMNS),
    "computed": (lambda x: (x.float() + 1)[:0].max(), FOUR),
    "floor_divide": (lambda x: x // 0, FOUR),
    "remainder": (lambda x: x % 0, FOUR),
    "fmod": (lambda x: torch.fmod(x, 0), FOUR),
    "div": (lambda x: torch.div(x, 0, rounding_mode="trunc"), FOUR),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_raises_as_eager_does(name: str) -> None:
    program, x = REFUSED[name]
    with pytest.raises((IndexError, RuntimeError)) as eager:
        program(x)
    with pytest.raises(eager.type, match=r"reduction dim|divided by other than 0") as ours:
        dlc.compile(program, (x,), backend="host")
    assert isinstance(ours.value, ImportFailure)
    assert ours.value.place is not None
    assert ours.value.place.file == __file__
    if str(eager.value) == "ZeroDivisionError":
        assert isinstance(ours.value, ZeroDivisionError)


@pytest.mark.parametrize("name", ["argmax", "argmin", "amax", "amin", "aminmax"])
def test_export_refuses_the_others(name: str) -> None:
    with pytest.raises(ImportFailure, match=r"zero-size|to be specified"):
        dlc.compile(lambda x: getattr(x, name)(), (NOTHING,), backend="host")


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.sum(),
        lambda x: x.prod(0),
        lambda x: x.logsumexp(0),
        lambda x: x.sort()[0],
        lambda x: x.view(0, 3).max(1)[0],
        lambda x: x.long() // 0,
        lambda x: (x.sum() + torch.ones(2)) // 0,
    ],
)
def test_what_eager_computes_of_nothing_is_computed(program: Callable[..., torch.Tensor]) -> None:
    found = dlc.compile(program, (NOTHING,), backend="host")(NOTHING)
    torch.testing.assert_close(found, program(NOTHING))
