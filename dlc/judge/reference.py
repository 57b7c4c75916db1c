"""Torch IR evaluated by PyTorch itself, in the program's dtypes or in fp64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from dlc.backend.host_program import torch_dtype
from dlc.diagnostics import fail
from dlc.dialects.host import main_of
from dlc.dialects.torch import Argument, AtenOp
from dlc.judge.drawn_numbers import drawn

VIEWS = ("view.default", "_unsafe_view.default")


def evaluate(
    module: ModuleOp,
    arguments: Sequence[torch.Tensor],
    *,
    double: bool = False,
    disturb: Callable[[torch.Tensor, SSAValue], torch.Tensor] = lambda tensor, value: tensor,
) -> list[torch.Tensor]:
    """
    The results of `@main`, each `torch.aten` being a call of that overload. With `double`, every
    floating-point tensor is fp64, casts to other floating-point types included; an argument is for
    as long as an operation uses it, so that the weights of a model need not be there twice.
    oneDNN takes no part.
    `disturb` is applied to every value at each of its uses.
    OpError for any other operation, for an overload that this PyTorch does not have, and for what
    PyTorch refuses, as an index that is out of range.
    """
    main = main_of(module)
    body = main.body.block
    values: dict[SSAValue, torch.Tensor] = dict(zip(body.args, arguments, strict=True))
    last_use = {v: op for op in body.ops for v in op.operands}

    def use(value: SSAValue) -> torch.Tensor:
        tensor = widened(values[value]) if double else values[value]
        return disturb(tensor, value)

    with torch.no_grad(), without_onednn():
        for op in body.ops:
            if isinstance(op, func.ReturnOp):
                return [use(v) for v in op.operands]
            if not isinstance(op, AtenOp):
                fail(op, f"expected torch.aten in @main, found '{op.name}'")
            outputs = _call(op, {v: use(v) for v in op.operands}, double)
            values.update(zip(op.results, outputs, strict=True))
            for value in dict.fromkeys((*op.operands, *op.results)):
                if last_use.get(value, op) is op:
                    del values[value]
    fail(main, "expected func.return at the end of @main, found none")


@contextmanager
def without_onednn() -> Iterator[None]:
    """Within it, a CPU gives what any other does at infinity: oneDNN's GELU of it may be NaN."""
    enabled = torch._C._get_mkldnn_enabled()  # `torch.backends` warns of Intel's GPUs
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _call(op: AtenOp, values: dict[SSAValue, torch.Tensor], double: bool) -> list[torch.Tensor]:
    overload = overload_of(op)
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
    if isinstance(generator := given.get("generator"), torch.Tensor):
        kind = op.results[0].type
        assert isinstance(kind, TensorType)
        offset = op.argument("offset", 0)
        numbers = drawn(
            op.overload.data,
            {**given, "offset": offset},
            torch_dtype(kind.element_type),
            double=double,
        )
        return [numbers.to(generator.device)]
    if op.overload.data == "rms_norm.default" and given.get("eps") is None:
        given["eps"] = default_epsilon(op)
    if op.overload.data in VIEWS:
        # Torch IR says nothing of strides, so a tensor may lie as no view of that shape can.
        return [given["self"].reshape(given["size"])]
    if op.overload.data == "view_as_complex.default":
        given["self"] = given["self"].contiguous()
    try:
        result = overload(**given)
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError, ValueError) as error:
        fail(op, f"PyTorch refuses what aten.{op.overload.data} is given: {error}")
    outputs = list(result) if isinstance(result, list | tuple) else [result]
    outputs = [t.resolve_conj().resolve_neg() for t in outputs]
    return [widened(t) if double else t for t in outputs]


def default_epsilon(op: AtenOp) -> float:
    """The epsilon that None stands for in rms_norm: that of the type in which PyTorch calculates
    the program's, fp32 for halves, even where the reference is calculated in fp64."""
    kind = op.results[0].type
    assert isinstance(kind, TensorType)
    return torch.finfo(torch.promote_types(torch_dtype(kind.element_type), torch.float32)).eps


def overload_of(op: AtenOp) -> Any:
    """PyTorch's operation; OpError if this PyTorch has none of that name."""
    name, _, overload = op.overload.data.partition(".")
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, overload, None)
    if not isinstance(found, torch._ops.OpOverload):
        fail(op, f"PyTorch {torch.__version__} has no operation aten.{op.overload.data}")
    return found


def _dtype(value: Argument, double: bool) -> torch.dtype | None:
    if value is None:
        return None
    dtype = getattr(torch, str(value))
    if double and dtype.is_complex:
        return torch.complex128
    return torch.float64 if double and dtype.is_floating_point else dtype


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """A floating-point tensor in fp64, a complex one in pairs of these, another one as it is."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


class Widened(TorchDispatchMode):
    """Within it, every floating-point tensor that an operation makes is fp64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        dtype = kwargs.get("dtype")
        if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex):
            kwargs["dtype"] = torch.complex128 if dtype.is_complex else torch.float64
        return tree_map(
            lambda leaf: widened(leaf) if isinstance(leaf, torch.Tensor) else leaf,
            func(*args, **kwargs),
        )
