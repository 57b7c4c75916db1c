"""The memory that a program needs beside its arguments: planned, at least, and in eager PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from dlc.analysis.kernel.placement import Buffer, live_bytes
from dlc.backend.host_program import Allocate, BoundProgram, Slice
from dlc.dialects import host
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.torch import AtenOp


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of a planned program, arguments excluded."""

    intermediates: int
    """The sum of all tensors between kernels."""
    live: int
    """The most that hold data at once: no workspace is smaller."""
    workspace: int
    results: int

    @property
    def peak(self) -> int:
        """Bytes that a call allocates."""
        return self.workspace + self.results

    @staticmethod
    def of(program: BoundProgram) -> MemoryUse:
        """The use of a program whose buffers are planned."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for step, launch in enumerate(program.launches):
            for number in launch.inputs + launch.outputs:
                first.setdefault(number, step)
                last[number] = step
        slices = [s for s in program.steps if isinstance(s, Slice)]
        lives = [Buffer(s.layout.bytes, first[s.number], last[s.number]) for s in slices]
        workspaces = {s.memory for s in slices}
        made = [s for s in program.steps if isinstance(s, Allocate)]
        return MemoryUse(
            sum(b.size for b in lives),
            live_bytes(lives),
            sum(a.layout.bytes for a in made if a.number in workspaces),
            sum(a.layout.bytes for a in made if a.number not in workspaces),
        )


def eager_peak(module: ModuleOp) -> int:
    """
    The most bytes of tensors that are alive at once when PyTorch runs a module of Torch IR op by
    op, arguments excluded: each from the operation that makes it to the last that uses it or a view
    of it. What operations need inside themselves is not counted, so eager needs at least this.
    """
    main = host.main_of(module)
    ops = list(main.body.block.ops)
    roots: dict[SSAValue, SSAValue] = {}
    last: dict[SSAValue, int] = {}
    first: dict[SSAValue, int] = {}
    for step, op in enumerate(ops):
        for value in op.operands:
            last[roots.get(value, value)] = step
        if not isinstance(op, AtenOp):
            continue
        base = op.operands[0] if op.operands and _gives_views(op) else None
        for result in op.results:
            if base is not None:
                roots[result] = roots.get(base, base)
            else:
                first[result] = step
    lives = [Buffer(_bytes(v), step, last.get(v, step)) for v, step in first.items()]
    return live_bytes(lives)


_ALSO_VIEWS = ("_unsafe_view.default",)
"""Views that say otherwise to autograd."""


def _gives_views(op: AtenOp) -> bool:
    name, _, overload = op.overload.data.partition(".")
    found: Any = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if op.overload.data in _ALSO_VIEWS:
        return True
    return found is not None and all(r.alias_info is not None for r in found._schema.returns)


def _bytes(value: SSAValue) -> int:
    assert isinstance(value.type, TensorType)
    return prod(shape_of(value)) * element_bytes(value.type.element_type)
