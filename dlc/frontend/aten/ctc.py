"""The loss of connectionist temporal classification, whose shapes are those of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import scan
from torch.nn import functional as F

from dlc.frontend.aten.stand_ins import StandIn, check

NEVER = -torch.inf
Lengths = Tensor | Sequence[int]


def check_lengths(
    log_probs: Tensor, targets: Tensor, given: Lengths, lengths: Lengths, *options: Any
) -> None:
    """Raises what PyTorch does, but for lengths that are tensors: those are zeros to it here."""
    numbers = replace(StandIn.of(log_probs), dtype=torch.float32)  # it has kernels for few dtypes
    labels = replace(StandIn.of(targets), value=0)
    if targets.dim() == 1 and isinstance(lengths, Tensor):
        labels = replace(labels, shape=(0,))  # it expects as many as the lengths sum up to
    both = (
        replace(StandIn.of(x), value=0) if isinstance(x, Tensor) else x for x in (given, lengths)
    )
    check(F.ctc_loss, numbers, labels, *both, *options)


def as_tensor(lengths: Lengths, largest: int, like: Tensor) -> Tensor:
    """Each is an index of the numbers up to the largest, so that it is bounded as indices are."""
    if isinstance(lengths, Tensor):
        lengths = lengths.reshape(-1).long()
        return torch.arange(largest + 1, device=like.device).index_select(0, lengths)
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
    # Where no time is given, nothing has been read: that is certain for an empty target.
    nothing = torch.where(place == 0, 0.0, NEVER).to(emitted)
    first = torch.where(input_lengths[:, None] > 0, first, nothing)
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
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Any:
    """torch.nn.functional.ctc_loss: it asks for the largest length, and allocates by it."""
    mode = {1: "mean", 2: "sum"}.get(reduction, "none") if isinstance(reduction, int) else reduction
    check_lengths(log_probs, targets, input_lengths, target_lengths, blank, mode)
    if log_probs.dim() == 2:
        log_probs, single = log_probs[:, None], True
        targets = targets.reshape(1, -1)
    else:
        single = False
    lengths = as_tensor(target_lengths, targets.shape[-1], targets)
    given = as_tensor(input_lengths, log_probs.shape[0], targets)
    found = losses(log_probs, targets, given, lengths, blank)
    if zero_infinity:
        found = torch.where(found == torch.inf, 0, found)
    if mode == "mean":
        return (found / lengths.clamp(min=1)).mean()
    if mode == "sum":
        return found.sum()
    return found[0] if single else found
