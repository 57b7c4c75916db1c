"""Sums of powers of e are folded with the largest exponent: the pass, and what programs give."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from test_fusion import kernels, loops, run
from torch import Tensor
from xdsl.dialects.builtin import StringAttr

import dlc
from dlc.dialects.loop import ReduceOp

INF, NAN = float("inf"), float("nan")

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "sums of powers": lambda x: torch.exp(x - x.amax(-1, keepdim=True)).sum(-1),
    "means by weights": lambda x: (torch.softmax(x, -1) * torch.tanh(x)).sum(-1),
    "times the largest": lambda x: (torch.exp(x - x.amax(-1, True)) * x.amax(-1, True)).sum(-1),
    "from behind": lambda x: torch.softmax(x.flip(-1)[..., ::2], -1),
}


def rows(columns: int) -> Tensor:
    """Rows with infinities and NaN where that matters, and with large numbers, either way up."""
    x = torch.randn(8, columns, generator=torch.Generator().manual_seed(1))
    x[1], x[2, columns // 2], x[3, columns // 3], x[4, columns // 2 :] = -INF, INF, NAN, -INF
    x[5] = torch.linspace(-1e4, 1e4, columns)
    x[6] = torch.linspace(1e4, -1e4, columns)
    x[7, : columns // 2] = INF
    return x


@pytest.mark.parametrize("columns", [1, 7, 1000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, columns: int, tmp_path: Path) -> None:
    program, x = PROGRAMS[name], rows(columns)
    module = loops(program, tuple(x.shape))
    for kernel in kernels(module):
        kernel.attributes["fuse"] = StringAttr("always")
    run(module, "fuse-loops,join-cascades")
    folds = {op.monoid_name.data for op in module.walk() if isinstance(op, ReduceOp)}
    assert folds == ({"expsum"} if columns > 1 else set())
    file = tmp_path / "joined.mlir"
    file.write_text(str(module))
    loaded = dlc.load(file, backend="host")
    exact = program(x.double())
    # Differences of numbers up to 1e4 are off by their ulp, whatever they are computed with.
    torch.testing.assert_close(loaded(x).double(), exact, rtol=2e-6, atol=1e-6, equal_nan=True)
    assert {verdict.answer for verdict in loaded.check()} == {"clean"}


def test_rows_that_no_block_holds_are_read_once_for_both() -> None:
    module = loops(PROGRAMS["softmax"], (2048, 70_001))
    remarks = run(module, "fuse-loops")
    assert any("%sum is folded with %max, in one sweep of expsum: " in text for text in remarks)
    (kernel,) = kernels(module)
    assert [op.monoid_name.data for op in kernel.walk() if isinstance(op, ReduceOp)] == ["expsum"]


def test_rows_that_stay_in_registers_are_swept_twice() -> None:
    module = loops(PROGRAMS["softmax"], (2048, 4096))
    remarks = run(module, "fuse-loops")
    assert any("%sum is swept after %max: two sweeps are estimated" in text for text in remarks)
    (kernel,) = kernels(module)
    folds = [op.monoid_name.data for op in kernel.walk() if isinstance(op, ReduceOp)]
    assert folds == ["max", "add"]


def test_explain_says_by_which_rule_and_what_it_saved() -> None:
    x = torch.empty(2048, 70_001, device="meta")
    compiled = dlc.compile(PROGRAMS["softmax"], (x,), backend="host", target="sm_90")
    said = " ".join(compiled.explain().split())
    saved = r"%sum is folded with %max, in one sweep of expsum: (\S+) us instead of (\S+) us"
    assert (found := re.search(saved, said)), said
    assert float(found[1]) < float(found[2])
