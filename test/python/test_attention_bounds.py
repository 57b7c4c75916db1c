"""Keys that a causal mask or a window leaves out: loops over them start late and end early."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_attention import STEPS, draw, scheduled, tiled
from torch import Tensor

import dlc

INF = float("inf")


def window(q: Tensor, k: Tensor, v: Tensor, width: int = 10, shift: int = 0) -> Tensor:
    """A row attends to the keys that are at most `width` before it, `shift` keys further on."""
    rows, keys = (torch.arange(x.shape[-2], device=x.device) for x in (q, k))
    before = rows[:, None] + shift - keys
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(before >= 0) & (before < width))


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows, keys = (torch.arange(x.shape[-2], device=x.device) for x in (q, k))
    before = rows[:, None] - keys
    scores = (q @ k.mT).masked_fill((before < 0) | (before >= 10), -INF)
    return torch.softmax(scores, -1) @ v


def only_late(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys from a row's own on, so that the loop starts late and ends with the keys."""
    rows, keys = (torch.arange(x.shape[-2], device=x.device) for x in (q, k))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keys >= rows[:, None])


PROGRAMS: dict[str, Callable[..., Tensor]] = {
    "window": window,
    "by hand": by_hand,
    "only late": only_late,
    "wider than the keys": partial(window, width=1000),
    "rows without keys": partial(window, width=3, shift=4),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("rows", "keys"), [(37, 37), (21, 45), (1, 9), (29, 7)])
def test_windows_in_tiles(name: str, rows: int, keys: int, tmp_path: Path) -> None:
    tiled(PROGRAMS[name], STEPS, tmp_path / "tiled.mlir", *draw(rows, keys, 8))


RINGS = ("async-copy", "pad-smem", "pipeline-k-outer")


@pytest.mark.parametrize("left_out", [3, 6, 7, 9])
def test_each_step_may_be_left_out(left_out: int, tmp_path: Path) -> None:
    gone = {3: ("double-buffer", *RINGS), 6: RINGS}.get(left_out, ())
    steps = [*STEPS[:left_out], *STEPS[left_out + 1 :]]
    steps = [step for step in steps if not step.startswith(gone)]
    tiled(window, steps, tmp_path / "tiled.mlir", *draw(41, 43, 8))


def test_rings_of_three_slots(tmp_path: Path) -> None:
    steps = ["double-buffer{depth=3}" if s.startswith("double") else s for s in STEPS]
    tiled(window, steps, tmp_path / "tiled.mlir", *draw(41, 43, 8))


def test_what_is_left_out_is_neither_fetched_nor_computed(tmp_path: Path) -> None:
    q, k, v = draw(64, 64, 8)
    file = tmp_path / "tiled.mlir"
    file.write_text(str(scheduled(window, STEPS, q, k, v)))
    text = dlc.load(file, backend="host").ir("kernel")
    # Chunks from the one on that the first row of the block attends to …
    late = "kernel.test where (-%brow * 8 + %ko * 8 >= -16)"
    # … up to that of its last row, and of these the next is asked for.
    ahead = "(%ko < 7, %brow * 8 - %ko * 8 >= 1, -%brow * 8 + %ko * 8 >= -24)"
    assert "(%brow * 8 - %ko * 8 >= -7)" in text
    assert late in text
    assert ahead in text
    exact = window(q.double(), k.double(), v.double())
    v[..., 20, :] = INF  # to whose chunk rows of three blocks attend
    found = dlc.load(file, backend="host")(q, k, v)
    far = [*range(16), *range(40, 64)]
    torch.testing.assert_close(found.double()[:, :, far], exact[:, :, far], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("waves", [1, 2, 4])
def test_the_last_rows_come_first(waves: int, tmp_path: Path) -> None:
    order = f"blockify-launch{{block=8,4 thread=4,4 last=2 waves={waves}}}"
    steps = [order if s.startswith("blockify") else s for s in STEPS]
    causal = partial(F.scaled_dot_product_attention, is_causal=True)
    file = tmp_path / "tiled.mlir"
    tiled(causal, steps, file, *draw(61, 64, 8))
    file.write_text(str(scheduled(causal, steps, *draw(61, 64, 8))))
    assert f"tile.launch last_first [1, {waves}] block(" in dlc.load(file, backend="host").ir(
        "tile"
    )


@pytest.mark.parametrize("name", ["window", "only late"])
@pytest.mark.parametrize("size", [1, 7, 100, 129])
def test_by_default(name: str, size: int) -> None:
    inputs = draw(size, size, 8, 8)
    compiled = dlc.compile(PROGRAMS[name], tuple(inputs), backend="host", target="sm_90")
    exact = PROGRAMS[name](*(x.double() for x in inputs))
    torch.testing.assert_close(compiled(*inputs).double(), exact, rtol=1e-5, atol=1e-6)
