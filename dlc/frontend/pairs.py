"""Complex tensors as `@main` has them: pairs of reals, along a last dimension of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch
from torch.fx import Node

from dlc.ir.leaves import Output, View

if TYPE_CHECKING:
    from dlc.ir.sizes import Size


def is_lazy(tensor: torch.Tensor) -> bool:
    """True if memory holds the conjugates or the negatives of a tensor's elements."""
    return tensor.is_conj() or tensor.is_neg()


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose memory holds its elements: itself, or a copy."""
    return tensor.resolve_conj().resolve_neg() if is_lazy(tensor) else tensor


def pairs_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a complex tensor as `@main` takes it; another tensor itself."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def strides_of_pairs(strides: Sequence[Size | int]) -> tuple[Size | int, ...]:
    return (*(stride * 2 for stride in strides), 1)


def output(
    path: str, of: Literal["result", "argument"], number: int, view: View | None, node: Node
) -> Output:
    """The user's tensor that `node` is; `view` is in its own elements."""
    is_complex = node.meta["val"].is_complex()
    if is_complex and view is not None:
        strides = strides_of_pairs(view.strides)
        view = replace(view, shape=(*view.shape, 2), strides=strides, offset=view.offset * 2)
    return Output(path, of, number, view, is_complex)
