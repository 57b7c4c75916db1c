"""Programs that write through views which PyTorch's functional graphs do not follow: refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from dlc.frontend.aten.overloads import bind_arguments
from dlc.frontend.source import ImportFailure, place_of

UNFOLD = torch.ops.aten.unfold.default


class ViewWriteError(ImportFailure, RuntimeError):
    """A program writes through a view that a functional graph would write through wrongly."""


def check_writes(graph: Graph, shown_as: Mapping[str, str]) -> None:
    """
    ViewWriteError for an operation of an exported graph that writes through an expanded tensor or
    windows. What is left where elements share a place depends on their order, so eager PyTorch
    refuses it for most operations, and functional graphs add the changes up; they have zeros
    between windows.
    """
    for node in graph.nodes:
        for written in _written(node):
            if (reason := _reason(written)) is not None:
                raise ViewWriteError(
                    f"{str(node.target).removeprefix('aten.')}: it writes to {reason}; write to "
                    "what it is a view of, or to a clone",
                    place_of(node.meta.get("stack_trace"), shown_as),
                )


def _reason(written: Node) -> str | None:
    """What is wrong with a tensor that is written to; None if nothing is."""
    if _overlaps_itself(written.meta.get("val")):
        return (
            "a tensor with several elements at one place in memory, such as an expanded one, "
            "expected a place for each"
        )
    if any(_leaves_gaps(view) for view in views_of(written)):
        return "windows (unfold) with elements between them that are in none, expected all in one"
    return None


def views_of(node: Node) -> Iterator[Node]:
    """The views that a tensor is made by, from the last one on."""
    while isinstance(node.target, OpOverload) or node.op == "call_function":
        yield node
        if not node.args or not isinstance(node.args[0], Node):
            return
        if isinstance(op := node.target, OpOverload) and op._schema.arguments[0].alias_info is None:
            return
        node = node.args[0]


def _leaves_gaps(view: Node) -> bool:
    whole = view.args[0].meta["val"] if view.target is UNFOLD else None  # pyright: ignore
    return whole is not None and view.meta["val"].numel() < whole.numel()


def _written(node: Node) -> Iterator[Node]:
    """The arguments that an operation writes to."""
    if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
        return
    given = bind_arguments(node)
    for argument in node.target._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = given.get(argument.name)
            several = value if isinstance(value, list | tuple) else [value]
            yield from (one for one in several if isinstance(one, Node))


def _overlaps_itself(value: object) -> bool:
    """True if some dimension of a tensor steps no further than what smaller steps span."""
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return False
    span = 0
    for stride, extent in sorted(zip(value.stride(), value.shape, strict=True)):
        if extent > 1 and stride <= span:
            return True
        span += stride * (extent - 1)
    return False
