"""`torch.compile(model, backend="dlc")`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dlc.frontend.imported import alignment
from dlc.frontend.source import ImportFailure


def backend(graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """
    The backend that Dynamo calls with a graph of torch functions. The graph is exported and
    compiled when it is called, once for each combination of shapes, dtypes, strides and alignments
    (sizes that Dynamo keeps symbolic are plain ints by then); inputs that it mutates are written
    back. `example_inputs` may be tensors without memory and are not looked at.

    A call raises ImportFailure if gradients are recorded and a tensor requires one.
    """
    graph, names = with_named_inputs(graph)
    compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}

    @torch.compiler.disable
    def run(*args: Any) -> Any:
        if torch.is_grad_enabled():
            refuse_gradients(names, args)
        args = tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in args)
        key = tuple(key_of(a) for a in args)
        if key not in compiled:
            from dlc import compile as compile_program

            compiled[key] = compile_program(graph, args)
        return compiled[key](*args)

    return run


def refuse_gradients(names: Sequence[str], args: Sequence[Any]) -> None:
    for name, value in zip(names, args, strict=True):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise ImportFailure(
                f"dlc compiles forward passes only, and '{name}' requires a gradient; "
                "call the model under torch.no_grad() or torch.inference_mode()"
            )


def key_of(value: Any) -> tuple[Any, ...]:
    """The properties of an argument on which code that is compiled for it depends."""
    if not isinstance(value, torch.Tensor):
        return type(value), value
    return value.shape, value.dtype, value.stride(), alignment(value), value.device


def with_named_inputs(graph: GraphModule) -> tuple[GraphModule, list[str]]:
    """
    The graph with the parameters of its forward named after their sources, and those names in
    order: Dynamo's `L_self_modules_gate_parameters_weight_` becomes `gate_weight`.
    """
    names: list[str] = []
    for node in graph.graph.find_nodes(op="placeholder"):
        name = re.sub(r"^[Ll]_(\w+?_(?=(modules|parameters|buffers)_))?", "", str(node.target))
        name = re.sub(r"(^|_)(modules|parameters|buffers)_", r"\1", name).strip("_")
        if not name.isidentifier() or name in names:
            name = str(node.target)
        node.target = name
        names.append(name)
    return GraphModule(graph, graph.graph), names
