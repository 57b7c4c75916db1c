"""
The fused operations that PyTorch's transformer modules call in eval mode, in terms of others.

They compute what `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` document:
aten/src/ATen/native/transformers/transformer.cpp and attention.cpp of PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase
from torch.nn import functional as F


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`aten._native_multi_head_attention`: the result, and the weights or an empty tensor."""
    sources = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (
        F.linear(x, weight, bias).unflatten(-1, (num_head, -1)).transpose(1, 2)
        for x, weight, bias in sources
    )
    scores = (q / math.sqrt(embed_dim // num_head)) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(_spread(mask, mask_type).to(torch.bool), -math.inf)
    weights = scores.softmax(-1)
    result = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, weights.mean(1) if average_attn_weights else weights


def _spread(mask: Tensor, mask_type: int | None) -> Tensor:
    """A mask over batch, heads, queries and keys: 1 is one of batch and keys."""
    return mask[:, None, None, :] if mask_type == 1 else mask


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`aten._transformer_encoder_layer_fwd`."""

    def norm_1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    x = norm_1(src) if norm_first else src
    projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    attended, _ = attention(
        x, x, x, embed_dim, num_heads, *projections, mask, False, mask_type=mask_type
    )
    x = src + attended if norm_first else norm_1(src + attended)
    hidden = F.linear(norm_2(x) if norm_first else x, ffn_weight_1, ffn_bias_1)
    hidden = F.gelu(hidden) if use_gelu else hidden.relu()
    x = x + F.linear(hidden, ffn_weight_2, ffn_bias_2)
    return x if norm_first else norm_2(x)


FAST_PATHS: Mapping[OperatorBase, Callable[..., object]] = {
    torch.ops.aten._native_multi_head_attention.default: attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
"""Functions for operations, as `run_decompositions` takes them."""
