"""The outputs of an exported graph that share memory in eager PyTorch: with what, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.utils._pytree import tree_map

from dlc.frontend.aten.recurrent_layers import LAYERS
from dlc.frontend.export.size_names import size_of, sizes_of
from dlc.ir.leaves import View

ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
"""Made of other operations, which give memory of its own, and lay it out otherwise without any."""


class AliasAnalysis:
    """
    Follows the view operations of a graph on tensors without memory. `arguments` maps the nodes
    that hold an argument's memory (its placeholder, and the value that is written back to it) to
    the argument's index; `examples` are the arguments themselves.
    """

    def __init__(self, arguments: Mapping[Node, int], examples: Mapping[int, torch.Tensor]):
        modes = [e.fake_mode for e in examples.values() if isinstance(e, FakeTensor)]
        self.mode: AbstractContextManager[object] = modes[0] if modes else nullcontext()
        """In which tensors have no memory whatever their device, and may have sizes."""
        env = modes[0].shape_env if modes else None
        self.unguarded = nullcontext if env is None else env.suppress_guards
        """In which what is asked of sizes says nothing of them: operations may be made of others
        that ask for numbers (matmul of PyTorch 2.11)."""
        self.device = None if modes else torch.device("meta")
        """Of tensors without memory, if that is not their own."""
        with self.mode:
            self.values: dict[Node, Any] = {
                n: self._like(examples[i]) for n, i in arguments.items()
            }
        self.owners = {_storage(self.values[n]): i for n, i in arguments.items()}
        """The arguments, by the storage that stands for theirs."""
        self.holders: dict[int, list[torch.Tensor]] = {}
        """By argument the values that stand for it: as it comes, and as it is left."""
        for node, index in arguments.items():
            self.holders.setdefault(index, []).append(self.values[node])

    def argument_of(self, node: Node) -> tuple[int, View | None] | None:
        """The argument that an output is, or is a view of; None if there is none."""
        value = self._value_of(node)
        index = self.owners.get(_storage(value)) if isinstance(value, torch.Tensor) else None
        if index is None or _kind(value) != _kind(self.holders[index][0]):
            return None
        return index, _view(value, self.holders[index])

    def identity(self, node: Node) -> int:
        """A number that nodes share which are one object in eager PyTorch."""
        return id(self._value_of(node))

    def bases(self, outputs: Sequence[Node]) -> dict[Node, tuple[Node, View | None]]:
        """
        For each output the value to return for it, and where it lies in that: several outputs that
        share memory are views of the value that has all of it.
        """
        sharing: dict[int, list[Node]] = {}
        for node in dict.fromkeys(outputs):
            sharing.setdefault(_storage(self._value_of(node)), []).append(node)
        found: dict[Node, tuple[Node, View | None]] = {}
        for storage, nodes in sharing.items():
            base = self._base(storage, nodes) if len(nodes) > 1 else None
            for node in nodes:
                value = self._value_of(node)
                view = None if base is None else _view(value, [self.values[base]])
                found[node] = base or node, view
        return found

    def _base(self, storage: int, nodes: Sequence[Node]) -> Node | None:
        """The value whose memory some outputs share, if it is a value of the graph."""
        kinds = {_kind(self.values[node]) for node in nodes}
        for node, value in self.values.items():  # what views are of comes first
            if not isinstance(value, torch.Tensor) or _storage(value) != storage:
                continue
            computed = node.meta.get("val")
            if not isinstance(computed, torch.Tensor) or kinds != {_kind(value)}:
                continue
            with self.unguarded():
                if computed.stride() == value.stride() and _fills_storage(value):
                    return node
        return None

    def _value_of(self, node: Node) -> Any:
        """The value without memory, in that of an argument where eager's is in the argument's."""
        if node not in self.values:
            if _may_be_view(node):
                call = tree_map(self._without_memory, (node.args, dict(node.kwargs)))
                with self.mode, self.unguarded():
                    self.values[node] = node.target(*call[0], **call[1])  # type: ignore[operator]
            else:
                with self.mode:
                    self.values[node] = tree_map(self._like, node.meta.get("val"))
        return self.values[node]

    def _like(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        how = {"dtype": value.dtype, "device": self.device or value.device}
        return torch.empty_strided(value.shape, value.stride(), **how)

    def _without_memory(self, argument: object) -> object:
        if isinstance(argument, torch.device):
            return self.device or argument
        return self._value_of(argument) if isinstance(argument, Node) else argument


def _may_be_view(node: Node) -> bool:
    """True if a node may give its input's memory: it says so, or is made of other operations."""
    if node.op != "call_function":
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", "") == "getitem"
    if target in LAYERS or target is ATTENTION:
        return False
    if any(result.alias_info is not None for result in target._schema.returns):
        return True
    return target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def _kind(value: torch.Tensor) -> tuple[torch.dtype, bool, bool]:
    """What the memory of a tensor means, which may hold the conjugates or negatives of it."""
    return value.dtype, value.is_conj(), value.is_neg()


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _view(value: torch.Tensor, bases: Sequence[torch.Tensor]) -> View | None:
    """Where a tensor lies in the memory of others; None if it is one of these, and no view."""
    if any(value is base for base in bases):
        return None
    return View(sizes_of(value.shape), sizes_of(value.stride()), size_of(value.storage_offset()))


def _fills_storage(value: torch.Tensor) -> bool:
    """True if each element of the memory is an element of the tensor, once."""
    expected = 1
    for stride, extent in sorted(zip(value.stride(), value.shape, strict=True)):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return value.numel() * value.element_size() == value.untyped_storage().nbytes()
