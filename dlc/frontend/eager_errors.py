"""
What eager PyTorch refuses for the values or for want of them, which an export does not ask.

`x.max()` of nothing and `i // 0` trace as well as any call. They raise here, when the program is
compiled, what they raise in eager PyTorch on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map_only

from dlc.frontend.size_names import is_of_sizes
from dlc.frontend.source import ImportFailure, Place


class EmptyError(ImportFailure, RuntimeError):
    """An operation has no result for a tensor without elements."""


class EmptyIndexError(ImportFailure, IndexError):
    """The same where PyTorch calls it an error of a dimension."""


class DivisionByZero(ImportFailure, RuntimeError, ZeroDivisionError):
    """Integers are divided by a constant that is zero."""


DIVISIONS = frozenset(("div", "floor_divide", "fmod", "remainder"))


def check_eager(node: Node, arguments: dict[str, Any], place: Place | None) -> None:
    """Raises what eager PyTorch does for an ATen call with these arguments, by name."""
    name = str(node.target).removeprefix("aten.")
    result = node.meta.get("val")
    if name.partition(".")[0] in DIVISIONS and isinstance(result, torch.Tensor):
        integral = not result.is_floating_point() and result.numel() > 0
        if integral and not isinstance(other := arguments["other"], Node) and other == 0:
            raise DivisionByZero(f"{name}: expected integers to be divided by other than 0", place)
    values = [n.meta.get("val") for n in node.all_input_nodes]
    tensors = [value for value in values if not is_of_sizes(value)]
    if len(tensors) != 1 or not isinstance(tensors[0], torch.Tensor) or tensors[0].numel() > 0:
        return
    args, kwargs = tree_map_only(Node, _empty, (node.args, dict(node.kwargs)))
    kwargs = {key: value for key, value in kwargs.items() if key != "device"}
    try:
        with torch.no_grad():
            node.target(*args, **kwargs)  # pyright: ignore[reportCallIssue]
    except IndexError as error:
        raise EmptyIndexError(f"{name}: {error}", place) from None
    except RuntimeError as error:
        raise EmptyError(f"{name}: {error}", place) from None


def _empty(node: Node) -> torch.Tensor | int:
    """What a node stands for, which has no elements or is a size: of the call that is imported."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return _number(value)
    shape, strides = (tuple(map(_number, n)) for n in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype)


def _number(size: int | torch.SymInt) -> int:
    return size if isinstance(size, int) else size.node.hint
