"""
Where threads need a fence between their accesses of shared memory and asynchronous ones.

Products of warpgroups read through the asynchronous proxy: it sees what a thread wrote only if the
thread executes a fence after the write and before the barrier that the readers wait at. Boxes are
written through it, too: one may land in a slot before a thread has read what was there, if no fence
stands between the load and the arrival that frees the slot (PTX ISA, "Async proxy").
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import scf
from xdsl.ir import Operation

from dlc.analysis.kernel.conflicts import Conflict, conflicts
from dlc.analysis.kernel.slots import Barrier, Slots
from dlc.dialects import kernel
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.kernel_wgmma import MatrixDescriptorOp, WgmmaOpBase


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


def releases_of_read_slots(func: kernel.FuncOp) -> list[Operation]:
    """
    What frees slots that threads have read and boxes are written to, in order: the operation in
    front of which all lanes of a warp come by.
    """
    boxes = {op.target for op in func.walk() if isinstance(op, TmaLoadOpBase)}
    reading = {use.operation for box in boxes for use in box.uses if _is_of_threads(use.operation)}
    arrivals = [op for op in func.walk() if isinstance(op, _ARRIVES)]
    found = [_release(arrival, reading) for arrival in arrivals] if reading else []
    return [op for op in found if op is not None]


_ARRIVES = kernel.MbarrierArriveOp | kernel.MbarrierArriveAtOp


def _is_of_threads(op: Operation) -> bool:
    boxes = TmaLoadOpBase | kernel.TmaStoreOp
    return not isinstance(op, boxes | WgmmaOpBase | MatrixDescriptorOp)


def _release(arrival: Operation, reading: Collection[Operation]) -> Operation | None:
    """The arrival, or what it is conditional on, if what reads stands before it in its block."""
    around: Operation | None = arrival
    while around is not None:
        first, before = around, around.prev_op
        while before is not None:
            if isinstance(before, kernel.SyncWarpOp):
                first = before
            if any(op in reading for op in before.walk()):
                return first
            before = before.prev_op
        parent = around.parent_op()
        around = parent if isinstance(parent, scf.IfOp) else None
    return None
