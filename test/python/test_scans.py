"""Running sums, products and extremes: what is merged with them, and that all of it is right."""

from __future__ import annotations

import pytest
import torch
from fuzzing.cases import Setting, complaint
from fuzzing.programs import Program, Statement

import dlc
from dlc.judge.accuracy import compare

FOLLOWED = {
    "reversed": "x.flip(1).cumsum(1).flip(1)",
    "from another start": "x.cumsum(1)[1:, 3:50] * x[1:, 3:50]",
    "the last": "x.cumsum(1)[:, -1] * 2",
    "transposed": "x.cumsum(0).t() + y.t()",
    "flat": "x.cumsum(1).reshape(-1) * 3",
    "half": "x.half().cumsum(1)",
    "of what is computed": "(x * (y > 0)).cumsum(1)",
    "of a softmax, compared": "x.softmax(1).cumsum(1) < 0.9",
    "largest": "x.cummax(1).values * 2",
    "where another axis is one": "x[:1].cumsum(1) - 1",
    "of several dimensions": "x.reshape(7, 4, 19).cumsum(1).flip(1)",
}
"""Programs that are one kernel."""
APART = {
    "of columns that are sums": "(x + x.sum(1, keepdim=True)).cumsum(0)",
    "of a scan": "x.cumsum(0).cumsum(1)",
    "summed": "x.cumsum(1).sum(1)",
    "differences": "x.cumsum(1)[:, 3:] - x.cumsum(1)[:, :-3]",
    "broadcast": "x.cumsum(1)[:, None] + y[None]",
    "of products": "(x @ y.t()).cumsum(1)",
    "gathered": "x.cumsum(1).gather(1, y.argsort(1))",
    "two readers": "torch.cat([x.cumsum(1) + 1, x.cumsum(1).exp()])",
    "both extremes": "torch.cummin(x, 1)[1] + torch.cummax(x, 0)[1]",
    "of one, and of none": "x[:, :1].cumsum(1) + x[:, :0].cumsum(1).sum()",
    "in place": "x.clone().cumsum_(1) + y",
    "of special numbers": "(x / (y > 1)).cumprod(1).logcumsumexp(0)",
    "of bits": "(x > 0).cumsum(1) + (x > 0).long().cumprod(1)",
}
SCHEDULES: dict[str, tuple[str, ...] | None] = {
    "dlc's": None,
    "a thread a row": ("tileify", "blockify-launch{block=8 thread=4}", "register-tile{extents=2}"),
    "threads": ("tileify", "cooperative-reduce{threads=8 rows=2 vector=4}", "chunk-reduce{bk=2}"),
    "rows": ("tileify", "cooperative-reduce{threads=2 rows=8 vector=3 order=rows}"),
}


def program(expression: str, shape: str = "7, 76") -> Program:
    inputs = tuple(Statement(name, f"torch.randn({shape})") for name in "xy")
    return Program(inputs, (Statement("z", expression),), ("z",))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", {**FOLLOWED, **APART})
def test_programs(name: str, schedule: str) -> None:
    text = {**FOLLOWED, **APART}[name]
    assert complaint(program(text), Setting("sm_90", SCHEDULES[schedule], None)) == ("", "")


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_follows_point_by_point_is_one_kernel(name: str) -> None:
    function = eval(f"lambda x, y: {FOLLOWED[name]}", {"torch": torch})
    compiled = dlc.compile(function, (torch.randn(7, 76), torch.randn(7, 76)), backend="host")
    assert len(compiled.kernels) == 1


def test_what_is_returned_too_is_stored() -> None:
    """Of a scan or a sort, the last one of which stores its tiles beside each other."""

    def scanned(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        prefix = x.cumsum(1)
        return prefix, prefix * 2

    def in_order(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*torch.sort(x, dim=1, stable=True),)

    x = torch.randn(3, 8192).round(decimals=2)
    for function, length, kernels in ((scanned, 76, 1), (in_order, 64, 1), (in_order, 8192, 2)):
        part = x[:, :length].contiguous()
        compiled = dlc.compile(function, (part,), backend="host")
        assert len(compiled.kernels) == kernels
        for ours, eager in zip(compiled(part), function(part), strict=True):
            torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("shape", [(1, 40000), (2, 32768 + 8192), (50001, 2)])
def test_long_rows_are_taken_in_parts(shape: tuple[int, int]) -> None:
    """The first elements of parts begin with all parts before, which are scanned, too."""
    x, dim = torch.randn(shape), 0 if shape[0] > shape[1] else 1

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.cumsum(dim), *x.cummax(dim), x.flip(dim).logcumsumexp(dim)

    compiled = dlc.compile(function, (x,), backend="host")
    results = compiled(x)
    longest = compiled.variants[0].longest_reduction
    for ours, exact, eager in zip(results, function(x.double()), function(x), strict=True):
        assert (found := compare(ours, exact, eager, longest)).ok, found
    assert all(torch.equal(a, b) for a, b in zip(results, compiled(x), strict=True))


def test_rows_are_read_once() -> None:
    """Of many rows the sums are one kernel, whose bytes are those of input and result."""
    compiled = dlc.compile(lambda x: x.cumsum(1), (torch.randn(200, 3000),), backend="host")
    (kernel,) = compiled.kernels
    assert kernel.source.count("load4(&x[") == 1
