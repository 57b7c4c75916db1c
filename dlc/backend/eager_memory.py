"""The memory that a program needs beside its arguments in eager PyTorch."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from dlc.analysis.kernel.placement import Buffer, live_bytes
from dlc.dialects import flow
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.main_function import main_of
from dlc.dialects.torch import AtenOp


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
