"""Runs kernels and modules of kernels on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dlc.diagnostics import fail
from dlc.dialects import host, kernel
from dlc.interpreter.buffers import Buffers
from dlc.interpreter.hazards import Hazard
from dlc.interpreter.program import Program

Array = NDArray[Any]
LANES = 1 << 13
"""About as many threads run in step."""
CELLS = 1 << 24
"""So many numbers of shadow memory at most, where a kernel's kind allows a choice."""


def run_kernel(kernel_func: kernel.FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """
    The outputs of a kernel, of the shapes and types of its memrefs; of bf16 as float32. Hazard for
    the first thing in it that is wrong, ValueError for other inputs than it takes.
    """
    program = Program(kernel_func)
    _fill(program, inputs)
    outputs = [program.memory[ref] for ref in kernel_func.output_refs]
    for ref in kernel_func.output_refs:
        program.memory[ref].allocate(zeroed=ref in kernel_func.zeroed_refs)
    step = _blocks_at_once(program)
    with np.errstate(all="ignore"):
        for first in range(0, kernel_func.grid_size, step):
            program.begin(first, min(step, kernel_func.grid_size - first))
            program.run()
    for memory in outputs:
        assert memory.shadow is not None
        missing = ~memory.shadow.written()
        if missing.any():
            place = np.unravel_index(int(np.argmax(missing)), memory.shape or (1,))
            where = ", ".join(str(i) for i in place) if memory.shape else ""
            sentence = (
                f"{int(missing.sum())} of {missing.size} elements of {memory.name} are never "
                f"written, {memory.name}[{where}] the first"
            )
            raise Hazard("unwritten", kernel_func, sentence)
    return [memory.array() for memory in outputs]


def _fill(program: Program, inputs: Sequence[Array]) -> None:
    refs = program.func.input_refs
    if len(inputs) != len(refs):
        raise ValueError(f"@{program.func.name_} takes {len(refs)} inputs, found {len(inputs)}")
    for ref, array in zip(refs, inputs, strict=True):
        memory = program.memory[ref]
        if array.shape != memory.shape or array.dtype != memory.element:
            raise ValueError(
                f"expected for {memory.name} an array {list(memory.shape)} of {memory.element}, "
                f"found {list(array.shape)} of {array.dtype}"
            )
        memory.fill(array)


def _blocks_at_once(program: Program) -> int:
    """How many blocks run in step."""
    blocks = max(1, LANES // program.machine.threads)
    if program.machine.ordered_by_clocks:
        shared = sum(memory.size for memory in program.memory.values() if memory.shared)
        cells = (shared + program.machine.actors) * program.machine.threads
        blocks = min(blocks, max(1, CELLS // max(cells, 1)))
    return blocks


def run_module(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """
    The results of `@main`, which launches kernels on tensors or, once it is planned, on buffers.
    Errors as of `run_kernel`.
    """
    main = _main_of(module)
    arguments = main.body.block.args
    if len(inputs) != len(arguments):
        raise ValueError(f"@main takes {len(arguments)} arrays, found {len(inputs)}")
    values: dict[SSAValue, Array] = dict(zip(arguments, inputs, strict=True))
    buffers = Buffers(values)
    for op in main.body.block.ops:
        match op:
            case kernel.LaunchOp(callee=kernel.FuncOp() as callee):
                outputs = run_kernel(callee, [values[v] for v in op.inputs])
                values.update(zip(op.outputs, outputs, strict=True))
            case host.LaunchOp(callee=kernel.FuncOp() as callee):
                outputs = run_kernel(callee, [buffers.read(v) for v in op.inputs])
                for buffer, array in zip(op.outputs, outputs, strict=True):
                    buffers.write(buffer, array)
            case memref.AllocOp():
                buffers.allocate(op)
            case host.ZeroOp():
                buffers.zero(op)
            case host.SliceOp():
                pass
            case func.ReturnOp():
                return [values[v] if v in values else buffers.read(v) for v in op.arguments]
            case _:
                fail(op, f"expected launches and memory in @main, found '{op.name}'")
    return []


def _main_of(module: ModuleOp) -> func.FuncOp:
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == "main" and op.body.blocks:
            return op
    fail(module, "expected a function @main, found none")
