"""Squared distances from a mean are folded with the sum that it is made of: what programs give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_fusion import kernels, loops, run
from test_mutants import ending_in_one
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, StringAttr

import dlc
from dlc.dialects.loop import ReduceOp
from dlc.judge.accuracy import compare

INF, NAN = float("inf"), float("nan")


def mean_and_std(x: Tensor) -> Tensor:
    """Their sum, or the mean where the deviation is no number."""
    deviation = x.std(-1, correction=0)
    return x.mean(-1) + torch.where(deviation > 0, deviation, 0.0)


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "var": lambda x: x.var(-1),
    "mean and std": mean_and_std,
    "by hand": lambda x: ((x.mean(-1, keepdim=True) - x) ** 2).sum(-1),
    "of what is computed": lambda x: torch.var(torch.sigmoid(x) * 3, -1, correction=0),
    "from behind": lambda x: x.flip(-1)[..., ::2].var(-1, correction=0),
}


def folds(module: ModuleOp) -> list[str]:
    return [op.monoid_name.data for op in module.walk() if isinstance(op, ReduceOp)]


def joined(program: Callable[[Tensor], Tensor], shape: tuple[int, ...], file: Path) -> ModuleOp:
    """A program in one kernel, its moments joined, in a file."""
    module = loops(program, shape)
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    run(module, "fuse-loops,join-cascades")
    file.write_text(str(module))
    return module


@pytest.mark.parametrize("columns", [2, 7, 1000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, columns: int, tmp_path: Path) -> None:
    program, x = PROGRAMS[name], torch.randn(9, columns, generator=torch.Generator().manual_seed(1))
    x[1], x[2, columns // 2], x[3, 0], x[4] = 3.5, INF, -INF, 1e25
    x[5] = torch.linspace(-1e4, 1e4, columns)
    x[6, columns // 2], x[7, 0] = NAN, NAN
    x[8, 0] = 0
    module = joined(program, tuple(x.shape), tmp_path / "joined.mlir")
    if columns > 2:
        assert folds(module) == ["moments"]
    loaded = dlc.load(tmp_path / "joined.mlir", backend="host")
    exact = program(x.double())
    torch.testing.assert_close(loaded(x).double(), exact, rtol=3e-6, atol=2e-6, equal_nan=True)
    assert {verdict.answer for verdict in loaded.check()} == {"clean"}


@pytest.mark.parametrize("first", [1e4, 0.0])
@pytest.mark.parametrize("name", ["layer norm", "var", "mean and std"])
def test_a_mean_far_from_zero_costs_no_accuracy(name: str, first: float, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    x = torch.randn(4, 5000, generator=torch.Generator().manual_seed(1)) + 1e4
    x[:, 0] = first
    joined(program, tuple(x.shape), tmp_path / "joined.mlir")
    found = dlc.load(tmp_path / "joined.mlir", backend="host")(x)
    judged = compare(found, program(x.double()), program(x), x.shape[-1])
    assert judged.ok, judged


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_blocks_share_what_is_folded(offset: float) -> None:
    x = torch.randn(131, 301, generator=torch.Generator().manual_seed(0)) + offset
    apart = dlc.compile(torch.std_mean, (x,), backend="host", target="sm_80")  # has no clusters
    kernel, *_ = apart.kernels
    in_one = apart.with_schedule({kernel.name: ending_in_one(kernel.schedule)})
    assert "combine=last" in in_one.kernels[0].schedule
    for program in (apart, in_one):
        assert {verdict.answer for verdict in program.check()} == {"clean"}
        for found, exact, eager in zip(
            program(x), torch.std_mean(x.double()), torch.std_mean(x), strict=True
        ):
            judged = compare(found, exact, eager, x.numel())
            assert judged.ok, judged


def test_planes_are_read_once_for_both_moments() -> None:
    """Those that no cluster holds: it would read them once for all that is done."""
    module = loops(lambda x: F.layer_norm(x, (64, 128, 128)), (16, 64, 128, 128))
    remarks = run(module, "fuse-loops")
    assert any(
        "%squares is folded with %sum, in one sweep of moments: " in text for text in remarks
    )
    first, second = kernels(module)
    assert folds(module) == ["moments"]
    assert [len(kernel.results) for kernel in (first, second)] == [2, 1]


def test_rows_that_stay_in_registers_are_swept_twice() -> None:
    module = loops(PROGRAMS["layer norm"], (2048, 4096))
    run(module, "fuse-loops")
    assert folds(module) == ["add", "add"]
