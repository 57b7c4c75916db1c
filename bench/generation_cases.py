"""What is measured of generation, and how steps are timed, whoever makes them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from turns import Row

WARM_STEPS = 5


@dataclass(frozen=True)
class Case:
    """A model's configuration in bf16, rows of a batch, and tokens that the cache holds of each."""

    model: str
    config: dict[str, Any]
    rows: int
    capacity: int
    prompt: int = 64
    new: int = 64
    prefill: int = 0
    """Tokens of a prompt whose reading alone is timed; 0 for none."""
    steps: int = 50

    @property
    def name(self) -> str:
        return f"{self.model} b{self.rows}"


@dataclass(frozen=True)
class How:
    """What is wanted of all cases."""

    backend: str
    peers: tuple[str, ...]
    logits: bool
    """Whether those of the first step are held against fp32: another program to compile."""

    @property
    def device(self) -> str:
        return "cuda" if self.backend == "cuda" else "cpu"


def timed(step: Callable[[], Any], count: int, backend: str) -> Row:
    """
    Microseconds of a step: the median from the end of one to the end of the next on the device, and
    what the thread that launches them computes, of `count` steps that are queued at once.
    """
    for _ in range(WARM_STEPS):
        step()
    if backend != "cuda":
        took = []
        for _ in range(count):
            begin = time.perf_counter()
            step()
            took.append(time.perf_counter() - begin)
        return {"step_us": statistics.median(took) * 1e6}
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    spans = [a.elapsed_time(b) * 1e3 for a, b in pairwise(marks)]
    begin, cpu = time.perf_counter(), time.thread_time()
    for _ in range(count):
        step()
    issued, busy = time.perf_counter() - begin, time.thread_time() - cpu
    torch.cuda.synchronize()
    return {
        "step_us": statistics.median(spans),
        "fastest_us": min(spans),
        "host_us": busy / count * 1e6,
        "issued_us": issued / count * 1e6,
    }


def waits(step: Callable[[], Any]) -> str:
    """What of a step waits for the GPU, by PyTorch; empty for nothing."""
    with told_of_waiting():
        try:
            step()
        except RuntimeError as error:
            return str(error).splitlines()[0]
    return ""


@contextmanager
def told_of_waiting() -> Iterator[None]:
    """PyTorch raises RuntimeError where it would wait for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
