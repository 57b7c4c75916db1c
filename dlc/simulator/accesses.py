"""Loads, stores and cp.async as steps of a program."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from dlc.dialects import kernel
from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.kernel_memory import is_local
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Step
from dlc.simulator.scalars import Value, blend, dtype_of

if TYPE_CHECKING:
    from dlc.simulator.steps import Program


def load(program: Program, op: LoadOpBase) -> Step:
    machine, slot = program.machine, program.slot(op.result)
    subscripts, holds = program.index(op.map, op.indices), program.where(op.conditions, op.indices)
    width = _width(op.result.type)
    default = None if op.default is None else program.slot(op.default)
    zero = dtype_of(op.result.type, op).type(0)

    def otherwise() -> Value:
        value = zero if default is None else machine.values[default]
        return value[:, None] if width > 1 and np.ndim(value) == 1 else value

    if is_local(op.ref):
        local = program.local[op.ref]

        def load_local() -> None:
            where = holds()
            value = local.load(op, subscripts(), where, width)
            machine.values[slot] = value if where is True else blend(where, value, otherwise())

        return load_local
    memory = program.memory[op.ref]

    def load() -> None:
        where = holds()
        lanes = machine.where(where)
        if not len(lanes):
            machine.values[slot] = np.broadcast_to(
                otherwise(), (machine.lanes, width) if width > 1 else machine.lanes
            )
            return
        value = memory.load(op, subscripts(), lanes, width)
        if np.ndim(value) == (width > 1) or len(value) == 1 < len(lanes):
            shared_by_all = where is True or lanes is machine.active
            machine.values[slot] = value if shared_by_all else blend(where, value, otherwise())
        else:
            machine.values[slot] = machine.spread(value, lanes, otherwise())

    return load


def store(program: Program, op: StoreOpBase) -> Step:
    machine, slot = program.machine, program.slot(op.value)
    subscripts, holds = program.index(op.map, op.indices), program.where(op.conditions, op.indices)
    width = _width(op.value.type)
    if is_local(op.ref):
        local = program.local[op.ref]

        def store_local() -> None:
            value = machine.values[slot]
            local.store(op, subscripts(), holds(), value, width)

        return store_local
    memory = program.memory[op.ref]
    atomic = isinstance(op, kernel.AtomicAddOp)

    def store() -> None:
        lanes = machine.where(holds())
        if not len(lanes):
            return
        value = machine.of(machine.values[slot], lanes)
        places = subscripts()
        if atomic:
            memory.add(op, places, lanes, value)
        else:
            memory.store(op, places, lanes, value, width)

    return store


def alloc_local(program: Program, op: kernel.AllocLocalOp) -> Step:
    return program.local[op.result].allocate


def cp_async(program: Program, op: kernel.CpAsyncOp) -> Step:
    machine = program.machine
    source, target = program.memory[op.source], program.memory[op.target]
    if source.shadow is not None or op.source not in program.func.input_refs:
        raise Hazard("not checked", op, "a copy from memory that the kernel writes")
    sources, targets = program.index(op.map, op.indices), program.index(op.target_map, op.indices)
    holds = program.where(op.conditions, op.indices)
    width = op.elements.value.data

    def step() -> None:
        lanes, copied = machine.active, machine.where(holds())
        if not len(lanes):
            return
        places = targets()
        element = target.locate(op, places, lanes, width)
        target.measure(op, element, lanes, width, writes=True)
        elements, writers = target.spread(element, lanes, width)
        values = np.zeros((machine.lanes, width), target.element)
        reads = np.zeros(values.shape, np.bool_)
        reads[copied] = True
        if len(copied):
            found = source.load(op, sources(), copied, width)
            values[copied] = found[:, None] if np.ndim(found) == 1 else found
        copied_values, are_read = values[lanes].reshape(-1), reads[lanes].reshape(-1)
        program.copies.request(op, target, elements, writers, copied_values, are_read)

    return step


def commit(program: Program, op: kernel.CommitOp) -> Step:
    return lambda: program.copies.commit()


def wait(program: Program, op: kernel.WaitOp) -> Step:
    pending = op.pending.value.data
    return lambda: program.copies.wait(pending)


def _width(type: Attribute) -> int:
    """How many elements an access takes."""
    return prod(type.get_shape()) if isinstance(type, VectorType) else 1
