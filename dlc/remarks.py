"""
Remarks: what a pass did to a kernel, or why it declined.

A pass calls `remark`; a tool that wants to show them runs the pipeline inside `collect`:

    with collect() as remarks:
        pipeline.apply(ctx, module)
    for r in remarks:
        print(r)        # double-buffer: k_mm: skipped, 2 x 41472 B > 49152 B of shared memory
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Remark:
    """One sentence of one pass on one kernel; an empty kernel name stands for the module."""

    pass_name: str
    kernel: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.pass_name, self.kernel, self.text) if part)


_collector: ContextVar[list[Remark] | None] = ContextVar("dlc_remarks", default=None)


def remark(pass_name: str, kernel: str, text: str) -> None:
    """Report `text`; nothing happens where no one collects."""
    if (collected := _collector.get()) is not None:
        collected.append(Remark(pass_name, kernel, text))


@contextmanager
def collect() -> Iterator[list[Remark]]:
    """Collect remarks in order, in this thread or task; an inner collector hides the outer one."""
    collected: list[Remark] = []
    token = _collector.set(collected)
    try:
        yield collected
    finally:
        _collector.reset(token)
