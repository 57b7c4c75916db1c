"""
Barriers between what threads write to shared memory and products of warpgroups that read it.

Those read through the asynchronous proxy: it sees what a thread wrote only if the thread executes a
fence after the write and before the barrier that the readers wait at.
"""

from __future__ import annotations

from collections.abc import Collection

from dlc.analysis.kernel.conflicts import Conflict, conflicts
from dlc.analysis.kernel.slots import Barrier, Slots
from dlc.dialects import kernel
from dlc.dialects.kernel_wgmma import WgmmaOpBase


def crossing_barriers(func: kernel.FuncOp, slots: Slots) -> list[Barrier]:
    """The barriers of a kernel in front of which threads need a fence, in order."""
    barriers = [op for op in func.walk() if isinstance(op, Barrier)]
    if not any(isinstance(op, WgmmaOpBase) for op in func.walk()):
        return []
    found = [barrier for barrier in barriers if _crossed(func, slots, (barrier,))]
    others = [barrier for barrier in barriers if barrier not in found]
    # Where one of two barriers would do, neither was found.
    return barriers if others and _crossed(func, slots, others) else found


def _crossed(func: kernel.FuncOp, slots: Slots, barriers: Collection[Barrier]) -> bool:
    """True if some barriers alone separate a write by a thread and a product that reads it."""
    return any(map(_is_from_thread, conflicts(func, slots, frozenset(barriers))))


def _is_from_thread(conflict: Conflict) -> bool:
    first, second = conflict.first, conflict.second
    return first.writes and isinstance(second.op, WgmmaOpBase) and not second.is_landing
