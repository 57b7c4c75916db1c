"""What a script has made before its program, which the program must leave as it is."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import partial
from operator import eq, is_
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import torch

from dlc.frontend.scripts.script_objects import UNNAMED
from dlc.frontend.source import ImportFailure, Place
from dlc.frontend.state.hidden_state import (
    UNNAMED_GENERATORS,
    fields_of,
    is_iterator,
    kept,
    numbers_of,
    place_of,
)
from dlc.frontend.state.insides import CONTAINERS, LEAVES, WITHOUT, held_in, is_object, is_simple
from dlc.frontend.state.process_state import ProcessState

OF_MODULES = frozenset(vars(torch.nn.Module()))
"""Attributes that modules have by themselves: an import knows what becomes of them."""


Key: TypeAlias = "str | tuple[Any]"
"""How Python's text gets at an item, or its place in a list or a table."""
Path: TypeAlias = "tuple[()] | tuple[Path, Key]"
"""The keys on the way to a value, the last of them last."""


class _Numbered(dict[str, Any]):
    """What a value holds, by how Python's text gets at it."""


Covers: TypeAlias = Callable[[Any, str, bool], bool]
"""
True for what is put back, by what holds it, its name there, and whether that is a variable of the
script.
"""
Held: TypeAlias = "_Numbered | list[Any] | tuple[Any, ...] | dict[Any, Any]"


class ScriptState:
    """
    What is in the variables of a script and in all that they hold, but for tensors' numbers and
    what is `known` otherwise, by identity; and what there is of the `process`.
    """

    def __init__(
        self,
        variables: Mapping[str, Any],
        known: Collection[int] = (),
        process: ProcessState | None = None,
    ) -> None:
        self._noted: list[tuple[Path, Any, Held]] = []
        self._states: list[tuple[Path, Any, Callable[[], Hashable], Hashable]] = []
        """What is hidden in values: how it is read, and what it was."""
        states = {} if process is None else process.states(variables)
        self._beside = {name: (state.now, state.now()) for name, state in states.items()}
        self._seed = numbers_of(torch.get_rng_state)
        held = {} if process is None else process.held(variables)
        seen: set[int] = {*known}
        pending: deque[tuple[Path, Any]] = deque([((), variables)])
        pending += [(((), f".{name}"), value) for name, value in held.items()]
        while pending:
            path, value = pending.popleft()
            if id(value) in seen:
                continue
            seen.add(id(value))
            inner = _held(value, variables)
            if _may_change(value):
                self._noted.append((path, value, inner))
            if (look := _state_of(value)) is not None:
                self._states.append((path, value, look, look()))
            pending += [((path, k), v) for k, v in _items(inner) if type(v) not in LEAVES]
        self._variables = variables

    def change(self, covers: Covers | None = None) -> Path | None:
        """The way to something that is not what it was; not to what is covered."""
        for path, value, before in self._noted:
            held = _held(value, self._variables)
            if _is_same(before, held):
                continue
            inner, now = dict(_items(before)), dict(_items(held))
            for key in [*inner, *now]:
                if key not in now or key not in inner or now[key] is not inner[key]:
                    if covers is not None and covers(value, name_of(key), not path):
                        continue
                    if key in inner or not _is_cached(value, key):
                        return path, key
            if isinstance(value, dict) and [*inner] != [*now]:  # in another order
                if covers is None or not covers(value, "", False):
                    return path
        for path, value, look, before in self._states:
            if look() != before and (covers is None or not covers(value, "", False)):
                return path
        return None

    def beside(self) -> str | None:
        """What is not what it was beside variables; of generators the module that draws."""
        if numbers_of(torch.get_rng_state) != self._seed:
            return "torch"
        changed = (name for name, (look, before) in self._beside.items() if look() != before)
        return next(changed, None)


class StateChanged(ImportFailure):
    """Something changes what there was before the program, to which `path` leads."""

    def __init__(self, path: Path, message: str, place: Place | None) -> None:
        super().__init__(message, place)
        self.path = path


def _numbered(value: Any, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a value holds; of a module only what is no module or tensor and not PyTorch's own."""
    if value is variables:
        users = sorted(variables, key=lambda name: name.startswith(UNNAMED))
        yield from ((f".{k}", variables[k]) for k in users if not k.startswith("__"))
    elif isinstance(value, torch.nn.Module):
        own = vars(value) if type(value).__module__ == "__main__" else {}
        yield from ((f".{name}", item) for name, item in own.items() if name not in OF_MODULES)
        yield from ((f".{name}", module) for name, module in value.named_children())
    else:
        for number, (key, item) in enumerate(held_in(value)):
            yield key or f"({number})", item


def _held(value: Any, variables: Mapping[str, Any]) -> Held:
    """The same; of a list or a table what is in it, as a copy, whose places need no text yet."""
    if type(value) in (list, dict, tuple) and value is not variables:
        return value.copy() if type(value) is not tuple else value
    return _Numbered(_numbered(value, variables))


def _items(held: Held) -> Iterable[tuple[Key, Any]]:
    """What is held, each with a key of its own."""
    if isinstance(held, _Numbered):
        return held.items()
    table = held.items() if isinstance(held, dict) else enumerate(held)
    return (((key,), item) for key, item in table)


def _is_same(one: Held, other: Held) -> bool:
    """True if the very same is held, in the same order."""
    if len(one) != len(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        keys = map(eq, one, other) if isinstance(one, _Numbered) else map(is_, one, other)
        return all(keys) and all(map(is_, one.values(), other.values()))
    return all(map(is_, one, other))


def found_by(path: Path, variables: Mapping[str, Any]) -> Any:
    """What a path leads to now; LookupError where there is nothing."""
    value: Any = variables
    for key in _keys(path):
        value = dict(_items(_held(value, variables)))[key]
    return value


def name_of(key: Key) -> str:
    """The name of a variable or an attribute; nothing for an item."""
    return key[1:] if isinstance(key, str) and key.startswith(".") else ""


def root_of_path(path: Path) -> str:
    """The variable that a path begins with."""
    return name_of(_keys(path)[0])


def _keys(path: Path) -> list[Key]:
    """The keys on the way, the first of them first."""
    keys: list[Key] = []
    at: Any = path
    while at:
        at, key = at
        keys.append(key)
    return keys[::-1]


def text_of(path: Path) -> str:
    """How Python's text gets at what has such a path."""
    keys = _keys(path)
    of_environment = keys[0] == ".os.environ"  # whose names are bytes
    texts = (key if isinstance(key, str) else f"[{key[0]!r}]" for key in keys)
    if of_environment:
        texts = (text.replace("[b", "[") for text in texts)
    return "".join(texts).lstrip(".")


def _may_change(value: Any) -> bool:
    kinds = (*CONTAINERS, FunctionType, ModuleType, type, torch.nn.Module)
    return isinstance(value, kinds) or is_object(value)


def _state_of(value: Any) -> Callable[[], Hashable] | None:
    """How the state is read that is hidden in a value; PyTorch's generators are known to it."""
    if is_simple(type(value)):
        return None
    if isinstance(value, (*WITHOUT, *CONTAINERS, tuple, frozenset, type, ModuleType)):
        return None
    if is_iterator(value):
        return partial(place_of, value)
    if any(value is generator for generator in UNNAMED_GENERATORS):
        return None
    if (state := kept(value)) is not None:
        return state.now
    return partial(fields_of, value) if fields_of(value) else None


def _is_cached(value: Any, key: Key) -> bool:
    """True for an attribute that an object or a class gets when it is first asked for it."""
    if key == ".__slotnames__":  # of a class whose objects are copied
        return True
    if not isinstance(key, str) or not is_object(value):
        return False
    if type(value).__module__ != "__main__":
        return True
    return isinstance(getattr(type(value), key.lstrip("."), None), functools.cached_property)
