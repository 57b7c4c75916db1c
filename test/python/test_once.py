"""What is computed of frozen parameters alone is computed once, and right at every call."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import parse
from torch import nn
from xdsl.utils.exceptions import VerifyException

import dlc

X = torch.randn(4, 8, 24, 24)


def convolution() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(16))


def compiled(module: Callable[..., Any], *args: Any) -> dlc.CompiledProgram:
    return dlc.compile(module, args, target="sm_90", backend="host", freeze=True)


def launched(program: dlc.CompiledProgram, *args: Any) -> list[str]:
    """The kernels that a call launches."""
    names: list[str] = []
    variant, bound = program.prepared(args)
    variant.run(bound, lambda kernel, _: names.append(kernel.name_))
    return names


def test_weights_are_laid_out_at_the_first_call() -> None:
    module = convolution().eval()
    program = compiled(module, X)
    calls = [launched(program, X) for _ in range(3)]
    assert calls[1] == calls[2] == [name for name in calls[0] if "packed" not in name]
    assert len(calls[0]) == len(calls[1]) + 1
    assert re.search("^operand_packed +once ", program.explain(), re.MULTILINE)
    assert f"launched {len(calls[1])} time" in program.explain()
    sizes = program.memory
    assert (sizes.kept, sizes.results) == (16 * 8 * 3 * 3 * 4, 4 * 16 * 24 * 24 * 4)


def test_what_takes_the_place_of_a_weight_is_seen() -> None:
    module = convolution().eval().requires_grad_(False)
    program, weight = compiled(module, X), module.get_parameter("0.weight")

    def replaced() -> None:
        weight.data = torch.randn_like(weight)

    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: weight.mul_(2),
        replaced,
        lambda: module.load_state_dict(convolution().state_dict()),
        lambda: module.requires_grad_(True),
    ]
    for change in changes:
        change()
        for _ in range(2):
            torch.testing.assert_close(program(X), module(X))


def test_what_the_program_writes_is_not_frozen() -> None:
    module, own = convolution().train(), convolution().train()
    program = compiled(module, X)
    for _ in range(3):
        torch.testing.assert_close(program(X), own(X))
    torch.testing.assert_close(module.state_dict(), own.state_dict())


def test_what_calls_read_is_kept_alone() -> None:
    w = torch.randn(64, 64)
    program = compiled(lambda x: x @ w.softmax(0).cumsum(1), torch.randn(4, 64))
    bound = program.variants[0].executor.program
    assert len(bound.made_once) > len(bound.kept) == 1
    assert program.memory.kept == w.nbytes


class Counting(nn.Module):
    """Squares a buffer that it counts in."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.seen, torch.Tensor)
        squares = (self.seen * self.seen).cumsum(0) / 64
        self.seen.add_(1)
        return x @ squares.view(8, 8)


def test_a_buffer_that_is_counted_in() -> None:
    module, own, x = Counting(), Counting(), torch.randn(4, 8)
    program = compiled(module, x)
    for _ in range(3):
        torch.testing.assert_close(program(x), own(x))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: w.softmax(0) @ w,  # of no input, and returned
        lambda x, w: (x @ w.softmax(0).cumsum(1), w.softmax(0).cumsum(1)),
        lambda x, w: torch.cond(x.sum() > 0, lambda v: v @ v, lambda v: v + 1, (w.cumsum(0),)),
        lambda x, w: x @ w.cumsum(0).cumsum(1).add_(x[0]),
    ],
)
def test_programs(program: Callable[..., Any]) -> None:
    w = torch.randn(8, 8)

    def f(x: torch.Tensor) -> Any:
        return program(x, w)

    x = torch.randn(4, 8)
    own = compiled(f, x)
    for x in (x, -x, torch.randn(4, 8)):
        torch.testing.assert_close(own(x), f(x))


def test_copies_files_and_texts(tmp_path: Path) -> None:
    module = convolution().eval()
    program, path = compiled(module, X), tmp_path / "p.dlc"
    expected = program(X).detach()
    program.save(path)
    text = tmp_path / "k.mlir"
    text.write_text(program.ir("kernel"))
    assert "once}" in text.read_text()
    loaded = dlc.load(text, backend="host")
    names = {name: t for name, t in (*module.named_parameters(), *module.named_buffers())}
    given = {name: names.get(name, X).detach() for name in loaded.names}
    for _ in range(2):
        torch.testing.assert_close(dlc.load_program(path)(X), expected)
        torch.testing.assert_close(loaded(**given), expected)
    again = pickle.loads(pickle.dumps(compiled(F.relu, X)))
    assert again.options.freeze


def test_of_any_size() -> None:
    module = convolution().eval()
    size = torch.export.Dim("b", min=2, max=64)
    program = dlc.compile(module, (X,), backend="host", freeze=True, dynamic_shapes=({0: size},))
    for x in (X, torch.randn(7, 8, 24, 24), X):
        torch.testing.assert_close(program(x), module(x))


def test_only_what_is_the_same_is_kept() -> None:
    text = compiled(convolution().eval(), X).ir("kernel")
    for old, new, what in (
        (", dlc.frozen", "", "to be the same at all calls"),
        ('"parameter"', '"input"', "to be the same at all calls"),
    ):
        assert old in text
        with pytest.raises(VerifyException, match=what):
            parse(text.replace(old, new)).verify()
