"""
What the text of a script asks or changes of the process that runs it, and no variable of its own
holds: settings of PyTorch, attributes of modules and classes that are no user's, generators of
random numbers, counts of caches and places in files.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from inspect import getattr_static
from types import FunctionType, ModuleType
from typing import Any

import torch

from dlc.frontend.state.ambient import FLAGS
from dlc.frontend.state.constants import MISSING, Identity, key_of
from dlc.frontend.state.foreign import is_own
from dlc.frontend.state.hidden_state import Kept, drawn_from
from dlc.frontend.state.insides import CONTAINERS

ASKED = frozenset(("cache_info", "tell"))
"""Methods that say what goes on in a cache or a file, which cannot go back."""
BY_NAME = frozenset(("getattr", "setattr", "delattr"))
Chain = tuple[str, ...]
"""A variable and the attributes that lead to a value: `torch`, `backends`, `cudnn`."""


class ProcessState:
    """Finds it for a text, whatever its variables hold by then."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = [*ast.walk(tree)]
        self.asks_caches = any(getattr(n, "attr", "") == "cache_info" for n in nodes)
        """True for a text that looks at what its functions' caches count."""
        self._named = sorted({c for n in nodes if (c := _chain(n)) is not None and len(c) > 1})
        self._stored = sorted({c for n in nodes if (c := _stored(n)) is not None})

    def states(self, variables: Mapping[str, Any]) -> dict[str, Kept]:
        """How each is read and set back, by how Python's text gets at it."""
        found = {"torch.get_default_dtype()": _setting(torch, "default_dtype"), **drawn_from()}
        for *owners, name in self._stored:
            owner = _value(owners, variables)
            if isinstance(owner, ModuleType | type | FunctionType) and not _is_users(owner):
                found[".".join((*owners, name))] = _attribute(owner, name)
        for *owners, name in self._named:
            if (state := _asked(_value(owners, variables), name)) is not None:
                found[f"{'.'.join((*owners, name))}()"] = state
        return found

    def held(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The containers that are attributes of such modules and classes."""
        found: dict[str, Any] = {}
        for *owners, name in self._named:
            owner = _value(owners, variables)
            if isinstance(owner, ModuleType | type) and not _is_users(owner):
                value = getattr_static(owner, name, None)
                value = getattr(value, "_data", value) if value is os.environ else value
                if isinstance(value, CONTAINERS):
                    found[".".join((*owners, name))] = value
        found.pop("sys.modules", None)  # to which imports add
        return found


def _chain(node: ast.AST) -> Chain | None:
    """The names of a dotted expression; `getattr(torch, 'n')` is one, too."""
    match node:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=owner, attr=name):
            outer = _chain(owner)
        case ast.Call(func=ast.Name(id=of), args=[owner, ast.Constant(value=str(name)), *_]):
            outer = _chain(owner) if of in BY_NAME else None
        case _:
            return None
    return None if outer is None else (*outer, name)


def _stored(node: ast.AST) -> Chain | None:
    """The attribute that a piece of text binds or deletes."""
    match node:
        case (
            ast.Attribute(ctx=ast.Store() | ast.Del())
            | ast.Call(func=ast.Name(id="setattr" | "delattr"))
        ):
            return _chain(node)
    return None


def _value(chain: list[str], variables: Mapping[str, Any]) -> Any:
    """What names lead to; MISSING where there is nothing, or it had to be computed."""
    root = chain[0]
    value = variables.get(root, sys.modules.get(root, MISSING))
    for name in chain[1:]:
        if not isinstance(value, ModuleType | type):
            return MISSING
        value = getattr_static(value, name, MISSING)
    return value


def _is_users(owner: Any) -> bool:
    """True for a module, class or function of a user, which the script's variables lead to."""
    return is_own(owner.__name__ if isinstance(owner, ModuleType) else owner.__module__)


def _asked(owner: Any, name: str) -> Kept | None:
    """What a function or a method says that a text may ask so; None for another."""
    if isinstance(owner, ModuleType) and owner.__name__.partition(".")[0] == "torch":
        if (flag := FLAGS.get(name)) is not None and flag.owner is owner:
            return Kept(flag.ask, partial(flag.set, flag.ask()))
        settable = name.startswith("get_") and hasattr(owner, f"set_{name[4:]}")
        if settable and "rng_state" not in name:  # which a Memento knows
            return _setting(owner, name[4:])
    elif name in ASKED and callable(getattr(owner, name, None)):
        return Kept(partial(_answer, getattr(owner, name)), None)
    return None


def _setting(owner: ModuleType, name: str) -> Kept:
    """What `get_` of a module says and `set_` sets."""
    get, put = getattr(owner, f"get_{name}"), getattr(owner, f"set_{name}")
    try:
        before = get()
    except Exception:  # such as one that is asked for something
        return Kept(lambda: None, lambda: None)
    return Kept(lambda: _key(get()), partial(_put_back, get, put, before))


def _put_back(get: Callable[[], Any], put: Callable[[Any], object], before: Any) -> None:
    if _key(get()) != _key(before):
        put(before)


def _answer(ask: Callable[[], Any]) -> Hashable:
    try:
        return key_of(ask())
    except (OSError, ValueError):  # of a file that is closed, or has no place
        return None


def _attribute(owner: Any, name: str) -> Kept:
    """An attribute as it is bound, or not."""
    before = _bound(owner, name)
    return Kept(lambda: _key(_bound(owner, name)), partial(_bind, owner, name, before))


def _bound(owner: Any, name: str) -> Any:
    static = getattr_static(owner, name, MISSING)
    return getattr(owner, name, MISSING) if hasattr(type(static), "__set__") else static


def _bind(owner: Any, name: str, before: Any) -> None:
    if _bound(owner, name) is before:
        return
    if before is MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, before)


def _key(value: Any) -> Hashable:
    """The same for values that are the same number or the same object."""
    return Identity(value) if isinstance(value, CONTAINERS) else key_of(value)
