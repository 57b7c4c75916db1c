"""What Dynamo's graphs take: names for people, and numbers as numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import Dim
from torch.export.dynamic_shapes import _DimHint
from torch.fx import GraphModule, Node

from dlc.frontend.export.dynamic_shapes import Tied
from dlc.frontend.export.size_names import range_of


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


def changing(graph: GraphModule, values: Sequence[Any]) -> list[Any] | None:
    """
    Which sizes and integers a tracer takes to change, as `dynamic_shapes` of the graph that it
    passes with such arguments; None if there are none. Those of one symbol are tied.
    """
    known: dict[sympy.Basic, Tied | None] = {}
    pairs = [
        (str(node.target), node.meta.get("example_value", value))
        for node, value in zip(graph.graph.find_nodes(op="placeholder"), values, strict=True)
    ]
    for name, value in pairs:
        if isinstance(value, torch.Tensor):
            for dim, extent in enumerate(value.shape):
                _tie(extent, f"{name}_{dim}", known)
    marked: list[Any] = []
    for name, value in pairs:
        if isinstance(value, torch.Tensor):
            extents = {dim: _mark(n, known) for dim, n in enumerate(value.shape)}
            marked.append({dim: mark for dim, mark in extents.items() if mark is not None} or None)
        else:
            _tie(value, name, known)
            marked.append(_mark(value, known))
    return marked if any(mark is not None for mark in marked) else None


def _tie(number: Any, name: str, known: dict[sympy.Basic, Tied | None]) -> None:
    """Names the symbol that a number is, if it has no name, and is of several numbers one."""
    if isinstance(number, torch.SymInt) and isinstance(number.node.expr, sympy.Symbol):
        least, most = range_of(number.node.shape_env, number.node.expr)
        changes = most is None or least < most
        known.setdefault(number.node.expr, Tied(name, min=least, max=most) if changes else None)


def _mark(number: Any, known: dict[sympy.Basic, Tied | None]) -> Tied | _DimHint | None:
    if not isinstance(number, torch.SymInt) or isinstance(number.node.expr, sympy.Integer):
        return None
    return known.get(number.node.expr, Dim.AUTO)


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
