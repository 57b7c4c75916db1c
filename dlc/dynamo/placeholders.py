"""What Dynamo's graphs take: names for people, and numbers as numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node


def name_inputs(graph: GraphModule) -> None:
    """
    Names the parameters of a graph's forward after their sources: Dynamo's
    `L_self_modules_gate_parameters_weight_` becomes `gate_weight`.
    """
    names: set[str] = set()
    for node in graph.graph.find_nodes(op="placeholder"):
        name = re.sub(r"^[Ll]_(\w+?_(?=(modules|parameters|buffers)_))?", "", str(node.target))
        name = re.sub(r"(^|_)(modules|parameters|buffers)_", r"\1", name).strip("_")
        if not name.isidentifier() or name in names:
            name = str(node.target)
        node.target = name
        names.add(name)
    graph.recompile()


def take_numbers(graph: GraphModule) -> list[int]:
    """
    Makes tensors that only give their one element by `.item()` arguments that are that number, as
    Dynamo passes floats that change; their positions.
    """
    positions: list[int] = []
    for position, node in enumerate(graph.graph.find_nodes(op="placeholder")):
        if node.users and all(_is_item(user) for user in node.users):
            positions.append(position)
            for item in list(node.users):
                item.replace_all_uses_with(node)
                graph.graph.erase_node(item)
    graph.recompile()
    return positions


def _is_item(node: Node) -> bool:
    return (node.op, node.target) == ("call_method", "item") or (
        node.target is torch.ops.aten.item.default
    )


def with_numbers(args: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """The arguments of a graph from `take_numbers` for those of the graph before."""
    given = list(args)
    for position in positions:
        given[position] = given[position].item()
    return given


def concrete(values: Sequence[Any]) -> list[Any]:
    """
    Arguments to compile for from those that a tracer passes: sizes are the ones it has met, and
    its tensors become ones of those sizes that have no memory either.
    """
    mode = FakeTensorMode()
    return [_concrete(value, mode) for value in values]


def _concrete(value: Any, mode: FakeTensorMode) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.hint
    if not isinstance(value, FakeTensor):
        return value
    shape = [_concrete(extent, mode) for extent in value.shape]
    strides = [_concrete(stride, mode) for stride in value.stride()]
    with mode:
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
