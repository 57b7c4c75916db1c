"""Attention whose keys end where memory tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_attention import tiled
from test_decode_attention import STEPS, THEN
from torch import Tensor

import dlc

LEAST, MOST = -(2**63), 2**63 - 1


def up_to(q: Tensor, k: Tensor, v: Tensor, last: Tensor) -> Tensor:
    """Rows (b, h, s, d) that see keys up to a place of their own."""
    seen = torch.arange(k.shape[2], device=k.device) <= last.long()[:, None, None, None]
    return F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=True)


def fewer(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    hidden = torch.arange(k.shape[2], device=k.device) >= length.long()[:, None, None, None]
    scores = (q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT).masked_fill(
        hidden, -torch.inf
    )
    return torch.softmax(scores, -1) @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)


def in_a_window(q: Tensor, k: Tensor, v: Tensor, last: Tensor) -> Tensor:
    places, last = torch.arange(k.shape[2], device=k.device), last.long()[:, None, None, None]
    seen = (places <= last) & (places > last - 20)
    return F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=True)


def from_a_start(q: Tensor, k: Tensor, v: Tensor, start: Tensor) -> Tensor:
    """A chunk of rows, each of which sees keys up to its own."""
    rows = torch.arange(q.shape[2], device=k.device)[:, None] + start.long()[:, None, None, None]
    return F.scaled_dot_product_attention(
        q, k, v, rows >= torch.arange(k.shape[2], device=k.device), enable_gqa=True
    )


PROGRAMS = (up_to, fewer, in_a_window, from_a_start)


def draw(last: list[int], rows: int, keys: int, heads: int = 4, width: int = 8) -> list[Tensor]:
    """Queries (b, h, rows, width), keys and values of half as many heads, a number for each b."""
    generator = torch.Generator().manual_seed(keys)
    shapes = (heads, rows), (heads // 2, keys), (heads // 2, keys)
    tensors = [torch.randn((len(last), *s, width), generator=generator) for s in shapes]
    return [*tensors, torch.tensor(last)]


@pytest.mark.parametrize("deal", ["runs", "turns"])
@pytest.mark.parametrize("program", [up_to, in_a_window])
@pytest.mark.parametrize("keys", [127, 1])
def test_parts(program: Callable[..., Tensor], keys: int, deal: str, tmp_path: Path) -> None:
    split = f'split-matmul-k{{splits=3 deal={deal} then="{THEN}"}}'
    steps = (*STEPS[:2], split, "blockify-launch{block=2,8 thread=2,4}", *STEPS[4:])
    q, k, v, last = draw([0, 63, 64, keys - 1], 1, keys)
    tiled(program, steps, tmp_path / "parts.mlir", q, k, v, last.float())


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "keys"), [(1, 130), (5, 129), (1, 7), (1, 1)])
def test_numbers(program: Callable[..., Tensor], dtype: torch.dtype, rows: int, keys: int) -> None:
    q, k, v, last = draw([5, 1, keys - 1, keys, 10**6, 64, MOST - 10], rows, keys)
    inputs = [x.to(dtype) for x in (q, k, v)]
    compiled = dlc.compile(program, (*inputs, last), backend="host", target="sm_90")
    exact = program(*(x.double() for x in inputs), last)
    within = (
        {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    )
    found = compiled(*inputs, last).double()
    torch.testing.assert_close(found, exact, equal_nan=True, **within)
    assert {verdict.answer for verdict in compiled.check()} <= {"clean"}


@pytest.mark.parametrize("program", [up_to, fewer])
def test_no_keys_at_all(program: Callable[..., Tensor]) -> None:
    q, k, v, last = draw([-1, LEAST, 70, MOST, 0], 1, 90)
    compiled = dlc.compile(program, (q, k, v, last), backend="host", target="sm_90")
    exact = program(*(x.double() for x in (q, k, v)), last)
    found = compiled(q, k, v, last).double()
    torch.testing.assert_close(found, exact, equal_nan=True, rtol=1e-5, atol=1e-6)


def test_what_is_after_the_last_key_is_not_read() -> None:
    """By default, for any capacity: chunks after the length are skipped by all parts alike."""
    shapes = (2, 32, 1, 64), (2, 4, 2048, 64), (2, 4, 2048, 64)
    q, k, v = (torch.empty(s, device="meta", dtype=torch.bfloat16) for s in shapes)
    last = torch.empty(2, dtype=torch.int64, device="meta")
    compiled = dlc.compile(up_to, (q, k, v, last), backend="host", target="sm_90")
    first, *_ = compiled.kernels
    assert "deal=turns" in first.schedule
    tile = compiled.ir("tile")
    assert (
        "%last" in tile.partition("tile.yield %max_part")[2].partition("where")[2].partition(")")[0]
    )
    assert "loop.for %row in 4, %row_1 in 8" in compiled.ir("loop").replace("%b in 2, ", "")
