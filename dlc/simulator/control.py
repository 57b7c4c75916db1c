"""Scalar operations, loops and conditions as steps of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.ir import Operation

from dlc.dialects import kernel
from dlc.simulator.expressions import Index
from dlc.simulator.hazards import Hazard
from dlc.simulator.machine import Step, first_of
from dlc.simulator.scalars import Value, blend, constant_of, divides, function_of

if TYPE_CHECKING:
    from dlc.simulator.steps import Program


def constant(program: Program, op: arith.ConstantOp) -> Step:
    values, slot, value = program.machine.values, program.slot(op.result), constant_of(op)

    def step() -> None:
        values[slot] = value

    return step


def block_id(program: Program, op: kernel.BlockIdOp) -> Step:
    machine, slot = program.machine, program.slot(op.result)

    def step() -> None:
        ids = machine.block_ids
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
    function = function_of(op)
    operands = program.slots(op.operands)
    if len(operands) == 1:
        (a,) = operands

        def unary() -> None:
            values[result] = function(values[a])

        return unary
    if len(operands) == 2:
        a, b = operands
        checked = divides(op)

        def binary() -> None:
            if checked:
                _check_divisor(program, op, values[b])
            values[result] = function(values[a], values[b])

        return binary

    def apply() -> None:
        values[result] = function(*(values[o] for o in operands))

    return apply


def _check_divisor(program: Program, op: Operation, divisor: Value) -> None:
    bad = np.broadcast_to(np.asarray(divisor == 0), program.machine.lanes)[program.machine.active]
    if bad.any():
        lane = int(program.machine.active[first_of(bad)])
        raise program.machine.hazard("arithmetic", op, "an integer is divided by 0", [lane])


def _check_step(program: Program, op: scf.ForOp, step: Index) -> None:
    """A loop must get on, or it runs for ever."""
    steps = np.broadcast_to(step, program.machine.lanes)[program.machine.active]
    if (steps <= 0).any():
        at = first_of(steps <= 0)
        sentence = f"the step of a loop must be positive, found {int(steps[at])}"
        raise program.machine.hazard("arithmetic", op, sentence, [int(program.machine.active[at])])


def for_loop(program: Program, op: scf.ForOp) -> Step:
    machine, values = program.machine, program.machine.values
    lb, ub, by = program.slots([op.lb, op.ub, op.step])
    index, *carried = program.slots(op.body.block.args)
    initial, results = program.slots(op.iter_args), program.slots(op.res)
    body = program.block(op.body.block)
    end = op.body.block.last_op
    yielded = program.slots(end.operands) if isinstance(end, scf.YieldOp) else []

    def turn(trip: int, at: Index) -> None:
        machine.iteration[-1] = trip
        values[index] = at
        if machine.tick is not None:
            machine.tick()
        for step in body:
            step()

    def step() -> None:
        first, last, stride = values[lb], values[ub], values[by]
        _check_step(program, op, stride)
        if carried:
            _assign(values, carried, initial)
        machine.iteration.append(0)
        if isinstance(first, int) and isinstance(last, int) and isinstance(stride, int):
            for at in range(first, last, stride):
                turn(at, at)
                if carried:
                    _assign(values, carried, yielded)
        else:
            _differing(program, turn, (first, last, stride), carried, yielded)
        machine.iteration.pop()
        if carried:
            _assign(values, results, carried)

    return step


def _differing(
    program: Program,
    turn: Callable[[int, Index], None],
    bounds: tuple[Index, Index, Index],
    carried: list[int],
    yielded: list[int],
) -> None:
    """A loop whose bounds differ among threads: runs until the last thread is done."""
    machine, values = program.machine, program.machine.values
    at, last, stride = bounds
    mask, trip = machine.mask, 0
    while True:
        here = np.broadcast_to(at < last, machine.lanes)
        here = here if mask is None else here & mask
        if not here.any():
            break
        machine.activate(here)
        turn(trip, at)
        new = [blend(here, values[y], values[c]) for y, c in zip(yielded, carried, strict=True)]
        for slot, value in zip(carried, new, strict=True):
            values[slot] = value
        at, trip = at + stride, trip + 1
    machine.activate(mask)


def if_else(program: Program, op: scf.IfOp) -> Step:
    machine, values = program.machine, program.machine.values
    condition, results = program.slot(op.cond), program.slots(op.output)
    bodies: list[list[Step]] = []
    yields: list[list[int]] = []
    for region in (op.true_region, op.false_region):
        block = region.block if region.blocks else None
        bodies.append([] if block is None else program.block(block))
        end = None if block is None else block.last_op
        yields.append(program.slots(end.operands) if isinstance(end, scf.YieldOp) else [])

    def branch(number: int) -> list[Value]:
        for step in bodies[number]:
            step()
        return [values[slot] for slot in yields[number]]

    def step() -> None:
        holds: Any = values[condition]
        if np.ndim(holds):
            active = holds[machine.active]
            differs = active.any() and not active.all()
            if not differs:
                holds = bool(active.any())
        if np.ndim(holds) == 0:
            chosen = branch(0 if holds else 1)
        else:
            mask = machine.mask
            machine.activate(machine.narrowed(holds))
            first = branch(0)
            machine.activate(~holds if mask is None else mask & ~holds)
            second = branch(1)
            machine.activate(mask)
            pairs = zip(first, second, strict=True)
            chosen = [blend(holds, a, b) for a, b in pairs]
        for slot, value in zip(results, chosen, strict=True):
            values[slot] = value

    return step


def _assign(values: list[Value], targets: Sequence[int], sources: Sequence[int]) -> None:
    new = [values[s] for s in sources]
    for slot, value in zip(targets, new, strict=True):
        values[slot] = value
