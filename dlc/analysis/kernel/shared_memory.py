"""The places of a kernel's buffers in the shared memory of a block."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from dlc.analysis.kernel.block_parts import parts_of
from dlc.analysis.kernel.layout import alignment_of
from dlc.dialects import kernel
from dlc.dialects.kernel_tma import TmaLoadOpBase
from dlc.dialects.layouts import PERIOD, span_bytes
from dlc.target import MBARRIER_BYTES, TMA_ALIGNMENT


def alignment_in(ref: SSAValue) -> int:
    """Bytes that divide the address of a buffer, as its layout and those who read it want."""
    type = ref.type
    assert isinstance(type, MemRefType)
    wanted = [alignment_of(type)]
    for use in ref.uses:
        if isinstance(op := use.operation, kernel.MatrixDescriptorOp):
            wanted.append(PERIOD * op.fields[2])
        elif isinstance(op, TmaLoadOpBase | kernel.TmaStoreOp):
            wanted.append(TMA_ALIGNMENT)
    return max(wanted)


def shared_slots(func: kernel.FuncOp) -> tuple[dict[SSAValue, int], int]:
    """
    The offset in bytes of every buffer, and the total. What different parts of the blocks use lies
    in one place.
    """
    slots: dict[SSAValue, int] = {}
    parts = [part.op for part in parts_of(func)]
    others = [op for op in func.body.block.ops if op not in parts]
    first = end = _lay(others, 0, slots)
    for part in parts:
        end = max(end, _lay([part], first, slots))
    return slots, end


def _lay(ops: Iterable[Operation], end: int, slots: dict[SSAValue, int]) -> int:
    """Gives the buffers of some operations places from an offset on; where they end."""
    for op in (inner for outer in ops for inner in outer.walk()):
        if isinstance(op, kernel.AllocSharedOp):
            type = op.result.type
            assert isinstance(type, MemRefType)
            alignment = max(TMA_ALIGNMENT, alignment_in(op.result))
            slots[op.result] = -(-end // alignment) * alignment
            end = slots[op.result] + span_bytes(type)
        elif isinstance(op, kernel.AllocMbarriersOp):
            slots[op.result] = -(-end // MBARRIER_BYTES) * MBARRIER_BYTES
            end = slots[op.result] + op.count.value.data * MBARRIER_BYTES
    return end
