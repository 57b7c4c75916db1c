"""
How much a kernel asks for before the one ahead of it has ended.

What it waits for takes some microseconds, in which memory brings a few megabytes: a part of the L2
cache holds them all, beside what the kernel ahead reads and writes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from xdsl.ir import SSAValue

from dlc.dialects.kernel_func import FuncOp
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.layouts import span_bytes
from dlc.target import LINE_BYTES, Target

HELD = 4
"""One of so many parts of the L2 cache."""


def bytes_ahead(func: FuncOp, ref: SSAValue, asked: Sequence[SSAValue], target: Target) -> int:
    """
    Bytes, whole lines, that a block asks for of its share of an input that is among those `asked`
    for: as many as fill that part if all blocks that may run at once ask.
    """
    blocks = max(func.grid_size, 1)
    running = min(blocks, target.sms * (target.threads_per_sm // func.block_size))
    size, total = _bytes(ref), sum(map(_bytes, asked))
    room = target.l2_bytes / HELD * size / max(total, 1) / running
    return max(ceil(min(room, size / blocks) / LINE_BYTES), 1) * LINE_BYTES


def _bytes(ref: SSAValue) -> int:
    return span_bytes(memref_of(ref))
