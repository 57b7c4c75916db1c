"""
Keys and values of rows that are at places of their own, as transformers asks for them.

A row writes what it computes at its own positions, and sees what is at positions up to its own. So
prompts of any lengths stand side by side without padding, and what a row computes does not depend
on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.cache_utils import CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward

BY_ROW = "dlc_by_row"
"""What `attn_implementation` is where each row of a batch has positions of its own."""


class RowLayer(CacheLayerMixin):
    """Keys and values (rows, heads, capacity, width) of a layer, and the positions to write at."""

    is_compileable = True
    is_sliding = False  # all is kept; what a window leaves out is masked

    def __init__(
        self, keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor, capacity: int
    ) -> None:
        super().__init__()
        self.keys, self.values, self.positions = keys, values, positions
        self.capacity = capacity
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: the tensors are there."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes new keys and values (rows, heads, length, width), and gives all of them."""
        assert self.keys is not None
        assert self.values is not None
        for kept, new in ((self.keys, key_states), (self.values, value_states)):
            if self.positions.shape[1] == 1:
                places = self.positions[:, None, :, None].expand_as(new)
                kept.scatter_(2, places, new)
            else:
                rows = torch.arange(new.shape[0], device=new.device)[:, None]
                kept[rows, :, self.positions] = new.transpose(1, 2)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.capacity, 0

    def get_seq_length(self) -> Any:
        """Where the queries of each row begin: (rows,)."""
        return self.positions[:, 0]

    def get_max_length(self) -> int:
        return self.capacity

    get_max_cache_shape = get_max_length


def row_cache(layers: list[tuple[torch.Tensor, torch.Tensor]], positions: torch.Tensor) -> Cache:
    """The cache of a model whose rows write at `positions` (rows, length)."""
    return Cache(layers=[RowLayer(k, v, positions, k.shape[2]) for k, v in layers])


def row_mask(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any,
    mask_function: Callable[..., torch.Tensor],
    **given: Any,
) -> torch.Tensor:
    """Which keys a query sees, (rows, 1, q_length, kv_length), by the model's own rule."""
    device = q_offset.device
    rows = torch.arange(batch_size, device=device)[:, None, None, None]
    queries = torch.arange(q_length, device=device)[:, None] + q_offset[:, None, None, None]
    return mask_function(rows, 0, queries, torch.arange(kv_length, device=device))


def row_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    **given: Any,
) -> tuple[torch.Tensor, None]:
    """scaled_dot_product_attention, or the same with scores that are capped."""
    if softcap is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **given
        )
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = torch.tanh(scores / softcap) * softcap
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    seen = torch.softmax(scores, -1, dtype=torch.float32).to(value.dtype) @ value
    return seen.transpose(1, 2).contiguous(), None


AttentionInterface.register(BY_ROW, row_attention)
AttentionMaskInterface.register(BY_ROW, row_mask)
