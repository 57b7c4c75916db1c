"""
Tensors that are not plain ones: tracers of an export, of torch.vmap and torch.func.grad, and those
of a class of the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch._C._functorch import (
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    peek_interpreter_stack,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from dlc.frontend.guard import WITH_MEMORY
from dlc.frontend.source import ImportFailure

DUAL = (
    "an argument has a tangent of forward-mode differentiation, which a compiled program does not "
    'carry on; use torch.compile(f, backend="dlc"), or compile what is differentiated: '
    "dlc.compile(torch.fx.experimental.proxy_tensor.make_fx(g)(*args), args), in which "
    "g calls torch.func.jvp"
)
TRACERS = (FakeTensor, FunctionalTensor)


def leaves_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[Any]:
    """The arguments of a call, and what is in them; cheap for a call with tensors only."""
    flat = not kwargs and all(isinstance(argument, torch.Tensor) for argument in args)
    return args if flat else tree_leaves((args, kwargs))


def is_traced(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """
    True if a tracer calls, such as the export of a program that uses this one. ImportFailure for
    one of torch.func, whose tensors have no memory that kernels could read, and for a tensor with a
    tangent, as results would have none.
    """
    leaves = leaves_of(args, kwargs)
    if peek_interpreter_stack() is not None:
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and is_functorch_wrapped_tensor(leaf):
                raise _transformed(leaf)
    if forward_ad._current_level >= 0:  # within a dual_level
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and forward_ad.unpack_dual(leaf).tangent is not None:
                raise ImportFailure(DUAL)
    tracing = _get_dispatch_mode(_TorchDispatchModeKey.FAKE) is not None
    return tracing or any(isinstance(leaf, TRACERS) for leaf in leaves)


def check_class(value: object, what: str) -> None:
    """
    ImportFailure for a tensor of a class of its own, such as one with `__torch_function__`: what
    its operations do, and that results are of the class, is not in an export.
    """
    if type(value) in WITH_MEMORY or not isinstance(value, torch.Tensor):
        return
    if isinstance(value, TRACERS) or type(value).__module__.partition(".")[0] == "torch":
        return
    name = type(value).__name__
    raise ImportFailure(
        f"{what} is a {name}, expected a torch.Tensor: what operations are for a {name} is not "
        'followed; give x.as_subclass(torch.Tensor), or use torch.compile(f, backend="dlc")'
    )


def _transformed(tensor: torch.Tensor) -> ImportFailure:
    if is_batchedtensor(tensor):
        return ImportFailure(
            "torch.vmap maps a compiled program, whose kernels have one size; compile what is "
            "mapped: dlc.compile(torch.vmap(f), args)"
        )
    return ImportFailure(
        "torch.func.grad, vjp, jvp or functionalize transforms a compiled program, whose kernels "
        "it does not know; use torch.autograd.grad of its result, or compile what is transformed: "
        "dlc.compile(torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(f))(*args), args)"
    )
