"""Objects of a script that hold its random tensors, so that a program would not see others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.scripts.parts import place_at
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.names_read import Bindings
from dlc.frontend.state.random import RandomTensors, storage_key


class Lifted(Protocol):
    """What a lifter has found."""

    filename: str
    examples: dict[str, Any]
    held: dict[str, Any]
    values: dict[str, Any]
    random: RandomTensors


def check_inputs_alone(lifted: Lifted, nodes: Iterable[ast.AST]) -> None:
    """
    ImportFailure if something in a program has a tensor that is also an input, or reads a variable
    of the script with random numbers: it would go on with these, whatever the inputs.
    """
    inputs = {
        key: name
        for name, value in lifted.examples.items()
        for leaf in tree_leaves(value)
        if (key := storage_key(leaf)) is not None
    }
    for node in nodes:
        for used in ast.walk(node):
            match used:
                case ast.Name(id=name) if name in lifted.values:
                    value = lifted.values[name]
                case ast.Attribute(attr=name) if name in lifted.held:
                    value = lifted.held[name]
                case _:
                    continue
            for name, tensor, is_variable in _tensors_of(value, lifted.filename):
                known = inputs.get(storage_key(tensor) or 0, name if is_variable else None)
                if known is not None and lifted.random.holds(tensor):
                    called = getattr(value, "__name__", type(value).__name__)
                    at: Any = used if hasattr(used, "lineno") else node
                    place = place_at(lifted.filename, at)
                    raise ImportFailure(
                        f"{called} keeps '{known}', whose numbers are the program's input; give "
                        "it as an argument",
                        place,
                    )


def _tensors_of(value: Any, filename: str) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """The tensors that a value's code reads or it has: names, and whether of script's variables."""
    reached = Bindings()
    for binding in reached.reach(value):
        is_variable = isinstance(binding.holder, dict) and (
            binding.holder.get("__file__") == filename
        )
        for name, tensor in _inside(binding.name, binding.value):
            yield name, tensor, is_variable and tensor is binding.value
    for name, tensor in _inside("", getattr(value, "__self__", value)):
        yield name, tensor, False


def _inside(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """A value that is a tensor, and the tensors in a container or among an object's attributes."""
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield name, leaf
        elif not isinstance(leaf, type | ModuleType | FunctionType):
            for attribute, held in getattr(leaf, "__dict__", {}).items():
                if not attribute.startswith("_"):
                    tensors = (t for t in tree_leaves(held) if isinstance(t, torch.Tensor))
                    yield from ((attribute, tensor) for tensor in tensors)
            if isinstance(leaf, torch.nn.Module):
                yield from leaf.named_parameters()
                yield from leaf.named_buffers()
