"""What a user of a program gets: its results, views and mutated arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dlc.ir.leaves import Output


@dataclass(frozen=True)
class Row:
    """A leaf of the user's output, by its number, or what is left in an argument, by its name."""

    label: str
    what: str
    """What it is beside a tensor of its own."""
    of: Output | None
    """Where its tensor is; None if it is none."""


def tensors_of(
    written: Sequence[int | None],
    rows: Sequence[Row],
    results: Sequence[torch.Tensor],
    arguments: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """
    The tensors of the rows that have one, for the results of `@main`, each of which is the new
    value of an argument that is `written`, if any; no argument changes.
    """
    left = list(arguments)
    for argument, result in zip(written, results, strict=True):
        if argument is not None:
            given = arguments[argument]
            dtype = result.dtype if result.element_size() != given.element_size() else given.dtype
            left[argument] = torch.empty_strided(
                given.shape, given.stride(), dtype=dtype, device=given.device
            ).copy_(result.view(dtype))
    return [row.of.tensor(results, left) for row in rows if row.of is not None]
