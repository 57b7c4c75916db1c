"""Sorting by merges, and what is found by order, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensor_ir_interpreter as interpreter
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from xdsl.context import Context

from dlc.frontend.export.fx import import_program
from dlc.transforms.tensor.decompose_torch import DecomposeTorchPass
from dlc.transforms.tensor.decompositions import DECOMPOSITIONS, ordering

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.fixture(params=[3, 1000], ids=["merged", "counted"])
def short_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of so many elements at most are ordered without a merge."""
    monkeypatch.setattr(ordering, "LEAST_RUN", request.param)
    monkeypatch.setattr(ordering, "COUNTED", 0)


def check(function: Callable[..., Any], *args: Tensor) -> None:
    """The Tensor IR of a program gives what eager PyTorch does, bit for bit but for NaN."""
    program = import_program(function, args, whole=DECOMPOSITIONS)
    DecomposeTorchPass().apply(Context(), program.module)
    found = interpreter.run(program.module, program.bind(args))
    for ours, own in zip(found, tree_leaves(function(*args)), strict=True):
        ours = ours.view(own.dtype) if own.dtype is torch.uint8 else ours
        torch.testing.assert_close(ours, own, rtol=0, atol=0, equal_nan=True)


def draw(n: int, dtype: torch.dtype, rows: int = 3) -> Tensor:
    """Few different numbers, and the unusual ones of the type."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randint(0, 5, (rows, n), generator=generator)
    if dtype.is_floating_point:
        unusual = [torch.nan, torch.inf, -torch.inf, -0.0, 0.0, -torch.nan]
    elif dtype is torch.int64:
        unusual = [LEAST, MOST, LEAST + 1, MOST - 1, 2**31, -(2**31)]
    else:
        unusual = [0, 1]
    kind = torch.randint(0, 3 * len(unusual), (rows, n), generator=generator)
    x = (x - 2).to(dtype)
    for number, value in enumerate(unusual):
        x = torch.where(kind == number, torch.tensor(value, dtype=dtype), x)
    return x


TYPES = {
    torch.float32: 100, torch.bfloat16: 13, torch.float64: 64, torch.int64: 129, torch.int32: 7,
    torch.uint8: 65, torch.bool: 24,
}  # fmt: skip


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("dtype", TYPES)
def test_sort(dtype: torch.dtype) -> None:
    x = draw(TYPES[dtype], dtype)
    check(
        lambda x: (
            torch.sort(x, dim=1, stable=True),
            torch.sort(x, dim=1, descending=True, stable=True),
            torch.sort(x[:, :5].clone(), dim=0, stable=True),
        ),
        x,
    )


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 63, 127, 1000])
def test_sort_of_lines(n: int) -> None:
    """Sorted, reversed, and all equal lines."""
    rising = torch.arange(float(n))
    check(lambda x: torch.sort(x, stable=True), torch.stack([rising, -rising, rising * 0]))


@pytest.mark.usefixtures("short_runs")
def test_first_in_order() -> None:
    x = torch.randperm(200, generator=torch.Generator().manual_seed(0)).view(2, 100).float()
    check(lambda x: (x.topk(1), x.topk(7, largest=False), x.topk(64), x.t().topk(1, 0)), x)
    check(lambda x: (x.kthvalue(1), x.kthvalue(33), x.median(1), x.nanmedian(1), x.median()), x)
    check(lambda x: torch.quantile(x, torch.tensor([0.0, 0.5, 1.0]), 1), x)
    unknown = x.masked_fill(x % 3 == 0, torch.nan)
    check(lambda x: (x.median(1), x.nanmedian(1), x.nanmedian(0)), unknown[:, 1:])
