"""Operations that PyTorch has beside ATen, in ATen's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OperatorBase
from torch.nn import functional as F


def linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    """The loss of a linear layer: which rows share a chunk matters to memory alone. The derivatives
    that come with it are empty where none is asked for."""
    scores = F.linear(input, linear_weight, linear_bias)
    loss = F.cross_entropy(
        scores, target, weight=weight, reduction=reduction, ignore_index=ignore_index
    )
    return loss, *(loss.new_empty(0) for _ in range(3))


def linear_cross_entropy_of_rows(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    weight: torch.Tensor | None,
    ignore_index: int,
    *options: Any,
) -> torch.Tensor:
    given = input, linear_weight, target, linear_bias, weight
    return linear_cross_entropy(*given, "none", ignore_index)[0]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_linear_cross_entropy_batch_chunked": linear_cross_entropy,
    "_linear_cross_entropy_batch_chunked_no_reduction": linear_cross_entropy_of_rows,
}


def beside_aten() -> dict[OperatorBase, Callable[..., Any]]:
    """The functions for those operations that this PyTorch has registered so far."""
    return {
        getattr(torch.ops.torch_nn, name).default: function
        for name, function in FUNCTIONS.items()
        if hasattr(torch.ops.torch_nn, name)
    }
