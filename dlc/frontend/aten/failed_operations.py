"""
Operations and modules that fail while a program is exported, where the program catches the error: a
graph has nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx import Graph, Tracer
from torch.fx.experimental.proxy_tensor import get_proxy_mode


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
