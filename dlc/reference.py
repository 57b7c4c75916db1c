"""Torch IR evaluated by PyTorch itself, in the program's dtypes or in fp64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from dlc.backend.executor import main_of, torch_dtype
from dlc.diagnostics import fail
from dlc.dialects.torch import Argument, AtenOp

_VIEWS = ("view.default", "_unsafe_view.default")


def evaluate(
    module: ModuleOp,
    arguments: Sequence[torch.Tensor],
    *,
    double: bool = False,
    disturb: Callable[[torch.Tensor], torch.Tensor] = lambda t: t,
) -> list[torch.Tensor]:
    """
    The results of `@main`, each `torch.aten` being a call of that overload. With `double`, every
    floating-point tensor is fp64, casts to other floating-point types included. `disturb` is
    applied to every argument and every result of an operation.
    OpError for any other operation, and for an overload that this PyTorch does not have.
    """
    main = main_of(module)
    widened = [disturb(_widen(t) if double else t) for t in arguments]
    values: dict[SSAValue, Any] = dict(zip(main.body.block.args, widened, strict=True))
    with torch.no_grad():
        for op in main.body.block.ops:
            if isinstance(op, func.ReturnOp):
                return [values[v] for v in op.operands]
            if not isinstance(op, AtenOp):
                fail(op, f"expected torch.aten in @main, found '{op.name}'")
            outputs = _call(op, values, double)
            values.update(zip(op.results, map(disturb, outputs), strict=True))
    fail(main, "expected func.return at the end of @main, found none")


def _call(op: AtenOp, values: dict[SSAValue, Any], double: bool) -> list[torch.Tensor]:
    overload = _overload(op)
    given: dict[str, Any] = {}
    for argument in overload._schema.arguments:
        if (value := op.operand(argument.name)) is not None:
            given[argument.name] = values[value]
        elif items := op.operand_list(argument.name):
            given[argument.name] = [None if v is None else values[v] for v in items]
        elif argument.name in op.arguments.data:
            value = op.argument(argument.name)
            given[argument.name] = _dtype(value, double) if argument.name == "dtype" else value
        elif not argument.has_default_value():
            given[argument.name] = None  # an absent tensor
    if op.overload.data == "rms_norm.default" and given.get("eps") is None:
        # None stands for the epsilon of the program's dtype, whatever dtype is computed in.
        kind = op.results[0].type
        assert isinstance(kind, TensorType)
        given["eps"] = torch.finfo(torch_dtype(kind.element_type)).eps
    if op.overload.data in _VIEWS:
        # Torch IR says nothing of strides, so a tensor may lie as no view of that shape can.
        return [given["self"].reshape(given["size"])]
    result = overload(**given)
    outputs = list(result) if isinstance(result, list | tuple) else [result]
    return [_widen(t) if double else t for t in outputs]


def _overload(op: AtenOp) -> Any:
    name, _, overload = op.overload.data.partition(".")
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, overload, None)
    if found is None:
        fail(op, f"PyTorch {torch.__version__} has no operation aten.{op.overload.data}")
    return found


def _dtype(value: Argument, double: bool) -> torch.dtype | None:
    if value is None:
        return None
    dtype = getattr(torch, str(value))
    return torch.float64 if double and dtype.is_floating_point else dtype


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
