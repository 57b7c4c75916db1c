"""
What `dlc/frontend/aten/unchecked.py` puts in the place of PyTorch's functions.

What eager PyTorch checks of shapes, dtypes and options, it checks here as well: `check` runs the
function on stand-ins of the same shapes and dtypes, whose values pass.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F

from dlc.frontend.aten.ctc import ctc_loss
from dlc.frontend.aten.distinct_operands import scan_of_copies
from dlc.frontend.aten.factorizations.least_squares import lstsq
from dlc.frontend.aten.stand_ins import StandIn, check

__all__ = [
    "allclose",
    "combinations",
    "corrcoef",
    "cov",
    "ctc_loss",
    "equal",
    "gaussian_nll_loss",
    "lstsq",
    "narrow",
    "scan_of_copies",
]


def cov(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """torch.cov: it asks whether weights are negative, and what their sum is."""
    one = _one_variable(input)
    check(torch.cov, one, correction=correction, fweights=fweights, aweights=aweights)
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


def _one_variable(input: torch.Tensor) -> StandIn:
    """The observations of one variable: how many there are makes no difference to an error."""
    stand_in = StandIn.of(input)
    return replace(stand_in, shape=(1, *stand_in.shape[1:])) if input.dim() == 2 else stand_in


def corrcoef(input: torch.Tensor) -> torch.Tensor:
    """torch.corrcoef, by `cov`."""
    check(torch.corrcoef, _one_variable(input))
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
    """torch.nn.functional.gaussian_nll_loss: it asks whether a variance is negative."""
    check(F.gaussian_nll_loss, input, target, var, full, eps, reduction)
    if not isinstance(var, torch.Tensor):
        var = var * torch.ones_like(input)
    if var.dim() < input.dim() and input.shape[:-1] == var.shape:
        var = var[..., None]
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": torch.mean, "sum": torch.sum, "none": torch.clone}[reduction](loss)


def narrow(input: torch.Tensor, dim: int, start: torch.Tensor | int, length: int) -> torch.Tensor:
    """torch.narrow, which begins where data say: a part of the tensor by its indices."""
    if not isinstance(start, torch.Tensor):
        return input.narrow(dim, start, length)
    check(torch.narrow, input, dim, replace(StandIn.of(start), value=0), length)
    first = torch.where(start < 0, start + input.shape[dim], start)
    return input.index_select(dim, first + torch.arange(length, device=input.device))


def combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """torch.combinations: it selects by a mask, which only the number of elements matters to."""
    check(torch.combinations, input, r, with_replacement)
    if r == 0:
        return input.new_empty(0)  # not of one row, though there is one way to choose nothing
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    found = list(choose(range(len(input)), r))
    return input[torch.tensor(found, dtype=torch.int64).reshape(len(found), r)]


def equal(input: torch.Tensor, other: torch.Tensor) -> Any:
    """torch.equal: it takes its flag of no tensor that a program could compute."""
    check(torch.equal, input, other)
    return input.shape == other.shape and torch.eq(input, other).all().item()


def allclose(
    input: torch.Tensor,
    other: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Any:
    """torch.allclose, by a tensor, too."""
    check(torch.allclose, input, other, rtol, atol, equal_nan)
    return torch.isclose(input, other, rtol, atol, equal_nan).all().item()
