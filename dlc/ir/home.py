"""Where PyTorch computes on tensors of several devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def home_of(tensors: Iterable[torch.Tensor]) -> torch.device | None:
    """
    The device of the first tensor, but for numbers on the CPU, which go with tensors of any device.
    None for no tensors.
    """
    home: torch.device | None = None
    for tensor in tensors:
        if tensor.dim() or tensor.device.type != "cpu":
            return tensor.device
        home = tensor.device
    return home
