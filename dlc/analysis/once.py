"""What a program computes once for all calls: of what is the same at each of them, alone."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from dlc.dialects.frozen import frozen_in
from dlc.dialects.kernel import LaunchOp
from dlc.dialects.kernel_op import KernelOpBase


def computed_once(main: func.FuncOp) -> Collection[Operation]:
    """
    The kernels or launches of `@main` that read nothing but what is the same at all calls, each of
    which makes tensors that kernels alone read: so these can be kept for the calls to come.
    """
    known = set(frozen_in(main))
    found: dict[Operation, None] = {}
    for op in main.body.block.ops if known else ():
        if not isinstance(op, KernelOpBase | LaunchOp) or not op.inputs:
            continue
        if known.issuperset(op.inputs) and all(map(_is_only_read, op.results)) and _makes_all(op):
            found[op] = None
            known.update(op.results)
    return found.keys()


def once_in(module: ModuleOp) -> Collection[Operation]:
    """Those of a module."""
    return {op for function in _functions(module) for op in computed_once(function)}


def kept_values(module: ModuleOp) -> Collection[SSAValue]:
    """What is the same at all calls of a module's functions, given or computed once."""
    given = {value for function in _functions(module) for value in frozen_in(function)}
    return given.union(*(op.results for op in once_in(module)))


def _functions(module: ModuleOp) -> list[func.FuncOp]:
    return [op for op in module.ops if isinstance(op, func.FuncOp) and op.body.blocks]


def _is_only_read(tensor: SSAValue) -> bool:
    readers = [use.operation for use in tensor.uses]
    kernels = [r for r in readers if isinstance(r, KernelOpBase | LaunchOp)]
    return len(kernels) == len(readers) and not any(k.changes(tensor) for k in kernels)


def _makes_all(op: KernelOpBase | LaunchOp) -> bool:
    """True for a kernel whose results need nothing of what lies in their memory before."""
    made = op.launched if isinstance(op, LaunchOp) else op
    return made is not None and not made.updated_refs and not made.zeroed_refs
