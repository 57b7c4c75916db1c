"""Timing calls side by side: what a timer is, and the one of the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

from dlc_bench.subject import Call, Subject, results_of


@dataclass(frozen=True)
class Times:
    """Seconds of a call: with its tensors in the cache as far as they fit, and without."""

    warm: float
    cold: float | None = None


Waiting: TypeAlias = Callable[[int], None]
"""Is told the number of the staged call that nothing is heard from until it ends."""


class Staged(Protocol):
    """A call that is ready to be checked and timed."""

    @property
    def launches(self) -> int | None:
        """Kernels, copies and fills of a call, where they can be counted."""
        ...

    def poisoned_runs(self, expected: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        """
        The results of whatever is timed, each computed again on the subject's tensors as they were
        at first, over memory that was filled with what they must not be.
        """
        ...


class Timer(Protocol):
    """Times calls on one device."""

    @property
    def method(self) -> str:
        """How, in a few words."""
        ...

    def stage(self, call: Call, subject: Subject) -> Staged: ...

    def round(self, staged: Sequence[Any], waiting: Waiting) -> list[Times]:
        """One time of each that was staged here; `waiting` is told whose end is waited for."""
        ...


def poison(tensor: torch.Tensor, expected: torch.Tensor) -> None:
    """Fills a tensor with something that differs from what is expected everywhere."""
    expected = expected.to(tensor.device)
    if tensor.is_floating_point():
        nan = torch.full_like(tensor, torch.nan)
        tensor.copy_(torch.where(expected.isnan(), torch.zeros_like(nan), nan))
    elif tensor.dtype == torch.bool:
        tensor.copy_(~expected.bool())
    else:
        tensor.copy_(expected.to(tensor.dtype) + 1)


@contextmanager
def filled_memory() -> Iterator[None]:
    """Whatever torch allocates in here holds NaN, or the largest integer."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


class HostStaged:
    """A call on the host."""

    launches: int | None = None

    def __init__(self, call: Call, subject: Subject) -> None:
        self.call, self.subject = call, subject

    def poisoned_runs(self, expected: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
        self.subject.restore()
        with filled_memory():
            yield results_of(self.call(self.subject.tensors))


class HostTimer:
    """Wall clock of calls on the CPU; nothing is flushed."""

    method = "wall clock on the host"

    def stage(self, call: Call, subject: Subject) -> HostStaged:
        return HostStaged(call, subject)

    def round(self, staged: Sequence[HostStaged], waiting: Waiting) -> list[Times]:
        times: list[Times] = []
        for number, one in enumerate(staged):
            waiting(number)
            begin = time.perf_counter()
            one.call(one.subject.tensors)
            times.append(Times(time.perf_counter() - begin))
        return times
