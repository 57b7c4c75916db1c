"""Loops over the columns of matrices, and results that lie in memory as eager's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from dlc.frontend.aten.distinct_operands import scan_of_copies

Step = Callable[..., tuple[Sequence[Tensor], Sequence[Tensor]]]


def places(count: int, like: Tensor, *, backwards: bool = False) -> Tensor:
    """0 to `count - 1`, or the other way."""
    found = torch.arange(count, device=like.device)
    return found.flip(0) if backwards else found


def over(
    step: Step, carried: Sequence[Tensor], scanned: Sequence[Tensor], *held: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """
    A loop of the host program: `step` is given what is carried, the next element of what is
    scanned, and what is held, and gives what to carry on and what to stack. With no element, what
    is carried is as it was and nothing is stacked.
    """
    if not len(scanned[0]):
        return list(carried), []

    def turn(*given: Tensor) -> list[Tensor]:
        carry, made = step(*given)
        return [*map(_in_rows, carry), *made]

    found = scan_of_copies(turn, [*map(_in_rows, carried)], list(scanned), list(held))
    return found[: len(carried)], found[len(carried) :]


def _in_rows(tensor: Tensor) -> Tensor:
    if tensor.stride() == torch.empty(tensor.shape, device="meta").stride():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def line(matrix: Tensor, place: Tensor) -> Tensor:
    """The row at a place that a tensor holds, as a matrix of one row."""
    return matrix.index_select(-2, place.reshape(1))


def column(matrix: Tensor, place: Tensor) -> Tensor:
    return matrix.index_select(-1, place.reshape(1))


def laid_out(op: OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives the results of a function the strides that an operation's have."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def laid(*args: Any, **kwargs: Any) -> Any:
            matrix = next(a for a in (*args, *kwargs.values()) if isinstance(a, Tensor))
            if matrix.is_complex():
                return NotImplemented
            found = function(*args, **kwargs)
            with _disable_current_modes():
                given = tree_map_only(Tensor, _without_memory, (args, kwargs))
                wanted = op(*given[0], **given[1])
            if isinstance(found, Tensor):
                return as_strided_like(found, wanted)
            return tuple(as_strided_like(*pair) for pair in zip(found, wanted, strict=True))

        return laid

    return decorate


def _without_memory(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def as_strided_like(tensor: Tensor, other: Tensor) -> Tensor:
    """The tensor, whose elements lie in memory in the order of those of `other`."""
    order = sorted(range(other.dim()), key=lambda d: -other.stride(d))
    if order == list(range(other.dim())) and tensor.is_contiguous():
        return tensor
    inner = tensor.permute(order).contiguous()
    return inner.permute([order.index(d) for d in range(other.dim())])
