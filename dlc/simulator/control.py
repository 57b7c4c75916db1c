"""Scalar operations, loops and conditions as steps of a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation

from dlc.dialects import kernel
from dlc.simulator.divergence import AllEnd, Step, Wait, execute
from dlc.simulator.executable import Program
from dlc.simulator.expressions import Index
from dlc.simulator.hazards import Hazard
from dlc.simulator.scalars import Value, blend, constant_of, divides, function_of


def constant(program: Program, op: arith.ConstantOp) -> Step:
    machine, slot, value = program.machine, program.slot(op.result), constant_of(op)

    def step() -> None:
        machine.values[slot] = np.repeat(value, machine.lanes, axis=0) if np.ndim(value) else value

    return step


def block_id(program: Program, op: kernel.BlockIdOp) -> Step:
    machine, slot = program.machine, program.slot(op.result)

    def step() -> None:
        ids = machine.block_ids - op.before
        machine.values[slot] = int(ids[0]) if len(ids) == 1 else ids[machine.block_of]

    return step


def thread_id(program: Program, op: kernel.ThreadIdOp) -> Step:
    machine, slot = program.machine, program.slot(op.result)

    def step() -> None:
        machine.values[slot] = 0 if machine.threads == 1 else machine.thread_of

    return step


def index(program: Program, op: kernel.IndexOp) -> Step:
    values, slot = program.machine.values, program.slot(op.result)
    subscripts = program.index(op.map, op.indices)

    def step() -> None:
        (values[slot],) = subscripts()

    return step


def test(program: Program, op: kernel.TestOp) -> Step:
    values, slot = program.machine.values, program.slot(op.result)
    holds = program.where(op.conditions, op.indices)

    def step() -> None:
        values[slot] = holds()

    return step


def select(program: Program, op: kernel.SelectOp) -> Step:
    values, slot = program.machine.values, program.slot(op.result)
    a, b = program.slot(op.value), program.slot(op.default)
    holds = program.where(op.conditions, op.indices)

    def step() -> None:
        values[slot] = blend(holds(), values[a], values[b])

    return step


def scalar(program: Program, op: Operation) -> Step:
    if op.regions or len(op.results) != 1:
        raise Hazard("not checked", op, f"the interpreter does not know '{op.name}'")
    values, result = program.machine.values, program.slot(op.results[0])
    function, operands, checked = function_of(op), program.slots(op.operands), divides(op)

    def step() -> None:
        given = [values[operand] for operand in operands]
        if checked:
            _refuse(program, op, given[1] == 0, given[1], "an integer is divided by {}")
        values[result] = function(*given)

    return step


def _refuse(program: Program, op: Operation, bad: Any, value: Value, sentence: str) -> None:
    """A hazard if a value is bad in some active lane."""
    machine = program.machine
    if len(lanes := machine.where(bad)):
        found = int(np.ravel(machine.of(value, lanes))[0])
        raise machine.hazard("arithmetic", op, sentence.format(found), lanes[:1])


def _yielded(program: Program, block: Block | None) -> list[int]:
    """The slots of what a block yields."""
    end = None if block is None else block.last_op
    return program.slots(end.operands) if isinstance(end, scf.YieldOp) else []


def for_loop(program: Program, op: scf.ForOp) -> Step:
    machine, values = program.machine, program.machine.values
    lb, ub, by = program.slots([op.lb, op.ub, op.step])
    index, *carried = program.slots(op.body.block.args)
    initial, results = program.slots(op.iter_args), program.slots(op.res)
    body, yielded = program.block(op.body.block), _yielded(program, op.body.block)

    def step() -> Iterator[Wait]:
        at, stride, outer = values[lb], values[by], machine.mask
        sentence = "the step of a loop must be positive, found {}"
        _refuse(program, op, stride <= 0, stride, sentence)
        current = [values[slot] for slot in initial]
        machine.iteration.append(_turn(at, 0))
        while len(machine.where(goes_on := at < values[ub])):
            if isinstance(goes_on, np.ndarray):
                machine.activate(machine.narrowed(goes_on))
            values[index] = at
            for slot, value in zip(carried, current, strict=True):
                values[slot] = value
            yield from execute(body)
            current = [blend(goes_on, values[y], c) for y, c in zip(yielded, current, strict=True)]
            at = at + stride
            machine.iteration[-1] = _turn(at, machine.iteration[-1] + 1)
        machine.iteration.pop()
        machine.activate(outer)
        for slot, value in zip(results, current, strict=True):
            values[slot] = value

    return step


def _turn(at: Index, turn: int) -> int:
    """The index of a loop where it is one for all threads, else how often it has run."""
    return at if isinstance(at, int) else turn


def if_else(program: Program, op: scf.IfOp) -> Step:
    machine, values = program.machine, program.machine.values
    condition, results = program.slot(op.cond), program.slots(op.output)
    blocks = [r.block if r.blocks else None for r in (op.true_region, op.false_region)]
    bodies = [[] if block is None else program.block(block) for block in blocks]
    yields = [_yielded(program, block) for block in blocks]

    def step() -> Iterator[Wait]:
        outer = machine.mask
        holds: Any = values[condition]
        if np.ndim(holds):
            active = holds[machine.active]
            if active.all() or not active.any():
                holds = bool(active.any())
        chosen: list[list[Value]] = []
        ended = 0
        for wanted, body, slots in zip((True, False), bodies, yields, strict=True):
            if np.ndim(holds):
                machine.activate(outer)
                machine.activate(machine.narrowed(holds == wanted))
            elif bool(holds) != wanted:
                continue
            try:
                yield from execute(body)
            except AllEnd:
                ended += 1
            chosen.append([values[slot] for slot in slots])
        machine.activate(outer)
        if ended and not len(machine.active):
            raise AllEnd
        if len(chosen) == 2:
            chosen[0] = [blend(holds, a, b) for a, b in zip(*chosen, strict=True)]
        for slot, value in zip(results, chosen[0], strict=True):
            values[slot] = value

    return step
