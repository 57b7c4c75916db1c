"""What values of Python hold: items of containers, attributes of objects, closures of functions."""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache, partial
from io import IOBase
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, TypeAlias
from weakref import ReferenceType

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.state.code_names import names_in_code
from dlc.frontend.state.foreign import is_own
from dlc.frontend.state.hidden_state import is_iterator, made_of
from dlc.frontend.state.random import storage_key

CONTAINERS = (list, dict, set, deque)
"""Of these a script changes the items."""
WITHOUT = (torch.nn.Module, torch.Tensor, torch.Generator, str, bytes, int, float,
           complex, range, type(None), torch.dtype, torch.device)  # fmt: skip
"""What holds nothing that is of interest here, or looks after it itself."""
OF_LOGGING = frozenset(kind for kind in vars(logging).values() if isinstance(kind, type))
"""Python's loggers and what they write by, of whose state no program is made."""
SUBCLASSED = (*CONTAINERS, tuple, frozenset, np.ndarray)
"""What a class of the script may be derived of, which adds attributes to items."""
CODE = (type, ModuleType, CodeType, FrameType, WrapperDescriptorType)
"""What objects of extensions are made by, rather than of."""
Inside: TypeAlias = Iterator[tuple[str, Any]]
LEAVES = frozenset((int, bool, float, complex, str, bytes, type(None)))
"""Types of what holds nothing and never changes."""


def held_in(value: Any) -> Inside:
    """What a value holds, each with how Python's text gets at it: `.t`, `[0]`, `['k']`."""
    if is_simple(type(value)):
        yield from ((f".{name}", item) for name, item in vars(value).items())
        return
    if isinstance(value, WITHOUT) or type(value) in OF_LOGGING:
        return
    match value:
        case dict():
            yield from ((f"[{key!r}]", item) for key, item in value.items())
        case list() | tuple() | deque():
            yield from ((f"[{i}]", item) for i, item in enumerate(value))
        case set() | frozenset():
            yield from (("", item) for item in value)
        case np.ndarray():
            if value.dtype.hasobject:
                yield from ((f".flat[{i}]", item) for i, item in enumerate(value.flat))
        case np.flatiter():
            yield ".base", value.base
        case memoryview():
            yield ".obj", value.obj
        case ReferenceType():
            yield "()", value()
        case ModuleType():
            if is_own(value.__name__):
                own = {n: v for n, v in vars(value).items() if not n.startswith("__")}
                yield from ((f".{name}", item) for name, item in own.items())
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
            if is_own(value.__module__):
                yield from ((f".{name}", item) for name, item in vars(value).items())
        case IOBase():
            pass
        case _ if is_iterator(value) and (made := made_of(value)):
            yield from (("", item) for item in made)
        case _ if not is_object(value):
            referents = gc.get_referents(value)  # of an object of an extension
            yield from (("", item) for item in referents if not isinstance(item, CODE))
        case _:
            pass
    if is_object(value) or (isinstance(value, SUBCLASSED) and type(value) not in SUBCLASSED):
        yield from ((f".{name}", item) for name, item in attributes_of(value).items())


def items_in(value: Any) -> list[Any]:
    """The same without how to get at it, nor what is of the `LEAVES`."""
    kind = type(value)
    if kind in (list, tuple, deque, set, frozenset):
        return [item for item in value if type(item) not in LEAVES]
    if kind is dict:
        return [item for item in value.values() if type(item) not in LEAVES]
    if is_simple(kind):
        return [item for item in vars(value).values() if type(item) not in LEAVES]
    return [item for _, item in held_in(value) if type(item) not in LEAVES]


def reached(value: Any) -> dict[int, Any]:
    """All that a value holds, at whatever depth, and itself; not what functions and classes do."""
    found: dict[int, Any] = {}
    pending = [value]
    while pending:
        inner = pending.pop()
        if id(inner) not in found:
            found[id(inner)] = inner
            if not isinstance(inner, FunctionType | type | ModuleType):
                pending += items_in(inner)
    return found


@cache
def is_simple(kind: type) -> bool:
    """True for a user's class whose objects are their attributes and nothing else."""
    kinds = kind.__mro__[:-1]
    return (
        kind is not object
        and all(is_own(k.__module__) and "__slots__" not in vars(k) for k in kinds)
        and not issubclass(kind, type)
        and not hasattr(kind, "__next__")
    )


def in_function(function: FunctionType) -> Inside:
    """
    The variables that a function has from around it, its defaults and its attributes; of one of a
    module beside the script the variables of that module that it reads, too.
    """
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # nothing yet
            continue
    yield from (("", item) for item in function.__defaults__ or ())
    named: Mapping[str, Any] = {**(function.__kwdefaults__ or {}), **vars(function)}
    yield from ((f".{name}", item) for name, item in named.items())
    around = function.__globals__
    if (module := around.get("__name__")) != "__main__" and is_own(module):
        read = (name for name in names_in_code(function.__code__)[0] if name in around)
        yield from ((f".{name}", around[name]) for name in read)


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
    if is_simple(type(value)):
        return True
    if isinstance(value, (*WITHOUT, *CONTAINERS, tuple, frozenset, type, partial, ModuleType)):
        return False
    if isinstance(value, FunctionType | MethodType | BuiltinFunctionType):
        return False
    if type(value) in OF_LOGGING:
        return False
    return hasattr(value, "__dict__") or any("__slots__" in vars(k) for k in type(value).__mro__)


def memory_of(value: object) -> set[int]:
    """The storages of the tensors that a value is, or has in it."""
    is_module = isinstance(value, torch.nn.Module)
    leaves = [*value.parameters(), *value.buffers()] if is_module else tree_leaves(value)
    return {key for leaf in leaves if (key := storage_key(leaf)) is not None}
