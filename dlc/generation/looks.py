"""
What the host sees of a batch on its way: copied behind the steps, while the next ones run.

A look is asked for on the stream of the steps, and taken later: so the device has its next steps
before the host waits for what the last ones made, and the host does for each look, not for each
row, what costs it time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from dlc.generation.row_steps import Rows


class Seen(NamedTuple):
    """What a row got between two looks, and True if its text has ended."""

    tokens: list[int]
    is_done: bool


class Look:
    """A copy on its way to the host of (rows, 2 + steps) numbers: new ones, done, and tokens."""

    def __init__(self, found: torch.Tensor) -> None:
        self._copy = found.to("cpu", non_blocking=True)
        self._event = torch.cuda.Event() if found.is_cuda else None
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(found.device))

    def take(self) -> list[Seen]:
        """What it shows of each row, which is waited for."""
        if self._event is not None:
            self._event.synchronize()
        return [Seen(new[:count], bool(done)) for count, done, *new in self._copy.tolist()]


class Looks:
    """Looks at rows, between which they make up to `steps` tokens each."""

    def __init__(self, rows: Rows, steps: int) -> None:
        self._rows = rows
        self._before = rows.position.clone()
        self._ahead = torch.arange(1, steps + 1, device=rows.position.device)

    def ask(self) -> Look:
        """Of what the steps make that have been asked for since the last one."""
        rows = self._rows
        places = (self._before[:, None] + self._ahead).clamp_(max=rows.capacity)
        count = rows.position - self._before
        self._before.copy_(rows.position)
        done = rows.done[:, None]
        return Look(torch.cat([count[:, None], done, rows.tokens.gather(1, places)], 1))
