"""Calls of PyTorch's functions for what they refuse, whatever the values of their tensors are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only


@dataclass(frozen=True)
class StandIn:
    """What a function is run on in place of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    value: int = 1

    @staticmethod
    def of(tensor: torch.Tensor) -> StandIn:
        return StandIn(tuple(tensor.shape), tensor.dtype)

    def tensor(self) -> torch.Tensor:
        """All of its elements are one in memory."""
        return torch.tensor(self.value, dtype=self.dtype, device="cpu").expand(self.shape)


def check(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Runs a function of PyTorch on stand-ins, for its errors."""
    given = tree_map_only(torch.Tensor, StandIn.of, (args, kwargs))
    # Neither `torch.export` nor `Unchecked` sees what happens here.
    with torch._C.DisableTorchFunction(), _disable_current_modes(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args, kwargs = tree_map_only(StandIn, StandIn.tensor, given)
        function(*args, **kwargs)
