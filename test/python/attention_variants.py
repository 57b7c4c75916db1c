"""Attention and its relatives: programs with their inputs, for the tests of cascaded reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

HEADS, WIDTH, COLUMNS = 2, 4, 3
Program = Callable[..., Tensor]


def additive(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def boolean(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask > 0)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _distances(q: Tensor, k: Tensor) -> Tensor:
    """How far each key is from each row."""
    rows, keys = (torch.arange(x.shape[-2], device=x.device) for x in (q, k))
    return rows[:, None] - keys


def window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.mT).masked_fill(_distances(q, k).abs() > 5, -inf)
    return torch.softmax(scores, -1) @ v


def alibi(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT - slopes * _distances(q, k).abs(), -1) @ v


def capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.tanh(q @ k.mT / 20) * 20, -1) @ v


def relative(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """Each head has a number for each distance, of at most 8."""
    near = _distances(q, k).clamp(-8, 8) + 8
    return torch.softmax(q @ k.mT + table[:, near], -1) @ v


def lengths(q: Tensor, k: Tensor, v: Tensor, counts: Tensor) -> Tensor:
    """Each row attends to so many keys."""
    keys = torch.arange(k.shape[-2], device=k.device)
    return torch.softmax((q @ k.mT).masked_fill(keys >= counts[:, None], -inf), -1) @ v


def scaled_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax((q * 0.5) @ k.mT, -1) @ v


def scaled_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ (k * 0.5).mT, -1) @ v


def scaled_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(0.5 * (q @ k.mT), -1) @ v


def scaled_results(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Products with powers are divided by their sum afterwards."""
    scores = q @ k.mT / 2
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (powers @ v) / powers.sum(-1, keepdim=True)


def scaled_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT, -1) @ (v * 0.5)


def cross_entropy(x: Tensor, words: Tensor, labels: Tensor) -> Tensor:
    """Of a linear layer over a vocabulary."""
    return F.cross_entropy(x @ words.mT, labels, reduction="none")


def pooling(x: Tensor, weights: Tensor) -> Tensor:
    """The mean of tokens by weights that are a softmax over these."""
    return (torch.softmax(x @ weights, 1).unsqueeze(-1) * x).sum(1)


def _attention(
    generator: torch.Generator, rows: int, keys: int, *more: str, shared: int = 1
) -> list[Tensor]:
    """Queries, keys and values, and what else is named, of several heads."""
    found = {
        "mask": (rows, keys),
        "slopes": (HEADS, 1, 1),
        "table": (HEADS, 17),
    }
    groups = HEADS // shared
    shapes = (1, HEADS, rows, WIDTH), (1, groups, keys, WIDTH), (1, groups, keys, COLUMNS)
    made = [torch.randn(shape, generator=generator) for shape in shapes]
    for name in more:
        if name == "counts":
            made.append(torch.randint(1, max(keys, 1) + 1, (rows,), generator=generator))
        else:
            made.append(torch.randn(found[name], generator=generator))
    return made


def _entropy(generator: torch.Generator, rows: int, keys: int) -> list[Tensor]:
    x, words = (torch.randn(n, WIDTH, generator=generator) for n in (rows, keys))
    return [x, words, torch.randint(0, max(keys, 1), (rows,), generator=generator)]


def _pooled(generator: torch.Generator, rows: int, keys: int) -> list[Tensor]:
    x = torch.randn(rows, keys, WIDTH, generator=generator)
    return [x, torch.randn(WIDTH, generator=generator)]


@dataclass(frozen=True)
class Variant:
    """A program, and what makes its inputs for so many rows and keys."""

    program: Program
    make: Callable[[torch.Generator, int, int], list[Tensor]] = _attention

    def draw(self, rows: int, keys: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Inputs, the floats of which are of a type."""
        generator = torch.Generator().manual_seed(rows * 1000 + keys)
        made = self.make(generator, rows, keys)
        return [x.to(dtype) if x.is_floating_point() else x for x in made]


def _with(program: Program, *more: str, shared: int = 1) -> Variant:
    def make(generator: torch.Generator, rows: int, keys: int) -> list[Tensor]:
        return _attention(generator, rows, keys, *more, shared=shared)

    return Variant(program, make)


_scaled: Any = partial(F.scaled_dot_product_attention, scale=0.3)

VARIANTS: dict[str, Variant] = {
    "a scale": Variant(lambda q, k, v: _scaled(q, k, v)),
    "an additive mask": _with(additive, "mask"),
    "a boolean mask": _with(boolean, "mask"),
    "causal": Variant(causal),
    "a window": Variant(window),
    "ALiBi": _with(alibi, "slopes"),
    "soft-capped": Variant(capped),
    "relative positions": _with(relative, "table"),
    "multi-query": _with(grouped, shared=2),
    "lengths": _with(lengths, "counts"),
    "scaled rows": Variant(scaled_rows),
    "scaled keys": Variant(scaled_keys),
    "scaled scores": Variant(scaled_scores),
    "scaled results": Variant(scaled_results),
    "scaled values": Variant(scaled_values),
    "cross entropy": Variant(cross_entropy, _entropy),
    "pooling": Variant(pooling, _pooled),
}
