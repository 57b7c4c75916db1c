"""Arguments that are no tensors but tracers: of an export, of torch.vmap, of torch.func.grad."""

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
from torch.utils._pytree import tree_leaves

from dlc.frontend.source import ImportFailure

TRACERS = (FakeTensor, FunctionalTensor)


def leaves_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[Any]:
    """The arguments of a call, and what is in them; cheap for a call with tensors only."""
    flat = not kwargs and all(isinstance(argument, torch.Tensor) for argument in args)
    return args if flat else tree_leaves((args, kwargs))


def is_traced(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """
    True if a tracer calls, such as the export of a program that uses this one. ImportFailure for
    one of torch.func, whose tensors have no memory that kernels could read.
    """
    leaves = leaves_of(args, kwargs)
    if peek_interpreter_stack() is not None:
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and is_functorch_wrapped_tensor(leaf):
                raise _transformed(leaf)
    tracing = _get_dispatch_mode(_TorchDispatchModeKey.FAKE) is not None
    return tracing or any(isinstance(leaf, TRACERS) for leaf in leaves)


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
