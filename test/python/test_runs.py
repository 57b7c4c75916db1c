"""Folds of runs whose ends are data: bags, segments, and updates in the order of their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc
from dlc.cli import dlc_cli
from dlc.remarks import collect
from dlc.transforms.tensor.decompositions import groups


def check(function: Callable[..., Any], *args: Tensor) -> None:
    """As near to f64 as eager PyTorch is, times four, for f32 of size 1 or so."""
    compiled = dlc.compile(function, args, target="sm_90")
    wide = [a.double() if a.is_floating_point() else a for a in args]
    ours, own, exact = compiled(*args), function(*args), function(*wide)
    assert ours.dtype == own.dtype
    bound = 4 * (own - exact).abs().nan_to_num().max().item() if own.numel() else 0
    torch.testing.assert_close(
        ours.double(), exact.double(), rtol=1e-6, atol=max(bound, 1e-6), equal_nan=True
    )


def table(rows: int, columns: int) -> Tensor:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows))
    if rows > 8:
        x[3, 0], x[5, -1] = torch.nan, torch.inf
    return x


def places(count: int, most: int) -> Tensor:
    return torch.randint(0, most, (count,), generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags(mode: str, padding: int | None) -> None:
    """Empty ones at the beginning, within and at the end, and one with almost all."""
    offsets = torch.tensor([0, 0, 3, 8, 8, 9, 96, 97, 97])
    check(
        lambda i, w, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=padding),
        places(97, 41),
        table(41, 13).nan_to_num() if mode == "max" else table(41, 13),
        offsets,
    )


def test_bags_that_are_given_otherwise() -> None:
    weight, index = table(41, 8), places(30, 41)
    weights = torch.randn(30, generator=torch.Generator().manual_seed(0))
    offsets = torch.tensor([0, 7, 7, 30])
    check(
        lambda i, w, o, s: F.embedding_bag(
            i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True
        ),
        index, weight, offsets, weights,
    )  # fmt: skip
    check(lambda i, w: F.embedding_bag(i, w, mode="mean"), index.view(5, 6), weight)
    check(lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"), index, weight, offsets[:1])
    check(lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"), index[:0], weight, offsets[:1])


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "prod"])
def test_segments(how: str) -> None:
    x = table(97, 3)
    offsets = torch.tensor([0, 4, 4, 90, 97])
    check(lambda x, o: torch.segment_reduce(x, how, offsets=o, axis=0, unsafe=True), x, offsets)
    lengths = torch.tensor([[0, 97], [50, 47], [97, 0]])
    check(
        lambda x, n: torch.segment_reduce(x, how, lengths=n, axis=1, unsafe=True),
        x.T.contiguous(),
        lengths,
    )


@pytest.mark.parametrize("how", ["sum", "max"])
@pytest.mark.parametrize("offsets", [[0, 1000], [0, 1, 31, 33, 64, 999, 1000], [0] * 9 + [1000]])
def test_long_runs(how: str, offsets: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of long runs, rows that are whole are folded by 32, and those again."""
    monkeypatch.setattr(groups, "fan_of", lambda about, *_: 32 if about > 4 else None)
    x = torch.randn(1000, 5, generator=torch.Generator().manual_seed(0))
    check(
        lambda x, o: torch.segment_reduce(x, how, offsets=o, axis=0, unsafe=True),
        x,
        torch.tensor(offsets),
    )


@pytest.mark.parametrize("updates", [0, 1, 97, 3000])
def test_updates_of_rows(updates: int) -> None:
    """Places that are hit often, once and never; all that hit one place."""
    x, source = table(61, 7), table(updates, 7)
    index = places(updates, 60)
    index[: updates // 2] = 7
    check(lambda x, i, v: x.index_add(0, i, v), x, index, source)
    check(lambda x, i, v: x.index_put([i - 61], v, accumulate=True), x, index, source)


def test_hazards_of_ends_that_are_data(capfd: pytest.CaptureFixture[str]) -> None:
    """Threads whose loops end at different places, in the simulator."""
    program = (
        "F.embedding_bag(torch.randint(0, 9, (40,)), torch.randn(9, 8), torch.tensor([0, 3, 33]))"
    )
    assert dlc_cli.main(["check", "--target", "sm_90", "-c", program]) == 0
    assert "clean" in capfd.readouterr().out


@pytest.mark.parametrize("rows", [300_000, 4])
def test_each_thread_has_ends_of_its_own(rows: int) -> None:
    """Neighbours are those of one thread only where their runs are the same."""
    x, at, y = (torch.empty(n, device="meta") for n in (rows, 1_000_000, 1_000_000))
    compiled = dlc.compile(
        lambda x, i, y: x.index_add(0, i, y), (x, at.to(torch.int64), y), target="sm_90"
    )
    with collect() as remarks:
        compiled.ir("kernel")
    assert not any("no end that is data" in str(remark) for remark in remarks)


def test_indices_that_are_added_to_themselves_compile_in_seconds() -> None:
    """The bounds of each are asked for once, not twice as often as of the next."""

    def doubled(i: Tensor, t: Tensor) -> Tensor:
        i = i.clamp(0, 0)
        for _ in range(60):
            i = i + i
        return F.embedding(i, t)

    check(doubled, torch.zeros(4, dtype=torch.int64), table(3, 4))
