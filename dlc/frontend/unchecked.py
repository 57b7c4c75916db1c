"""
Functions of PyTorch that look at values only to check them, without their checks.

What `torch.export` sees of them is a branch on data, though it is one path for all values that pass
the check: a compiled program has no counterpart of an error that depends on values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def cov(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """torch.cov: it asks whether there is more than one observation, to warn if not."""
    rows = input if input.dim() > 1 else input.reshape(1, -1)
    given = [w for w in (fweights, aweights) if w is not None]
    weights = math.prod(given[1:], start=given[0]) if given else None
    total: Any = rows.shape[1] if weights is None else weights.sum()
    average = (rows if weights is None else rows * weights).sum(1, keepdim=True) / total
    if weights is not None and aweights is not None and correction != 0:
        degrees = total - correction * (weights * aweights).sum() / total
    else:
        degrees = total - correction
    centred = rows - average
    product = (centred if weights is None else centred * weights) @ centred.t()
    floor = degrees.clamp(min=0) if isinstance(degrees, torch.Tensor) else max(degrees, 0)
    return (product / floor).squeeze()


def corrcoef(input: torch.Tensor) -> torch.Tensor:
    """torch.corrcoef, by `cov`."""
    product = cov(input)
    if product.dim() == 0:
        return product / product
    deviation = product.diagonal().sqrt()
    return (product / deviation[:, None] / deviation[None]).clip(-1, 1)


def gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """torch.nn.functional.gaussian_nll_loss of variances that are not negative."""
    if not isinstance(var, torch.Tensor):
        var = torch.full_like(input, var)
    if var.dim() < input.dim() and input.shape[:-1] == var.shape:
        var = var[..., None]
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": torch.mean, "sum": torch.sum}.get(reduction, torch.clone)(loss)


def narrow(input: torch.Tensor, dim: int, start: torch.Tensor | int, length: int) -> torch.Tensor:
    """torch.narrow, which begins where data say: a part of the tensor by its indices."""
    if not isinstance(start, torch.Tensor):
        return input.narrow(dim, start, length)
    first = torch.where(start < 0, start + input.shape[dim], start)
    return input.index_select(dim, first + torch.arange(length, device=input.device))


UNCHECKED: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.cov: cov,
    torch.Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    torch.Tensor.corrcoef: corrcoef,
    F.gaussian_nll_loss: gaussian_nll_loss,
    torch.narrow: narrow,
    torch.Tensor.narrow: narrow,
}


class Unchecked(TorchFunctionMode):
    """Within it, PyTorch's functions are those of `UNCHECKED`."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return (UNCHECKED.get(func) or func)(*args, **(kwargs or {}))
