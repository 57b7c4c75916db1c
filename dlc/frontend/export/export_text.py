"""
An exported program as text: all that Torch IR is made from, so that equal texts are equal IR.

`dlc/frontend/export/fx.py` reads of an export its graphs with the values and the places of their
nodes, its signature, and the arguments of the call that it was exported for. Tensors are told by
shape, dtype, strides and alignment: their elements do not reach the IR. What has no text that tells
it from all else makes the whole have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._ops import OperatorBase
from torch.fx import GraphModule, Node

from dlc.frontend.arguments import Argument
from dlc.frontend.export.exported_call import ExportedCall
from dlc.frontend.source import place_of


class _Untold(Exception):
    """There is no text for something."""


def text_of_export(call: ExportedCall) -> str | None:
    """The text; None if there is none."""
    try:
        return "\n".join(_lines(call))
    except _Untold:
        return None


def _lines(call: ExportedCall) -> Iterator[str]:
    for name, module in call.exported.graph_module.named_modules(remove_duplicate=False):
        if isinstance(module, GraphModule):
            yield f"graph {name!r}"
            for node in module.graph.nodes:
                yield _node(node, call.shown_as)
    signature = call.exported.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        argument = spec.arg
        named = getattr(argument, "name", None), getattr(argument, "value", None)
        yield _text((spec.kind.name, type(argument).__name__, named, spec.target))
    for argument in call.arguments:
        yield _argument(argument, call.example(argument))
    for leaf, value in call.constants.items():
        yield f"leaf {leaf} {_text(value)}"
    yield _text(call.output_paths())


def _node(node: Node, shown_as: Mapping[str, str]) -> str:
    place = place_of(node.meta.get("stack_trace"), shown_as)
    shown = None if place is None else (place.file, place.line, place.column)
    given = node.args, dict(node.kwargs), node.meta.get("val"), shown
    return f"{node.name} = {node.op} {_target(node.target)} {_text(given)}"


def _argument(argument: Argument, example: torch.Tensor) -> str:
    guard = argument.guard
    stated = argument.index, argument.name, argument.kind, argument.leaf
    return _text((*stated, example, guard.strides, guard.align, guard.requires_grad))


def _target(target: object) -> str:
    """The name of what a node calls."""
    match target:
        case str():
            return repr(target)
        case OperatorBase():
            return f"{type(target).__name__} {target}"
        case _ if (name := getattr(target, "__qualname__", None)) is not None:
            return f"{getattr(target, '__module__', None)}.{name}"
        case _:
            raise _Untold


def _text(value: Any) -> str:
    """A value that stands in a graph."""
    match value:
        case None | bool() | int() | float() | complex() | str():
            return f"{type(value).__name__} {value!r}"
        case Node():
            return f"%{value.name}"
        case torch.Tensor():
            return _tensor(value)
        case torch.dtype() | torch.layout() | torch.memory_format() | torch.device():
            return str(value)
        case list() | tuple():
            return f"{type(value).__name__}[{', '.join(map(_text, value))}]"
        case dict():
            return f"{{{', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())}}}"
        case OperatorBase():
            return _target(value)
        case _:
            raise _Untold


def _tensor(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise _Untold
    sizes = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    if not all(type(size) is int for size in sizes):
        raise _Untold
    lazy = tensor.is_conj(), tensor.is_neg()
    return f"{tensor.dtype} {list(tensor.shape)} {sizes} {tensor.device.type} {lazy}"
