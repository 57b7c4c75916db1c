"""Which outputs of an exported graph are arguments, or views of arguments, in eager PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map

from dlc.frontend.program import Alias


class AliasAnalysis:
    """
    Follows the view operations of a graph on tensors without memory. `arguments` maps the nodes
    that hold an argument's memory (its placeholder, and the value that is written back to it) to
    the argument's index; `examples` are the arguments themselves.
    """

    def __init__(self, arguments: Mapping[Node, int], examples: Mapping[int, torch.Tensor]):
        self.examples = examples
        self.known: dict[Node, tuple[int, Any] | None] = {
            node: (index, _like(examples[index])) for node, index in arguments.items()
        }

    def alias_of(self, node: Node) -> Alias | None:
        """How an output in an argument's memory is made from it; None if it is not in one."""
        found = self._storage_of(node)
        if found is None:
            return None
        index, view = found
        return Alias(index, tuple(view.shape), view.stride(), view.storage_offset())

    def _storage_of(self, node: Node) -> tuple[int, Any] | None:
        """The argument that a node's value lies in, and the value as a tensor without memory."""
        if node not in self.known:
            self.known[node] = self._replay(node)
        return self.known[node]

    def _replay(self, node: Node) -> tuple[int, Any] | None:
        if node.op != "call_function":
            return None
        is_view = isinstance(node.target, torch._ops.OpOverload) and any(
            result.alias_info is not None for result in node.target._schema.returns
        )
        if not is_view and getattr(node.target, "__name__", "") != "getitem":
            return None
        bases = [found for n in node.all_input_nodes if (found := self._storage_of(n))]
        if not bases:
            return None
        index, _ = bases[0]
        args, kwargs = tree_map(self._meta_value, (node.args, dict(node.kwargs)))
        value = node.target(*args, **kwargs)  # type: ignore[operator]
        if isinstance(value, torch.Tensor) and not _shares_storage(value, bases[0][1]):
            return None
        return index, value

    def _meta_value(self, value: object) -> object:
        if not isinstance(value, Node):
            return value
        found = self._storage_of(value)
        return found[1] if found else tree_map(_like, value.meta["val"])


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _shares_storage(view: torch.Tensor, base: Any) -> bool:
    bases = base if isinstance(base, (list, tuple)) else [base]
    return view.untyped_storage()._cdata in [b.untyped_storage()._cdata for b in bases]
