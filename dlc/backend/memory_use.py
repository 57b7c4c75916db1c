"""The memory that a program needs beside its arguments: planned, at least, and in eager PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from dlc.analysis.kernel.placement import Buffer, live_bytes
from dlc.backend.bound_program import (
    Allocate,
    BoundProgram,
    For,
    If,
    Launch,
    Select,
    Slice,
    Step,
    While,
    bodies_of,
    flat,
)
from dlc.dialects import flow
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.main_function import main_of
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
        used = _Uses()
        used.visit(program.steps)
        steps = list(flat(program.steps))
        slices = [s for s in steps if isinstance(s, Slice)]
        lives = [Buffer(s.layout.bytes, used.first[s.number], used.last[s.number]) for s in slices]
        workspaces = {s.memory for s in slices}
        made = [s for s in steps if isinstance(s, Allocate)]
        return MemoryUse(
            sum(b.size for b in lives),
            live_bytes(lives),
            sum(a.layout.bytes for a in made if a.number in workspaces),
            sum(a.layout.bytes for a in made if a.number not in workspaces),
        )


class _Uses:
    """When each buffer is used, in launches and ends of control flow."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self._now = 0
        self._places: dict[int, tuple[int, ...]] = {}
        """The buffers that one is a part of, or another name of."""

    def visit(self, steps: Sequence[Step]) -> list[int]:
        """Follows steps; the buffers that they use."""
        used: list[int] = []
        for step in steps:
            self._now += 1
            match step:
                case Launch():
                    used += self._use(step.inputs + step.outputs)
                case Select():
                    self._places[step.number] = self._places.get(step.whole, (step.whole,))
                case For() | While():
                    used += self._loop(step)
                case If():
                    used += self._use([step.flag])
                    used += [n for body in bodies_of(step) for n in self.visit(body)]
                case _:
                    pass
        return used

    def _use(self, numbers: Sequence[int]) -> list[int]:
        used = [place for n in numbers for place in self._places.get(n, (n,))]
        for number in used:
            self.first.setdefault(number, self._now)
            self.last[number] = self._now
        return used

    def _loop(self, step: For | While) -> list[int]:
        begin, carry = self._now, step.carry
        places = self._use(carry.inits)
        for names in (*carry.names, carry.results):
            self._places.update(dict.fromkeys(names, tuple(places)))
        used = [*places, *(n for body in bodies_of(step) for n in self.visit(body))]
        self._now += 1
        for number in used:
            if self.first[number] <= begin:
                self.last[number] = self._now
        return used


def eager_peak(module: ModuleOp) -> int:
    """
    The most bytes of tensors that are alive at once when PyTorch runs a module of Torch IR op by
    op, arguments excluded: each from the operation that makes it to the last that uses it or a view
    of it. What operations need inside themselves is not counted, so eager needs at least this.
    """
    main = main_of(module)
    ops = list(main.body.block.ops)
    roots: dict[SSAValue, SSAValue] = {}
    last: dict[SSAValue, int] = {}
    first: dict[SSAValue, int] = {}
    for step, op in enumerate(ops):
        for value in (value for inner in op.walk() for value in inner.operands):
            last[roots.get(value, value)] = step
        if not isinstance(op, (AtenOp, *flow.FLOW)):
            continue
        views = isinstance(op, AtenOp) and op.operands and _gives_views(op)
        base = op.operands[0] if views else None
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
