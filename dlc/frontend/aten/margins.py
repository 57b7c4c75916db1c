"""
Margin losses as eager computes them. PyTorch's decompositions, which go before any table of others,
keep NaN where eager adds nothing, and add a target of class 0 for each number behind a row's last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._decomp.decompositions import Reduction
from torch._ops import OpOverload

from dlc.frontend.aten.python_kernels import python_kernels


def multi_margin_loss(
    value: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = Reduction.MEAN.value,
) -> Tensor:
    """`aten.multi_margin_loss`: how far classes come near to each row's target."""
    rows, targets = torch.atleast_2d(value), torch.atleast_1d(target)[:, None]
    classes = torch.arange(rows.shape[1], device=rows.device)
    above = margin - rows.gather(1, targets) + rows
    above = torch.where((above > 0) & (classes != targets), above, 0)
    added = above if p == 1 else above * above
    if weight is not None:
        added = added * weight[targets]
    loss = added.sum(1) / rows.shape[1]
    return _reduced(loss, reduction).reshape(target.shape if reduction == 0 else ())


def multilabel_margin_loss(value: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """
    `aten.multilabel_margin_loss_forward`: how far other classes come near to each row's targets,
    which are its numbers before the first negative one; and which classes are targets.
    """
    rows, targets = torch.atleast_2d(value), torch.atleast_2d(target)
    classes = torch.arange(rows.shape[1], device=rows.device)
    counts = (targets >= 0).cumprod(-1) != 0
    targets = torch.where(counts, targets, 0)
    is_target = ((targets[..., None] == classes) & counts[..., None]).any(-2)
    above = 1 - rows.gather(-1, targets)[..., None] + rows[:, None]
    added = (above > 0) & counts[..., None] & ~is_target[:, None]
    loss = torch.where(added, above, 0).sum((-2, -1)) / rows.shape[1]
    loss = _reduced(loss, reduction).reshape(value.shape[:-1] if reduction == 0 else ())
    return loss, is_target.to(value.dtype).reshape(value.shape)


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    if reduction == Reduction.MEAN.value:
        return loss.mean()
    return loss.sum() if reduction == Reduction.SUM.value else loss


MARGINS: Mapping[OpOverload, Callable[..., object]] = {
    torch.ops.aten.multi_margin_loss.default: multi_margin_loss,
    torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss,
}


def margins_of_eager() -> AbstractContextManager[None]:
    """PyTorch takes margin losses apart by these functions."""
    kernels = {op: {**op.py_kernels, DispatchKey.Autograd: f} for op, f in MARGINS.items()}
    return python_kernels(kernels)
