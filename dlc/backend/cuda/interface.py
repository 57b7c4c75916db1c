"""What a launch has to know of a printed kernel: its name, parameters and shared memory."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from dlc.analysis.layout import span
from dlc.backend.cuda.c_text import c_type, kernel_name
from dlc.backend.cuda.liveness import live_ops, memref
from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.access import element_type

STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel may declare (CUDA C++ Programming Guide, 7.2)."""
SLOT_ALIGNMENT = 128
"""Alignment of buffers in dynamic shared memory, in bytes: that of a box of the TMA unit."""


def parameter_types(func: kernel.FuncOp) -> list[str]:
    """The C types of a kernel's parameters, inputs first."""
    inputs = [f"const {c_element(ref, func)}*" for ref in func.input_refs]
    return inputs + [f"{c_element(ref, func)}*" for ref in func.output_refs]


def shared_bytes(func: kernel.FuncOp) -> int:
    """The bytes of shared memory of a block, static or dynamic."""
    return shared_slots(func, live_ops(func))[1]


def dynamic_shared_bytes(func: kernel.FuncOp) -> int:
    """The bytes of shared memory to ask for at the launch: 0 where all of it is static."""
    total = shared_bytes(func)
    return total if total > STATIC_SHARED_LIMIT else 0


def c_name(func: kernel.FuncOp) -> str:
    """The kernel's name in C: its own, unless that is one of the C library's."""
    return kernel_name(func.name_)


def shared_slots(func: kernel.FuncOp, live: set[Operation]) -> tuple[dict[SSAValue, int], int]:
    """The offset in bytes of every live shared buffer, and the total."""
    slots: dict[SSAValue, int] = {}
    end = 0
    for op in func.walk():
        if isinstance(op, kernel.AllocSharedOp) and op in live:
            slots[op.result] = -(-end // SLOT_ALIGNMENT) * SLOT_ALIGNMENT
            end = slots[op.result] + _bytes(op.result)
    return slots, end


def _bytes(ref: SSAValue) -> int:
    return span(memref(ref)) * kernel.element_bytes(element_type(ref.type))


def c_element(ref: SSAValue, op: Operation) -> str:
    """The C type of a memref's elements."""
    name = c_type(element_type(ref.type))
    if name is None:
        fail(
            op,
            f"the CUDA printer has no C type for elements of {ref.type}",
            "f32, f64, booleans and integers of 8, 16, 32 and 64 bits have one",
        )
    return name
