"""The outputs of an exported graph that are arguments, or views of them, in eager PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map

from dlc.frontend.imported import Alias


class AliasAnalysis:
    """
    Follows the view operations of a graph on tensors without memory. `arguments` maps the nodes
    that hold an argument's memory (its placeholder, and the value that is written back to it) to
    the argument's index; `examples` are the arguments themselves.
    """

    def __init__(self, arguments: Mapping[Node, int], examples: Mapping[int, torch.Tensor]):
        self.values: dict[Node, Any] = {n: _like(examples[i]) for n, i in arguments.items()}
        self.owners = {_storage(self.values[n]): i for n, i in arguments.items()}
        """The arguments, by the storage that stands for theirs."""

    def alias_of(self, node: Node) -> Alias | None:
        """The view of an argument that an output is; None if it is none."""
        view = self._value_of(node)
        if not isinstance(view, torch.Tensor) or _storage(view) not in self.owners:
            return None
        index = self.owners[_storage(view)]
        return Alias(index, tuple(view.shape), view.stride(), int(view.storage_offset()))

    def _value_of(self, node: Node) -> Any:
        """The value without memory, in that of an argument where eager's is in the argument's."""
        if node not in self.values:
            if _may_be_view(node):
                call = tree_map(self._without_memory, (node.args, dict(node.kwargs)))
                self.values[node] = node.target(*call[0], **call[1])  # type: ignore[operator]
            else:
                self.values[node] = tree_map(_like, node.meta.get("val"))
        return self.values[node]

    def _without_memory(self, argument: object) -> object:
        if isinstance(argument, torch.device):
            return torch.device("meta")
        return self._value_of(argument) if isinstance(argument, Node) else argument


def _may_be_view(node: Node) -> bool:
    """True if a node may give its input's memory: it says so, or is made of other operations."""
    if node.op != "call_function":
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", "") == "getitem"
    if any(result.alias_info is not None for result in target._schema.returns):
        return True
    return target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def _like(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
