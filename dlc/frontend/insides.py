"""What values of Python hold: items of containers, attributes of objects, closures of functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.hidden_state import is_iterator, made_of
from dlc.frontend.random import storage_key

CONTAINERS = (list, dict, set, deque)
"""Of these a script changes the items."""
WITHOUT = (ModuleType, torch.nn.Module, torch.Tensor, torch.Generator, str, bytes, int, float,
           complex, range, type(None), torch.dtype, torch.device)  # fmt: skip
"""What holds nothing that is of interest here, or looks after it itself."""
Inside: TypeAlias = Iterator[tuple[str, Any]]


def held_in(value: Any) -> Inside:
    """What a value holds, each with how Python's text gets at it: `.t`, `[0]`, `['k']`."""
    match value:
        case _ if isinstance(value, WITHOUT):
            return
        case dict():
            yield from ((f"[{key!r}]", item) for key, item in value.items())
        case list() | tuple() | deque():
            yield from ((f"[{i}]", item) for i, item in enumerate(value))
        case set() | frozenset():
            yield from (("", item) for item in value)
        case _ if is_iterator(value):
            yield from (("", item) for item in made_of(value))
        case MethodType():
            yield "", value.__self__
        case BuiltinFunctionType():
            if not isinstance(value.__self__, ModuleType):
                yield "", value.__self__
        case partial():
            yield from (("", item) for item in (value.func, value.args, value.keywords))
        case FunctionType():
            yield from in_function(value)
        case type():
            if value.__module__ == "__main__":  # a class of the script
                yield from ((f".{name}", item) for name, item in vars(value).items())
        case _:
            yield from ((f".{name}", item) for name, item in attributes_of(value).items())


def in_function(function: FunctionType) -> Inside:
    """The variables that a function has from around it, its defaults and its attributes."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # nothing yet
            continue
    yield from (("", item) for item in function.__defaults__ or ())
    named: Mapping[str, Any] = {**(function.__kwdefaults__ or {}), **vars(function)}
    yield from ((f".{name}", item) for name, item in named.items())


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes that an object itself has, those of slots, too."""
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{kind.__name__.lstrip('_')}{name}"  # as Python calls it inside
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def is_object(value: Any) -> bool:
    """True for an object with attributes of its own, of what class ever."""
    if isinstance(value, (*WITHOUT, *CONTAINERS, tuple, frozenset, type, partial)):
        return False
    if isinstance(value, FunctionType | MethodType | BuiltinFunctionType):
        return False
    return hasattr(value, "__dict__") or any("__slots__" in vars(k) for k in type(value).__mro__)


def memory_of(value: object) -> set[int]:
    """The storages of the tensors that a value is, or has in it."""
    is_module = isinstance(value, torch.nn.Module)
    leaves = [*value.parameters(), *value.buffers()] if is_module else tree_leaves(value)
    return {key for leaf in leaves if (key := storage_key(leaf)) is not None}
