"""
Norms of f16 or bf16 by parameters in f32, as eager has them on a CPU: their statistics are in f32,
where PyTorch's traces say that they are as the value is, and a backward takes only those in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._ops import OperatorBase, OpOverload

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)


def _in_f32(op: OpOverload) -> Callable[..., Any]:
    """The norm of a value in f32, of which the first result alone is in the value's dtype."""

    def norm(value: Tensor, *rest: object) -> Any:
        dtypes = {t.dtype for t in rest if isinstance(t, Tensor)}
        if value.device.type != "cpu" or value.dtype not in HALVES or dtypes != {torch.float32}:
            return NotImplemented
        result, *statistics = op(value.float(), *rest)
        return result.to(value.dtype), *statistics

    return norm


NORMS = (
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
)
MIXED_NORMS: Mapping[OperatorBase, Callable[..., Any]] = {op: _in_f32(op) for op in NORMS}
