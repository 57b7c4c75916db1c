"""Bags of rows of a table: their sums, means and extremes, and rows that are scaled down."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`aten._embedding_bag`: the bags; what its derivative needs beside them is not computed."""
    if not include_last_offset:
        offsets = torch.cat([offsets, offsets.new_full((1,), indices.shape[0])])
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]

    def folded(rows: Tensor, how: str) -> Tensor:
        return torch.segment_reduce(rows, how, offsets=offsets, axis=0, unsafe=True)

    how = ("sum", "mean", "max")[mode]
    count = (offsets[1:] - offsets[:-1])[:, None]
    if padding_idx >= 0:
        held = (indices != padding_idx)[:, None]
        count = folded(held.float(), "sum")
        rows = torch.where(held, rows, -torch.inf if how == "max" else 0)
        result = folded(rows, "max" if how == "max" else "sum")
        result = result / count.clamp(min=1) if how == "mean" else result
    else:
        result = folded(rows, how)
    result = torch.where(count == 0, 0, result).to(weight.dtype)
    nothing = offsets.new_zeros(0)
    return result, nothing, nothing.clone(), nothing.clone()


def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """`aten.embedding_renorm`: rows that are asked for, scaled down to a largest norm."""
    place = torch.arange(weight.shape[0], device=weight.device)
    asked = (place[:, None] == indices.reshape(-1)).any(1, keepdim=True)
    norm = torch.linalg.vector_norm(weight, norm_type, dim=1, keepdim=True)
    return torch.where(asked & (norm > max_norm), weight * (max_norm / (norm + 1e-7)), weight)


aten = torch.ops.aten
BAGS: Mapping[OperatorBase, Callable[..., object]] = {
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten.embedding_renorm.default: embedding_renorm,
}
