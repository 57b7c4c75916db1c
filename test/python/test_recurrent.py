"""`nn.LSTM`, `GRU` and `RNN`: loops of the host program, whatever the length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import dlc
from dlc.cli import dlc_cli
from dlc.compiler import CompiledProgram
from dlc.dialects import host, host_flow
from dlc.frontend.source import ImportFailure
from dlc.judge.accuracy import compare
from dlc.judge.reference import evaluate
from dlc.simulator import run_module

Case = tuple[nn.Module, tuple[Any, ...]]


def made(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def weighted(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        drawn = torch.randn(parameter.shape, generator=generator) / 2
        parameter.data = drawn.to(parameter.dtype)
    return module


def unusual(*shape: int) -> torch.Tensor:
    x = made(*shape)
    x[1, 0, 0], x[2, 1, 1], x[0, 1, 0] = torch.nan, torch.inf, -torch.inf
    return x


class Reversed(nn.Module):
    """A layer whose output and states are read by others."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y, h = self.layer(x.flip(0))
        return (y.relu() + h).flip(0), self.layer(x[:2])[1] * 2


CASES: dict[str, Case] = {
    "lstm": (nn.LSTM(5, 3), (made(4, 2, 5),)),
    "lstm of all": (
        nn.LSTM(5, 4, 2, bidirectional=True, batch_first=True, proj_size=3),
        (made(2, 3, 5), (made(4, 2, 3), made(4, 2, 4))),
    ),
    "lstm without bias": (nn.LSTM(3, 4, 2, bias=False, proj_size=1), (made(3, 1, 3),)),
    "lstm unbatched": (nn.LSTM(5, 3, bidirectional=True), (made(4, 5), (made(2, 3), made(2, 3)))),
    "lstm of one step": (nn.LSTM(5, 3, 2, batch_first=True), (made(2, 1, 5),)),
    "lstm of no rows": (nn.LSTM(5, 3), (made(2, 0, 5),)),
    "lstm of one unit": (nn.LSTM(1, 1, bidirectional=True), (made(3, 1, 1),)),
    "lstm of strides": (nn.LSTM(5, 3), (made(2, 4, 5).transpose(0, 1), (made(1, 2, 3),) * 2)),
    "lstm of unusual": (nn.LSTM(5, 3, bidirectional=True), (unusual(4, 2, 5),)),
    "lstm of doubles": (nn.LSTM(5, 3).double(), (made(4, 2, 5).double(),)),
    "lstm of halves": (nn.LSTM(5, 3, 2).bfloat16(), (made(4, 2, 5).bfloat16(),)),
    "gru": (nn.GRU(5, 3, 3), (made(4, 2, 5), made(3, 2, 3))),
    "gru of both": (nn.GRU(5, 3, 2, bidirectional=True, batch_first=True), (made(2, 4, 5),)),
    "gru without bias": (nn.GRU(3, 4, bias=False), (made(3, 17, 3),)),
    "gru read": (Reversed(), (made(5, 1, 4),)),
    "rnn": (nn.RNN(5, 3, 2), (made(4, 2, 5), made(2, 2, 3))),
    "rnn of relu": (nn.RNN(5, 3, 2, "relu", bidirectional=True), (made(4, 2, 5),)),
    "rnn of unusual": (nn.RNN(5, 3, 1, "relu"), (unusual(4, 2, 5),)),
}


@cache
def compiled(name: str) -> CompiledProgram:
    module, args = CASES[name]
    return dlc.compile(weighted(module), args, backend="host")


def results(program: CompiledProgram, args: Sequence[Any]) -> list[torch.Tensor]:
    with torch.no_grad():
        return tree_leaves(program(*args))


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager(name: str) -> None:
    (module, args), program = CASES[name], compiled(name)
    bound = program.variants[0].program.tensors_of(args, {})
    assert bound is not None
    exact = evaluate(program.variants[0].program.module, bound, double=True)
    with torch.no_grad():
        eager = tree_leaves(module(*args))
    found = results(program, args)
    assert len(found) == len(exact) == len(eager)
    for own, reference, known in zip(found, exact, eager, strict=True):
        assert own.shape == known.shape
        assert own.dtype == known.dtype
        assert (verdict := compare(own, reference, known)).ok, str(verdict)
    assert all(str(verdict).endswith("is clean>") for verdict in program.check())


@pytest.mark.parametrize("name", ["lstm of all", "gru of both", "rnn of relu"])
def test_the_simulator_agrees(name: str) -> None:
    (_, args), program = CASES[name], compiled(name)
    bound = program.variants[0].program.tensors_of(args, {})
    assert bound is not None
    given = [t.detach().numpy() for t in bound]
    simulated = run_module(program.variants[0].module("kernel"), given)
    for own, known in zip(simulated, results(program, args), strict=True):
        torch.testing.assert_close(torch.as_tensor(own).reshape(known.shape), known)


def test_a_layer_is_one_loop_whatever_its_length() -> None:
    program = dlc.compile(nn.LSTM(4, 3, 2, bidirectional=True), (made(600, 2, 4),), backend="host")
    module = program.variants[0].module("kernel")
    loops = [op for op in module.walk() if isinstance(op, host_flow.ForOp)]
    assert [loop.trips for loop in loops] == [600, 600]
    for loop in loops:
        assert sum(isinstance(op, host.LaunchOp) for op in loop.walk()) <= 3
    x = made(600, 2, 4)
    for own, known in zip(results(program, (x,)), results(program, (x,)), strict=True):
        assert torch.equal(own, known)


@pytest.mark.parametrize("layer", [nn.LSTM(3, 2), nn.GRU(3, 2), nn.RNN(3, 2)])
def test_no_step_is_the_error_of_eager(layer: nn.Module) -> None:
    message = "Expected sequence length to be larger than 0 in RNN"
    with pytest.raises(RuntimeError, match=message):
        layer(made(0, 2, 3))
    with pytest.raises(ImportFailure, match=message) as raised:
        dlc.compile(layer, (made(0, 2, 3),), backend="host")
    assert isinstance(raised.value, RuntimeError)


def test_dropout_stands_between_layers() -> None:
    layer, x = weighted(nn.LSTM(3, 4, 3, dropout=0.5)), made(5, 2, 3)
    assert isinstance(layer, nn.LSTM)
    program = dlc.compile(layer, (x,), backend="host")
    y, (h, _) = _without_gradients(program, x)
    assert y.shape == (5, 2, 4)
    assert torch.equal(y[-1], h[-1])
    eager = layer.eval()
    with torch.no_grad():
        _, (known, _) = eager(x)
    # The first layer comes before all dropout.
    torch.testing.assert_close(h[0], known[0])
    assert not torch.allclose(h[1:], known[1:])
    layer.dropout = 1.0
    layer.train()
    y, _ = _without_gradients(dlc.compile(layer, (x,), backend="host"), x)
    torch.testing.assert_close(y, layer(x)[0].detach())


def _without_gradients(program: CompiledProgram, x: torch.Tensor) -> Any:
    with torch.no_grad():
        return program(x)


def test_gradients_are_those_of_eager() -> None:
    layer, x = nn.GRU(3, 4, bidirectional=True), made(5, 2, 3).requires_grad_()
    program = dlc.compile(layer, (x,), backend="host")
    wanted = (x, *layer.parameters())
    own, known = (torch.autograd.grad(f(x)[0].square().sum(), wanted) for f in (program, layer))
    for one, other in zip(own, known, strict=True):
        torch.testing.assert_close(one, other)


def test_validation_runs_loops_after_every_pass(capfd: pytest.CaptureFixture[str]) -> None:
    text = "nn.RNN(3, 2)(torch.randn(3, 2, 3))"
    assert dlc_cli.main(["compile", "-c", text, "--validate", "--ir", "tile"]) == 0
    assert "and none its results" in capfd.readouterr().err


def test_a_saved_program_has_its_loops(tmp_path: Path) -> None:
    (_, args), program = CASES["lstm of all"], compiled("lstm of all")
    program.save(tmp_path / "program.dlc")
    again = dlc.load_program(tmp_path / "program.dlc", backend="host")
    for own, known in zip(results(again, args), results(program, args), strict=True):
        assert torch.equal(own, known)


def test_dynamo_with_recurrent_layers_allowed() -> None:
    torch._dynamo.reset()
    layer, x = nn.LSTM(3, 4, 2), made(5, 2, 3)
    options = {"backend": "host", "fallback": False}
    function = torch.compile(layer, backend="dlc", options=options)
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        for own, known in zip(tree_leaves(function(x)), tree_leaves(layer(x)), strict=True):
            torch.testing.assert_close(own, known)


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_results_lie_as_in_eager(layer: type[torch.nn.Module]) -> None:
    module, x = layer(3, 4, 2, batch_first=True, bidirectional=True).eval(), torch.randn(2, 5, 3)
    with torch.no_grad():
        ours, eager = dlc.compile(module, (x,), backend="host")(x), module(x)
    assert ours[0].stride() == eager[0].stride()
    torch.testing.assert_close(ours[0], eager[0])
