"""The places of a kernel's buffers in the shared memory of a block."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from dlc.analysis.kernel.layout import alignment_of
from dlc.dialects import kernel
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
        elif isinstance(op, kernel.TmaLoadOp):
            wanted.append(TMA_ALIGNMENT)
    return max(wanted)


def shared_slots(func: kernel.FuncOp) -> tuple[dict[SSAValue, int], int]:
    """The offset in bytes of every buffer, and the total."""
    slots: dict[SSAValue, int] = {}
    end = 0
    for op in func.walk():
        if isinstance(op, kernel.AllocSharedOp):
            type = op.result.type
            assert isinstance(type, MemRefType)
            alignment = max(TMA_ALIGNMENT, alignment_in(op.result))
            slots[op.result] = -(-end // alignment) * alignment
            end = slots[op.result] + span_bytes(type)
        elif isinstance(op, kernel.AllocMbarriersOp):
            slots[op.result] = -(-end // MBARRIER_BYTES) * MBARRIER_BYTES
            end = slots[op.result] + op.count.value.data * MBARRIER_BYTES
    return slots, end
