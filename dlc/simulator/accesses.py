"""Loads, stores and cp.async as steps of a program."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from dlc.dialects import kernel
from dlc.dialects.access import LoadOpBase, StoreOpBase
from dlc.dialects.layouts import static_shape
from dlc.simulator.cluster_memory import ClusterMemory
from dlc.simulator.divergence import Step
from dlc.simulator.executable import Program
from dlc.simulator.scalars import Value, dtype_of


def load(program: Program, op: LoadOpBase) -> Step:
    machine, slot = program.machine, program.slot(op.result)
    subscripts, holds = program.index(op.map, op.indices), program.where(op.conditions, op.indices)
    memory, width = program.memory[op.ref], _width(op.result.type)
    default = None if op.default is None else program.slot(op.default)
    zero = dtype_of(op.result.type, op).type(0)

    def otherwise() -> Value:
        value = zero if default is None else machine.values[default]
        return value[:, None] if width > 1 and np.ndim(value) == 1 else value

    def step() -> None:
        if len(lanes := machine.where(holds())):
            found = memory.load(op, subscripts(), lanes, width)
            machine.values[slot] = machine.spread(found, lanes, otherwise())
        else:
            shape = (machine.lanes, width) if width > 1 else machine.lanes
            machine.values[slot] = np.broadcast_to(otherwise(), shape)

    return step


def store(program: Program, op: StoreOpBase) -> Step:
    machine, slot = program.machine, program.slot(op.value)
    subscripts, holds = program.index(op.map, op.indices), program.where(op.conditions, op.indices)
    memory, width = program.memory[op.ref], _width(op.value.type)
    assert not isinstance(memory, ClusterMemory), "what others hold is read only"

    def step() -> None:
        if len(lanes := machine.where(holds())):
            memory.store(op, subscripts(), lanes, machine.of(machine.values[slot], lanes), width)

    return step


def alloc_local(program: Program, op: kernel.AllocLocalOp) -> Step:
    return program.memory[op.result].allocate


def cp_async(program: Program, op: kernel.CpAsyncOp) -> Step:
    machine = program.machine
    source, target = program.input(op, op.source), program.shared_or_global(op.target)
    sources, targets = program.index(op.map, op.indices), program.index(op.target_map, op.indices)
    holds = program.where(op.conditions, op.indices)
    width = op.elements.value.data

    def step() -> None:
        lanes, copied = machine.active, machine.where(holds())
        if not len(lanes):
            return
        elements, writers = target.elements(op, targets(), lanes, width)
        values = np.zeros((machine.lanes, width), target.element)
        if len(copied):
            values[copied] = source.load(op, sources(), copied, width).reshape(-1, width)
        reads = np.isin(writers, copied)
        program.copies.request(op, target, elements, writers, values[lanes].reshape(-1), reads)

    return step


def commit(program: Program, op: kernel.CommitOp) -> Step:
    return lambda: program.copies.commit()


def wait(program: Program, op: kernel.WaitOp) -> Step:
    pending = op.pending.value.data
    return lambda: program.copies.wait(pending)


def _width(type: Attribute) -> int:
    """The number of elements of an access."""
    return prod(static_shape(type)) if isinstance(type, VectorType) else 1
