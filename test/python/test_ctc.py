"""The lengths and options of the CTC loss that eager PyTorch refuses, and sequences of no time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan
from torch.nn import functional as F

import dlc
from dlc.backend import LaunchError
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.questions import Questions

CLASSES = torch.arange(7 * 3 * 5).reshape(7, 3, 5).sin().log_softmax(-1)
TARGETS = torch.tensor([[1, 2, 3, 3], [3, 1, 1, 3], [1, 3, 3, 1]])
GIVEN, LENGTHS = torch.tensor([7, 6, 5]), torch.tensor([2, 4, 3])


def losses(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor, m: torch.Tensor) -> Any:
    plain = F.ctc_loss(x, y, n, m, reduction="none")
    return plain, F.ctc_loss(x, y, n, m, reduction="sum", zero_infinity=True)


@pytest.fixture(scope="module")
def compiled() -> Any:
    return dlc.compile(losses, (CLASSES, TARGETS, GIVEN, LENGTHS), backend="host")


def test_without_time_an_empty_target_is_certain_and_others_impossible(compiled: Any) -> None:
    lengths = torch.tensor([0, 0, 7]), torch.tensor([0, 2, 0])
    plain, total = compiled(CLASSES, TARGETS, *lengths)
    blanks = CLASSES[:, 2, 0].double().sum().neg().float()
    torch.testing.assert_close(
        plain, torch.stack([torch.tensor(0.0), torch.tensor(torch.inf), blanks])
    )
    torch.testing.assert_close(total, blanks)


@pytest.mark.parametrize("wrong", [-1, 8])
def test_lengths_in_tensors_are_bounded_at_launch(compiled: Any, wrong: int) -> None:
    with pytest.raises(LaunchError, match=f"from 0 to 7, found {wrong}"):
        compiled(CLASSES, TARGETS, torch.tensor([7, wrong, 5]), LENGTHS)
    with pytest.raises(LaunchError, match=f"from 0 to 4, found {wrong}"):
        compiled(CLASSES, TARGETS, GIVEN, torch.tensor([2, wrong, 3]))


@pytest.mark.parametrize(
    ("lengths", "options", "says"),
    [
        (((7, 8, 5), (2, 4, 3)), {}, "input_lengths to have value at most 7"),
        (((7, 6, 5), (2, 5, 3)), {}, "at least 5 at dimension 1"),
        (((7, 6, 5), (2, -1, 3)), {}, "target_lengths to have value at least 0"),
        ((GIVEN, LENGTHS), {"blank": 5}, "blank must be in label range"),
        ((GIVEN, LENGTHS), {"reduction": "all"}, "all is not a valid value for reduction"),
        ((GIVEN, LENGTHS[:2]), {}, "target_lengths must be of size batch_size"),
    ],
)
def test_what_is_known_is_refused_at_import(
    lengths: tuple[Any, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises((RuntimeError, ValueError), match=says):
        F.ctc_loss(CLASSES, TARGETS, *lengths, **options)
    with pytest.raises(ImportFailure, match=says):
        dlc.compile(lambda x, y: F.ctc_loss(x, y, *lengths, **options), (CLASSES, TARGETS))


def test_targets_in_a_row_are_as_many_as_their_lengths() -> None:
    lengths: Any = (7, 6, 5), (2, 4, 3)
    with pytest.raises(ImportFailure, match="size 9 at dimension 0, but got size 8"):
        dlc.compile(lambda x, y: F.ctc_loss(x, y, *lengths), (CLASSES, TARGETS.flatten()[:8]))


def test_flags_that_a_loop_asks_for_are_noted() -> None:
    def step(a: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = a + x if torch.are_deterministic_algorithms_enabled() else a - x
        return a, a.clone()

    def program(x: torch.Tensor) -> torch.Tensor:
        return scan(step, x[0], x)[1]

    with Questions() as questions:
        program(CLASSES)
    assert "are_deterministic_algorithms_enabled" in questions.asked
