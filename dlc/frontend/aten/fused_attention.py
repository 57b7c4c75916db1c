"""Attention as one operation of ATen's, and its derivative, as products and exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OperatorBase
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

aten = torch.ops.aten


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """
    `aten._scaled_dot_product_flash_attention_for_cpu`: attention (batch, heads, queries, width), as
    PyTorch takes it apart, and what its derivative needs, where PyTorch's decomposition has the
    probabilities: the logarithm of the sum of each query's exponentials, 0 for one without keys.
    The output lies in memory as the query does, which a view of it may count on.
    """
    apart = decomposition_table[aten._scaled_dot_product_flash_attention_for_cpu.default]
    output, _ = apart(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    sums = scores(query, key, is_causal, attn_mask, factor_of(query, scale)).logsumexp(-1)
    sums = torch.where(sums == -math.inf, 0, sums)
    return _lying_as(output, query), sums.mT.contiguous().mT


def flash_attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    sums: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """
    Its derivatives by query, key and value: probabilities are computed anew of the scores and the
    logarithms `sums` (batch, heads, queries). A gradient of probabilities, less its mean by these,
    is one of scores; that mean is of the output's gradient and the output, too.
    """
    if dropout_p:
        return NotImplemented
    wide = torch.promote_types(query.dtype, torch.float32)
    factor = factor_of(query, scale)
    found = scores(query, key, is_causal, attn_mask, factor)
    shares = (found - sums[..., None].to(wide)).exp()
    given = gradient.to(wide)
    mean = (given * output.to(wide)).sum(-1, keepdim=True)
    of_scores = shares * (given @ _for_all(value.to(wide), query).mT - mean) * factor
    of_key, of_value = of_scores.mT @ query.to(wide), shares.mT @ given
    groups = query.shape[1] // max(key.shape[1], 1)
    if groups > 1:
        of_key, of_value = (
            g.unflatten(1, (key.shape[1], groups)).sum(2) for g in (of_key, of_value)
        )
    of_query = of_scores @ _for_all(key.to(wide), query)
    by_rows = (g.transpose(1, 2).contiguous().transpose(1, 2) for g in (of_query, of_key, of_value))
    first, second, third = (g.to(query.dtype) for g in by_rows)
    return first, second, third


def factor_of(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def scores(
    query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, factor: float
) -> Tensor:
    """(batch, heads, queries, keys), -inf where a key is not seen, in f32 at least."""
    wide = torch.promote_types(query.dtype, torch.float32)
    found = query.to(wide) @ _for_all(key.to(wide), query).mT * factor
    if is_causal:
        seen = torch.ones(found.shape[-2:], dtype=torch.bool, device=query.device).tril()
        found = found.masked_fill(~seen, -math.inf)
    if mask is None:
        return found
    return found.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else found + mask


def _for_all(value: Tensor, query: Tensor) -> Tensor:
    """Keys or values for each head of the query."""
    groups = query.shape[1] // max(value.shape[1], 1)
    return value if groups == 1 else value.repeat_interleave(groups, 1)


def _lying_as(value: Tensor, other: Tensor) -> Tensor:
    """A copy whose axes follow each other in memory as those of `torch.empty_like(other)` do."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(other)
    return value.permute(order).contiguous().permute([order.index(a) for a in range(value.dim())])


ATTENTION: Mapping[OperatorBase, Callable[..., object]] = {
    aten._scaled_dot_product_flash_attention_for_cpu.default: flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: flash_attention_backward,
}
