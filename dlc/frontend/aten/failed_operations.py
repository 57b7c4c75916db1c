"""
Operations, modules and transforms that fail while a program is exported: a graph, or what comes
next, has nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch._C._functorch import (
    TransformType,
    _func_decrement_nesting,
    _grad_decrement_nesting,
    _jvp_decrement_nesting,
    _vmap_decrement_nesting,
    get_dynamic_layer_stack_depth,
    peek_interpreter_stack,
)
from torch.autograd import forward_ad
from torch.fx import Graph, Tracer
from torch.fx.experimental.proxy_tensor import get_proxy_mode

_LEAVES = {
    TransformType.Vmap: _vmap_decrement_nesting,
    TransformType.Grad: _grad_decrement_nesting,
    TransformType.Jvp: _jvp_decrement_nesting,
    TransformType.Functionalize: _func_decrement_nesting,
}
"""What leaves the innermost transform."""


def forget_failed() -> None:
    """Takes an operation out of the graph that is being made, if it has just failed."""
    graph = getattr(getattr(get_proxy_mode(), "tracer", None), "graph", None)
    if not isinstance(graph, Graph):
        return
    for node in reversed(graph.nodes):
        if node.op != "call_function" or "val" in node.meta or node.users:
            return
        graph.erase_node(node)


@contextmanager
def modules_left_on_failure() -> Iterator[None]:
    """A tracer knows within that it has left a module which has failed."""
    call_module = Tracer.call_module

    def call(tracer: Any, *args: Any) -> Any:
        stack = [*tracer.module_stack.items()]
        try:
            return call_module(tracer, *args)
        except Exception:
            tracer.module_stack.clear()
            tracer.module_stack.update(stack)
            raise

    Tracer.call_module = call  # type: ignore[method-assign]  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        Tracer.call_module = call_module


@contextmanager
def transforms_left_on_failure() -> Iterator[None]:
    """
    Transforms (`torch.func.grad`, `jvp`, `vmap`) that a program has entered when it fails are left:
    a graph of Dynamo enters and leaves them by calls, and whatever came next would be in them.
    """
    depth, is_within = get_dynamic_layer_stack_depth(), forward_ad._current_level >= 0
    differentiates = torch._C._is_fwd_grad_enabled()
    try:
        yield
    except Exception:
        if not is_within:
            forward_ad._current_level = -1
            with suppress(RuntimeError):  # where there is none, and never a second one
                torch._C._exit_dual_level(level=0)
        torch._C._set_fwd_grad_enabled(differentiates)
        while get_dynamic_layer_stack_depth() > depth:
            _LEAVES[peek_interpreter_stack().key()]()
        raise
