"""The programs of a generation: a chunk of prompts, and a token of each row."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from transformers import DynamicCache

from dlc.generation.row_cache import row_cache
from dlc.generation.sampling import Sampling, choose


class Rows(nn.Module):
    """
    What a batch of texts is on its way. `tokens` (rows, capacity + 1) are the prompts and what
    came after; `position` (rows,) is that of the last token, whose successor is next; a row is
    `done` where its text has ended, or is at `last` (rows,).
    """

    tokens: torch.Tensor
    position: torch.Tensor
    last: torch.Tensor
    done: torch.Tensor
    ends: torch.Tensor

    def __init__(self, model: Any, rows: int, capacity: int, ends: Sequence[int]) -> None:
        super().__init__()
        self.model: Any = model
        self.capacity = capacity
        self.cache_argument = cache_argument(model)
        like = next(model.parameters())
        numbers = {"dtype": torch.int64, "device": like.device}
        self.register_buffer("tokens", torch.zeros(rows, capacity + 1, **numbers))
        self.register_buffer("position", torch.zeros(rows, **numbers))
        self.register_buffer("last", torch.zeros(rows, **numbers))
        self.register_buffer("done", torch.zeros(rows, dtype=torch.bool, device=like.device))
        self.register_buffer("ends", torch.tensor(list(ends), **numbers))
        self.layers = 0
        for keys, values in _shapes(model, rows, capacity):
            for kind, shape in (("keys", keys), ("values", values)):
                kept = torch.zeros(shape, dtype=like.dtype, device=like.device)
                self.register_buffer(f"{kind}_{self.layers}", kept)
            self.layers += 1

    def kept(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of each layer, (rows, heads, capacity, width)."""
        numbers = range(self.layers)
        return [(getattr(self, f"keys_{n}"), getattr(self, f"values_{n}")) for n in numbers]

    def begin(self, prompts: Sequence[Sequence[int]], new: int) -> None:
        """Takes prompts of one token or more, one a row, of which `new` tokens are wanted each."""
        self.tokens.zero_()
        for row, prompt in enumerate(prompts):
            self.tokens[row, : len(prompt)] = torch.tensor(prompt, dtype=torch.int64)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.position.device)
        self.position.copy_(lengths - 1)
        self.last.copy_(lengths - 1 + new)
        self.done.copy_(self.position >= self.last)

    def called(self, positions: torch.Tensor) -> torch.Tensor:
        """The logits (rows, length, vocabulary) of the tokens at positions (rows, length)."""
        tokens = torch.gather(self.tokens, 1, positions)
        cache = row_cache(self.kept(), positions)
        given = {self.cache_argument: cache}
        return self.model(tokens, position_ids=positions, use_cache=True, **given).logits


class Chunk(nn.Module):
    """Reads `length` tokens of each prompt: start () -> nothing; keys and values are written."""

    def __init__(self, rows: Rows, length: int) -> None:
        super().__init__()
        self.rows, self.length = rows, length

    def forward(self, start: torch.Tensor) -> None:
        places = start + torch.arange(self.length, device=start.device)
        self.rows.called(places[None].expand(self.rows.tokens.shape[0], -1))


class Token(nn.Module):
    """Appends a token to each row that is not done."""

    def __init__(self, rows: Rows, sampling: Sampling) -> None:
        super().__init__()
        self.rows, self.sampling = rows, sampling

    def forward(self) -> None:
        rows = self.rows
        here = rows.position[:, None]
        logits = rows.called(here)[:, -1]
        chosen = choose(logits, rows.position, self.sampling)
        old = torch.gather(rows.tokens, 1, here + 1)[:, 0]
        new = torch.where(rows.done, old, chosen)
        rows.tokens.scatter_(1, here + 1, new[:, None])
        rows.position.add_((~rows.done).to(torch.int64))
        ended = (chosen[:, None] == rows.ends).any(-1) | (rows.position >= rows.last)
        rows.done.logical_or_(ended)


def cache_argument(model: Any) -> str:
    """What a model calls its cache: transformers 5.24 has another name for it than 5.23."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def _shapes(model: Any, rows: int, capacity: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of the keys and the values of each layer, by what the model makes of one token."""
    chosen, seen = model.config._attn_implementation, DynamicCache()
    model.set_attn_implementation("eager")
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            given = {cache_argument(model): seen}
            token = torch.zeros(1, 1, dtype=torch.int64, device=next(model.parameters()).device)
            model(token, use_cache=True, **given)
    finally:
        model.set_attn_implementation(chosen)
    found = []
    layers: Any = seen.layers
    for layer in layers:
        (_, heads, _, width), (_, others, _, wide) = layer.keys.shape, layer.values.shape
        found.append(((rows, heads, capacity, width), (rows, others, capacity, wide)))
    return found
