"""
Which token comes next: computed where the logits are, by what is drawn for a seed and a position.

A draw does not depend on the rows beside it: a prompt gets the same tokens in any batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dlc.diagnostics import UsageError

WORD = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
"""Of Philox 4x32; Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011)."""
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

DIGIT_BITS = 4


@dataclass(frozen=True)
class Sampling:
    """
    How a token is chosen: the likeliest where `temperature` is 0. Else logits are divided by it,
    and a token is drawn from the `top_k` likeliest, of these the fewest that hold a share of
    `top_p`, and of these the ones that are at least `min_p` times as likely as the likeliest.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"expected a temperature from 0 up, found {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"expected a top k from 1 up, found {self.top_k}")
        for name, share in (("top p", self.top_p), ("min p", self.min_p)):
            if share is not None and not 0 < share <= 1:
                raise UsageError(f"expected a {name} above 0 and at most 1, found {share}")
        limits = (self.top_k, self.top_p, self.min_p)
        if self.temperature == 0 and any(limit is not None for limit in limits):
            raise UsageError("top k, top p and min p need a temperature above 0")


def choose(logits: torch.Tensor, positions: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The token (rows,) of logits (rows, vocabulary) of the tokens at `positions` (rows,)."""
    if sampling.temperature == 0:
        return logits.argmax(-1)
    scores = logits.float() / sampling.temperature
    keys = sortable(scores)
    if sampling.top_k is not None and sampling.top_k < scores.shape[1]:
        ones = torch.ones_like(scores)
        scores = _from(scores, keys, threshold(keys, ones, ones[:, 0] * sampling.top_k))
    if sampling.top_p is not None:
        shares = torch.softmax(scores, -1)
        least = threshold(keys, shares, shares.sum(-1) * sampling.top_p)
        scores = _from(scores, keys, least)
    if sampling.min_p is not None:
        shares = torch.softmax(scores, -1)
        few = shares < shares.amax(-1, keepdim=True) * sampling.min_p
        scores = scores.masked_fill(few, -torch.inf)
    noise = uniform(sampling.seed, positions, scores.shape[1])
    return (scores - torch.log(-torch.log(noise))).argmax(-1)  # Gumbel's distribution


def _from(scores: torch.Tensor, keys: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(keys < least[:, None], -torch.inf)


def sortable(x: torch.Tensor) -> torch.Tensor:
    """Integers from 0 below 2^32 in the order of the floats."""
    bits = x.view(torch.int32).to(torch.int64)
    return torch.where(bits < 0, -1 - bits, bits + 2**31)


def threshold(keys: torch.Tensor, weights: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """
    The greatest key (rows,) for which the weights of keys that are not less sum up to `wanted`
    (rows,), found digit by digit; 0 if all of them do not.
    """
    found = torch.zeros_like(keys[:, 0])
    digits = torch.arange(1, 2**DIGIT_BITS, device=keys.device)
    for shift in range(32 - DIGIT_BITS, -1, -DIGIT_BITS):
        tried = found[:, None] + (digits << shift)
        reach = torch.where(keys[:, None, :] >= tried[:, :, None], weights[:, None, :], 0).sum(-1)
        found = found + ((reach >= wanted[:, None]).sum(-1) << shift)
    return found


def uniform(seed: int, positions: torch.Tensor, count: int) -> torch.Tensor:
    """Numbers (rows, count) above 0 and below 1, by Philox 4x32-10 of column, position and seed."""
    column = torch.arange(count, device=positions.device)[None, :]
    words = [column + 0 * positions[:, None], positions[:, None] + 0 * column]
    words += [torch.zeros_like(words[0])] * 2
    key = [seed & WORD, seed >> 32 & WORD]
    for _ in range(ROUNDS):
        first, second = words[0] * MULTIPLIERS[0], words[2] * MULTIPLIERS[1]
        words = [
            (second >> 32 & WORD) ^ words[1] ^ key[0],
            second & WORD,
            (first >> 32 & WORD) ^ words[3] ^ key[1],
            first & WORD,
        ]
        key = [(word + step) & WORD for word, step in zip(key, WEYL, strict=True)]
    return ((words[0] >> 9).float() + 0.5) * 2.0**-23
