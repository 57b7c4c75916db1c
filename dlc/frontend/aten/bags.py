"""Sums, means and extremes of parts of a tensor that data delimit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase


def folded(rows: Tensor, inside: Tensor, how: str, initial: float | None = None) -> Tensor:
    """
    For each part, of which `inside[part, row]` says what belongs to it, the fold of its rows;
    those of no row are `initial`, or what the fold begins with.
    """
    inside = inside.reshape(*inside.shape, *[1] * (rows.dim() - 1))
    least = float("inf")
    nothing = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -least, "min": least}[how]
    held = torch.where(inside, rows[None], nothing)
    if how == "prod":
        result = held.prod(1)
    else:
        result = {"max": torch.amax, "min": torch.amin}.get(how, torch.sum)(held, 1)
    if initial is not None:
        start = torch.full_like(result, initial)
        combine = {"max": torch.maximum, "min": torch.minimum, "prod": torch.mul}
        result = combine.get(how, torch.add)(result, start)
    if how != "mean":
        return result
    count = inside.sum(1)
    mean = result / count.clamp(min=1)
    return torch.where(count == 0, torch.nan if initial is None else initial, mean)


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """`aten.segment_reduce`: segments of the last axis of the lengths or the offsets."""
    if lengths is not None:
        ends = lengths.cumsum(-1)
        begins = ends - lengths
    else:
        assert offsets is not None
        begins, ends = offsets[..., :-1], offsets[..., 1:]
    place = torch.arange(data.shape[axis], device=data.device)
    inside = (place >= begins[..., None]) & (place < ends[..., None])
    flat = inside.reshape(-1, *inside.shape[-2:])
    groups = data.reshape(-1, *data.shape[axis:])
    parts = [folded(group, own, reduce, initial) for group, own in zip(groups, flat, strict=True)]
    return torch.stack(parts).reshape(*data.shape[:axis], *parts[0].shape)


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
    begins = offsets[:-1] if include_last_offset else offsets
    last = offsets[-1:] if include_last_offset else offsets.new_full((1,), indices.shape[0])
    ends = torch.cat([begins[1:], last])
    place = torch.arange(indices.shape[0], device=indices.device)
    inside = (place >= begins[:, None]) & (place < ends[:, None])
    if padding_idx >= 0:
        inside = inside & (indices != padding_idx)
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    result = folded(rows, inside, ("sum", "mean", "max")[mode])
    empty = ~inside.any(1, keepdim=True)
    result = torch.where(empty, 0, result).to(weight.dtype)
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
    aten.segment_reduce.default: segment_reduce,
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag,
    aten.embedding_renorm.default: embedding_renorm,
}
