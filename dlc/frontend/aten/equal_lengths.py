"""Sizes that are equal in each call that eager PyTorch takes, which an export does not compare."""

from __future__ import annotations

from typing import Any

import torch
from torch import SymInt, Tensor
from torch.nn import functional as F


def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """
    Attention, which has as many values as keys: the lengths of what a cache holds, which
    torch.compile takes for sizes of their own, are one size.
    """
    if min(key.dim(), value.dim()) > 1:
        keys, values = key.shape[-2], value.shape[-2]
        if isinstance(keys, SymInt) or isinstance(values, SymInt):
            torch._check(keys == values)
    return F.scaled_dot_product_attention(query, key, value, *args, **kwargs)
