"""Random programs that return arguments, buffers, views and structures give what eager gives."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from fuzzing.results import Outcome, Returning, complaint, random_returning, shrunk

import dlc


@pytest.mark.parametrize("seed", range(6))
def test_some_programs(seed: int) -> None:
    warnings.simplefilter("ignore")
    program = random_returning(random.Random(f"results:{seed}"))
    assert complaint(program) == "", program.text


def test_the_same_seed_gives_the_same_program() -> None:
    programs = [random_returning(random.Random(f"results:{seed}")) for seed in (1, 1, 2)]
    assert programs[0] == programs[1] != programs[2]


def _outcome(of_arguments: list[torch.Tensor], results: object) -> Outcome:
    return Outcome.of(torch.nn.Module(), tuple(of_arguments), results)


def test_every_difference_is_seen() -> None:
    x = torch.arange(4.0)
    right = _outcome([x], (x, x + 1, None))
    assert not right.difference(_outcome([x], (x, x + 1, None)))
    assert "share" in right.difference(_outcome([x], (x.clone(), x + 1, None)))
    assert "objects" in right.difference(_outcome([x], (x.detach(), x + 1, None)))
    assert "leaf 2" in right.difference(_outcome([x], (x, x + 2, None)))
    assert "leaf 3" in right.difference(_outcome([x], (x, x + 1, 1)))
    assert "structure" in right.difference(_outcome([x], [x, x + 1, None]))
    spread = torch.stack([x, x], 1)[:, 0]
    assert "leaf 1" in _outcome([x], x + 0).difference(_outcome([x], spread))


def test_what_fails_is_made_small() -> None:
    program = Returning((("x0", (4,)),), (), ("v0 = x0 + 1", "x0.add_(1)", "v1 = x0 * 2"), "x0")
    assert shrunk(program, lambda p: "x0.add_(1)" in p.statements).statements == ("x0.add_(1)",)


@pytest.mark.parametrize("fill", [0.0, torch.tensor(2.0)])
def test_a_filled_view_lies_as_it_did(fill: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        y = torch.where(x > 0, x, -x)
        return y.t().masked_fill_((x > 1).t(), fill), y

    x = torch.randn(4, 3)
    found, eager = dlc.compile(function, (x,), backend="host")(x), function(x)
    for ours, theirs in zip(found, eager, strict=True):
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()
    assert found[0].data_ptr() == found[1].data_ptr()


VIEWS_OF_ALL = (
    lambda x: (x, x.detach()),
    lambda x: x.view(3, 4),
    lambda x: (x[:], x.contiguous(), x.t().t()),
    lambda x: (x.add_(1), x.expand(3, 4)),
    lambda x: (y := x + 1, y.detach(), y.view(3, 4), y),
)


@pytest.mark.parametrize("way", ["dlc", "torch.compile"])
@pytest.mark.parametrize("function", VIEWS_OF_ALL)
def test_a_view_of_all_is_another_object(function: Any, way: str) -> None:
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    eager, given = x.clone(), x.clone()
    expected = _outcome([eager], function(eager))
    if way == "dlc":
        compiled: Any = dlc.compile(function, (x,), backend="host")
    else:
        compiled = torch.compile(function, backend="dlc")
    assert not expected.difference(_outcome([given], compiled(given)))


def test_what_follows_a_graph_changes_no_argument() -> None:
    def gradient(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        leaf = w.detach().requires_grad_()
        return torch.autograd.grad((leaf * x).sum(), leaf)[0]

    torch._dynamo.reset()
    w, x = torch.randn(3), torch.randn(3)
    assert torch.equal(torch.compile(gradient, backend="dlc")(w, x), x)
    assert not w.requires_grad
