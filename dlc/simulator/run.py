"""Runs kernels and modules of kernels on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from dlc.diagnostics import fail
from dlc.dialects import host, host_flow, kernel
from dlc.dialects.layouts import shape_of
from dlc.dialects.main_function import main_of
from dlc.dialects.size import ReshapeOp
from dlc.simulator.address_space import Memory, Observer
from dlc.simulator.buffers import Buffers
from dlc.simulator.divergence import Deadlock, divided
from dlc.simulator.executable import Program
from dlc.simulator.hazards import Hazard
from dlc.simulator.last_blocks import check_counts
from dlc.simulator.machine import Mask
from dlc.simulator.steps import step_of

Array = NDArray[Any]
MOST_HAZARDS = 20
"""So many are collected of a kernel."""
LANES = 1 << 13
"""About as many threads run in step."""
CELLS = 1 << 24
"""So many numbers of shadow memory at most, where a kernel's kind allows a choice."""


@dataclass
class Options:
    """The options of a run of a kernel."""

    blocks: Sequence[int] | None = None
    """The blocks that are run, in ascending order; None for all."""
    found: list[Hazard] | None = None
    """Gets the hazards of the kernel, a pair of operations once; None to raise the first."""
    observer: Observer | None = None
    """Sees the accesses of shared memory."""
    progress: Callable[[float], None] = lambda share: None
    """Told of the share of the blocks that have run, now and then."""


def run_kernel(
    kernel_func: kernel.FuncOp, inputs: Sequence[Array], options: Options | None = None
) -> list[Array]:
    """
    The outputs of a kernel, of the shapes and types of its memrefs; what NumPy lacks as float32.
    Hazard for the first thing in it that is wrong, or that it cannot go on after; ValueError for
    other inputs than it takes.
    """
    options = options or Options()
    groups = [np.ones(kernel_func.block_size, np.bool_)]
    while True:
        if options.found is not None:
            options.found.clear()
        try:
            outputs = _run_once(kernel_func, inputs, options, groups)
            break
        except Deadlock as deadlock:
            groups = divided(groups, deadlock)
    if len(groups) > 1:
        _run_once(kernel_func, inputs, options, groups[::-1])
    return outputs


def _run_once(
    func: kernel.FuncOp, inputs: Sequence[Array], options: Options, groups: Sequence[Mask]
) -> list[Array]:
    run = _Run(func, inputs, options)
    try:
        return run.all_blocks(groups)
    finally:
        run.program.end()


def _key(hazard: Hazard) -> object:
    """The same for hazards of one kind between the same operations."""
    return (hazard.kind, hazard.op, *(access.op for access in hazard.accesses))


class _Run:
    """One run of a kernel from the beginning."""

    def __init__(self, func: kernel.FuncOp, inputs: Sequence[Array], options: Options) -> None:
        self.func, self.options = func, options
        self.program = program = Program(func, step_of)
        _fill(program, inputs)
        for ref in func.output_refs:
            memory = program.shared_or_global(ref)
            if ref in func.updated_refs:
                memory.update()
            else:
                memory.allocate(zeroed=ref in func.zeroed_refs)
        for memory in program.memory.values():
            if memory.shared and isinstance(memory, Memory):
                memory.observer = options.observer
        if options.found is not None:
            self._known = {_key(hazard) for hazard in options.found}
            program.machine.report = self._report

    def _report(self, hazard: Hazard) -> None:
        assert self.options.found is not None
        if (key := _key(hazard)) not in self._known:
            self._known.add(key)
            self.options.found.append(hazard)
        if len(self._known) >= MOST_HAZARDS:
            raise hazard

    def all_blocks(self, groups: Sequence[Mask]) -> list[Array]:
        """The outputs; Deadlock where threads in step wait for each other."""
        program, blocks = self.program, self.options.blocks
        ids = list(range(self.func.grid_size)) if blocks is None else list(blocks)
        cluster = program.machine.cluster
        step = _blocks_at_once(program) if len(groups) == 1 else cluster
        masks = [np.tile(group, cluster) for group in groups]
        with np.errstate(all="ignore"):
            for first in range(0, len(ids), step):
                self.options.progress(first / len(ids))
                program.begin(ids[first : first + step])
                program.run(masks)
        refs = self.func.output_refs
        outputs = [program.shared_or_global(ref) for ref in refs]
        if blocks is None:
            check_counts(program)
            for ref, memory in zip(refs, outputs, strict=True):
                if ref not in self.func.partial_refs:
                    self._check_written(memory)
        return [memory.array() for memory in outputs]

    def _check_written(self, memory: Memory) -> None:
        assert memory.shadow is not None
        missing = ~memory.shadow.written()
        if missing.any():
            place = np.unravel_index(int(np.argmax(missing)), memory.distinct or (1,))
            where = ", ".join(str(i) for i in place) if memory.shape else ""
            sentence = (
                f"{int(missing.sum())} of {missing.size} elements of {memory.name} are never "
                f"written, {memory.name}[{where}] the first"
            )
            self.program.machine.report(Hazard("unwritten", self.func, sentence))


def _fill(program: Program, inputs: Sequence[Array]) -> None:
    refs = program.func.input_refs
    if len(inputs) != len(refs):
        raise ValueError(f"@{program.func.name_} takes {len(refs)} inputs, found {len(inputs)}")
    for ref, array in zip(refs, inputs, strict=True):
        memory = program.shared_or_global(ref)
        if array.shape != memory.shape or array.dtype != memory.element:
            raise ValueError(
                f"expected for {memory.name} an array {list(memory.shape)} of {memory.element}, "
                f"found {list(array.shape)} of {array.dtype}"
            )
        memory.fill(array)


def _blocks_at_once(program: Program) -> int:
    """The number of blocks that run in lockstep, whole clusters of them."""
    machine = program.machine
    shared = sum(memory.size for memory in program.memory.values() if memory.shared)
    cells = (shared + machine.actors) * machine.clock.rows
    clusters = min(LANES // machine.threads, CELLS // max(cells, 1)) // machine.cluster
    return max(1, clusters) * machine.cluster


def run_module(
    module: ModuleOp,
    inputs: Sequence[Array],
    observer_of: Callable[[kernel.FuncOp], Observer | None] = lambda func: None,
) -> list[Array]:
    """
    The results of `@main`, which launches kernels on tensors or, once it is planned, on buffers;
    `observer_of` a kernel sees its accesses of shared memory. Errors as of `run_kernel`.
    """
    main = main_of(module)
    arguments = main.body.block.args
    if len(inputs) != len(arguments):
        raise ValueError(f"@main takes {len(arguments)} arrays, found {len(inputs)}")
    values: dict[SSAValue, Array] = dict(zip(arguments, inputs, strict=True))
    program = _Program(values, Buffers(values), observer_of)
    return program.run(main.body.block)


@dataclass
class _Program:
    """A host program as it runs: on tensors, or on buffers."""

    values: dict[SSAValue, Array]
    buffers: Buffers
    observer_of: Callable[[kernel.FuncOp], Observer | None]

    def run(self, block: Block) -> list[Array]:
        """Runs a block; what it returns."""
        values, buffers = self.values, self.buffers
        for op in block.ops:
            match op:
                case kernel.LaunchOp(callee=kernel.FuncOp() as callee):
                    outputs = self._launch(callee, [values[v] for v in op.inputs])
                    values.update(zip(op.outputs, outputs, strict=True))
                case host.LaunchOp(callee=kernel.FuncOp() as callee):
                    outputs = self._launch(callee, [buffers.read(v) for v in op.inputs])
                    for buffer, array in zip(op.outputs, outputs, strict=True):
                        buffers.write(buffer, array)
                case kernel.ViewOp():
                    values[op.result] = values[op.source][op.box]
                case kernel.WholeOp():
                    values[op.result] = values[op.viewed.source].copy()
                    values[op.result][op.viewed.box] = values[op.part]
                case ReshapeOp():
                    values[op.result] = values[op.source].reshape(shape_of(op.result))
                case memref.AllocOp():
                    buffers.allocate(op)
                case host.ZeroOp():
                    buffers.zero(op)
                case host.SliceOp() | host.BufferViewOp() | host_flow.SelectOp():
                    buffers.take_part(op)
                case host_flow.ForOp() | host_flow.WhileOp():
                    self._loop(op)
                case host_flow.IfOp():
                    taken = op.then if buffers.read(op.flag) else op.otherwise
                    self.run(taken.block)
                case host_flow.YieldOp():
                    pass
                case func.ReturnOp():
                    return [values[v] if v in values else buffers.read(v) for v in op.arguments]
                case _:
                    fail(op, f"expected launches and memory in @main, found '{op.name}'")
        return []

    def _launch(self, callee: kernel.FuncOp, inputs: Sequence[Array]) -> list[Array]:
        return run_kernel(callee, inputs, Options(observer=self.observer_of(callee)))

    def _loop(self, op: host_flow.LoopOp) -> None:
        current, turn = op.inits, 0
        while True:
            self.buffers.name(op.names[0], current)
            if isinstance(op, host_flow.ForOp):
                if turn == op.trips:
                    break
                self.buffers.count(op.counter, turn)
            else:
                assert isinstance(op, host_flow.WhileOp)
                self.run(op.before.block)
                if not self.buffers.read(op.flag):
                    break
                self.buffers.name(op.names[1], op.names[0])
            self.run(op.regions[-1].block)
            current, turn = op.next, turn + 1
        self.buffers.name(op.last, op.names[0])
