"""Inputs of kernels that stay as they are while a program runs, and those read in order."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from dlc.dialects import host, kernel
from dlc.dialects.host_order import Extent
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.size import in_memory


def kept_inputs(module: ModuleOp) -> dict[str, list[int]]:
    """
    By the names of kernels, the numbers of the inputs that are arguments of the program in each
    launch, which no launch of it writes.
    """
    written = {value for launch in _launches(module) for value in _written(launch)}
    found: dict[str, list[int]] = {}
    for launch in _launches(module):
        given = [_of_program(value) and value not in written for value in launch.inputs]
        before = found.get(launch.kernel_name, list(range(len(given))))
        found[launch.kernel_name] = [number for number in before if given[number]]
    return found


def _launches(module: ModuleOp) -> Iterator[host.LaunchOp | kernel.LaunchOp]:
    return (op for op in module.walk() if isinstance(op, host.LaunchOp | kernel.LaunchOp))


def _written(launch: host.LaunchOp | kernel.LaunchOp) -> Iterator[SSAValue]:
    if isinstance(launch, host.LaunchOp):
        yield from (Extent.of(value).root for value in launch.outputs)
    else:
        yield from (in_memory(value) for value in launch.inputs if launch.changes(value))


def _of_program(value: SSAValue) -> bool:
    """True for an argument of the program, and not what control flow carries."""
    return isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), func.FuncOp)


def read_in_order(ref: SSAValue) -> bool:
    """
    True if what a kernel reads of an input, and how often, is told by the numbers of blocks and
    threads alone: all of it is read, but for what lies between.
    """
    return all(_is_numbered(use.operation) for use in ref.uses)


def _is_numbered(op: Operation) -> bool:
    """True if such numbers say where an access is, and whether it is done."""
    if isinstance(op, kernel.TensorMapOp):
        return all(_is_numbered(use.operation) for use in op.result.uses)
    values = list(op.indices) if isinstance(op, IndexedOp) else [*op.operands]
    around = op.parent_op()
    while not isinstance(around, kernel.FuncOp):
        if not isinstance(around, scf.ForOp | scf.IfOp):
            return False
        values += around.operands
        around = around.parent_op()
    return all(map(_is_number, values))


def _is_number(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, Block):
        return isinstance(owner.parent_op(), scf.ForOp) and value is owner.args[0]
    if isinstance(owner, kernel.IndexOp | kernel.TestOp):
        return all(map(_is_number, owner.indices))
    return isinstance(owner, kernel.BlockIdOp | kernel.ThreadIdOp | arith.ConstantOp)
