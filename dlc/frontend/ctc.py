"""The loss of connectionist temporal classification, whose shapes are those of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import scan

NEVER = -torch.inf


def as_tensor(lengths: Tensor | Sequence[int], like: Tensor) -> Tensor:
    if isinstance(lengths, Tensor):
        return lengths.reshape(-1).long()
    return torch.tensor(lengths, device=like.device).reshape(-1)


def padded(targets: Tensor, lengths: Tensor) -> Tensor:
    """A row for each target; those that stand one after the other are taken apart."""
    if targets.dim() > 1:
        return targets.long()
    place = torch.arange(len(targets), device=targets.device)
    begins = lengths.cumsum(0) - lengths
    return targets.long()[(begins[:, None] + place).clamp(max=max(len(targets) - 1, 0))]


def log_of_sum(*parts: Tensor) -> Tensor:
    """The logarithm of a sum of numbers by their logarithms, of which all may be -inf."""
    largest = torch.stack(parts).amax(0)
    largest = torch.where(largest == NEVER, 0, largest)
    total = parts[0].sub(largest).exp()
    for part in parts[1:]:
        total = total + part.sub(largest).exp()
    return total.log() + largest


def moved(alpha: Tensor, steps: int) -> Tensor:
    """Each place has what was so many places before it, the first ones nothing."""
    return torch.nn.functional.pad(alpha, (steps, 0), value=NEVER)[:, : alpha.shape[1]]


def losses(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, lengths: Tensor, blank: int
) -> Tensor:
    """The loss of each sequence (Graves and others, 2006, section 4.1)."""
    rows = padded(targets, lengths)
    count, longest = rows.shape
    blanks = torch.full((count, longest, 1), blank, device=rows.device)
    labels = torch.cat([blanks, rows[..., None]], 2).reshape(count, 2 * longest)
    labels = torch.cat([labels, blanks.new_full((count, 1), blank)], 1)
    inside = (labels >= 0) & (labels < log_probs.shape[2])
    labels = torch.where(inside, labels, blank)  # beyond a target's length they may be anything
    before = torch.nn.functional.pad(labels, (2, 0), value=blank)[:, : labels.shape[1]]
    jumps = (labels != blank) & (labels != before)
    emitted = log_probs.gather(2, labels[None].expand(log_probs.shape[0], -1, -1))
    place = torch.arange(labels.shape[1], device=rows.device)
    first = torch.where((place < 2) & (place <= 2 * lengths[:, None]), emitted[0], NEVER)
    last = input_lengths - 1

    def step(alpha: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        own, time = given
        jumped = torch.where(jumps, moved(alpha, 2), NEVER)
        following = log_of_sum(alpha, moved(alpha, 1), jumped) + own
        alpha = torch.where((time <= last)[:, None], following, alpha)
        return alpha, time.clone()

    if log_probs.shape[0] > 1:
        times = torch.arange(1, log_probs.shape[0], device=rows.device)
        first, _ = scan(step, first, (emitted[1:].clone(), times))
    end = first.gather(1, 2 * lengths[:, None])[:, 0]
    label = first.gather(1, (2 * lengths[:, None] - 1).clamp(min=0))[:, 0]
    return -log_of_sum(end, torch.where(lengths > 0, label, NEVER))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Any:
    """torch.nn.functional.ctc_loss: it asks for the largest length, and allocates by it."""
    if log_probs.dim() == 2:
        log_probs, single = log_probs[:, None], True
        targets = targets.reshape(1, -1)
    else:
        single = False
    lengths = as_tensor(target_lengths, targets)
    given = as_tensor(input_lengths, targets)
    found = losses(log_probs, targets, given, lengths, blank)
    if zero_infinity:
        found = torch.where(found == torch.inf, 0, found)
    if reduction in ("mean", 1):
        return (found / lengths.clamp(min=1)).mean()
    if reduction in ("sum", 2):
        return found.sum()
    return found[0] if single else found
