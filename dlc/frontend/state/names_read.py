"""
The names that the code of a program reads: in closures, among globals, defaults of functions, and
attributes of Python modules and classes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial, partialmethod
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias
from weakref import ProxyTypes

import torch

from dlc.frontend.state.binding import Binding, Holder
from dlc.frontend.state.code_names import MATCHED, names_in_code
from dlc.frontend.state.constants import CONTAINERS, MISSING, has_value, items_of
from dlc.frontend.state.foreign import is_foreign
from dlc.frontend.state.module_attributes import own_attributes
from dlc.frontend.state.users_objects import (
    attributes_named,
    attributes_of,
    has_name,
    is_dead,
    is_users_object,
    of_class,
    operators_of,
    own_of,
)

DEFAULTS = ("__code__", "__defaults__", "__kwdefaults__")
"""What a function is, beside its names."""
CALLED = ("__call__",)
CALLED_CLASS = ("__init__", "__post_init__")
CALLED_MODULE = ("forward", *CALLED)
"""What runs without being named where an object is called."""

Owners: TypeAlias = tuple[type, ...]
"""Classes in which names are looked up that code reads as attributes."""
Reached: TypeAlias = tuple[Any, Owners]
"""A value; in its code, which may be that of a method, `self` or what it holds is of the owners."""


@dataclass
class Bindings:
    """
    What code reads, as far as it is reached: through the functions that it names, those in
    containers and `functools.partial`, forwards and hooks of modules; what a function names as an
    attribute, in the class that it is a method of and in the values that its names are bound to;
    and what any of them does, in the objects of a user's classes that are reached.
    """

    found: dict[Hashable, Binding] = field(default_factory=dict)
    receivers: list[torch.nn.Module] = field(default_factory=list)
    """The modules whose bound methods are reached."""
    modules: list[torch.nn.Module] = field(default_factory=list)
    """The modules that are reached, also in containers and objects."""
    _objects: list[Any] = field(default_factory=list)
    """The objects of a user's classes that are reached."""
    _held: list[Binding] = field(default_factory=list)
    """Where modules have such objects."""
    _attributes: dict[str, bool] = field(default_factory=dict)
    """The attributes that code names; True for those that it does more with than to call them."""
    _asked: dict[str, bool] = field(default_factory=dict)
    """Those of them that were looked for in all of the objects, as what they were by then."""
    _kinds: dict[type, tuple[set[str], set[str]]] = field(default_factory=dict)
    """Of the classes of objects, what was looked for, and what an object may have in its place."""
    _searched: dict[int, Any] = field(default_factory=dict)
    """What the walk has searched for modules, by identity."""
    _seen: dict[Hashable, Reached] = field(default_factory=dict)
    """By identity, and kept, so that it stays theirs."""

    def reach(self, value: Any) -> Sequence[Binding]:
        """The bindings that are reached from a value, and were not before."""
        return self._walk([(value, ())])

    def reach_member(self, owner: type, name: str) -> Sequence[Binding]:
        """Those of what objects of a class have under a name."""
        before = len(self.found)
        members = list(self._members(owner, (name,), (owner,)))
        own = list(self.found.values())[before:]
        return [*own, *self._walk(members)]

    def _walk(self, pending: list[Reached]) -> Sequence[Binding]:
        before = len(self.found)
        while pending:
            value, owners = pending.pop()
            where = id(value), *map(id, owners)
            if where not in self._seen and type(value) not in ProxyTypes:
                self._seen[where] = value, owners
                pending += self._inside(value, owners)
            if not pending:
                pending += self._in_objects()
        self._searched.clear()
        return [b for b in list(self.found.values())[before:] if not is_dead(b.value)]

    def _note(self, binding: Binding) -> Any:
        """What it is bound to."""
        return self.found.setdefault(binding.place, binding).value

    def _in_objects(self) -> Iterator[Reached]:
        """What objects have under names of attributes that were not looked for before."""
        if names := dict(self._attributes.items() - self._asked.items()):
            self._asked |= names
            self._note_named(self._held, names.keys())
            for value in self._objects:
                yield from self._in_object(value, names.keys())

    def _note_named(self, bindings: Iterable[Binding], names: AbstractSet[str]) -> None:
        for binding in bindings:
            if binding.name in names:
                self._note(binding)

    def _in_object(self, value: Any, names: AbstractSet[str]) -> Iterator[Reached]:
        kind = type(value)
        if MATCHED in names:
            names = names | set(getattr(kind, MATCHED, ()))
        asked, replaced = self._kinds.setdefault(kind, (set(), set()))
        if fresh := names - asked:
            asked |= fresh
            replaced |= {name for name in fresh if _is_default(of_class(kind, name))}
            yield from self._members(kind, sorted(fresh), (kind,))
        for binding in attributes_named(value, names, names & replaced):
            found = binding.value
            called = of_class(kind, binding.name) if found is MISSING else found
            if self._attributes.get(binding.name, True) or _may_be_called(called):
                yield self._note(binding), ()

    def _inside(self, value: Any, owners: Owners) -> Iterator[Reached]:
        match value:
            case FunctionType():
                yield from self._in_function(value, owners)
            case MethodType():
                if isinstance(value.__self__, torch.nn.Module):
                    self.receivers.append(value.__self__)
                yield value.__func__, (type(value.__self__),)
                yield value.__self__, ()
            case torch.nn.Module():
                self.modules.append(value)
                for kind, modules in _by_kind(value).items():
                    yield from self._in_modules(kind, modules)
            case staticmethod() | classmethod():
                yield value.__func__, owners
            case property():
                yield value.fget, owners
            case cached_property():
                yield value.func, owners
            case partial() | partialmethod():
                yield value.func, owners
                yield from _items((value.args, value.keywords))
            case torch.Tensor() | ModuleType():
                pass
            case _ if isinstance(value, CONTAINERS):
                yield from _items(value)
            case _:
                of_class = isinstance(value, type)
                kind, names = (value, CALLED_CLASS) if of_class else (type(value), CALLED)
                yield from self._members(kind, names, (kind,))
                yield _wrapped(value), owners
                if not of_class:
                    if is_users_object(value):
                        self._objects.append(value)
                        yield from self._members(kind, operators_of(kind), (kind,))
                        yield from self._in_object(value, self._asked.keys())
                    yield from ((module, ()) for module in _modules_in(value, self._searched))

    def _in_function(self, function: FunctionType, owners: Owners) -> Iterator[Reached]:
        yield _wrapped(function), owners
        if is_foreign(function.__globals__.get("__name__")):
            return
        _, attributes, called = names_in_code(function.__code__)
        for name in attributes:
            self._attributes[name] = self._attributes.get(name, False) or name not in called
        for owner in owners:
            yield from self._members(owner, attributes, owners)
        for binding in _bindings(function):
            value = self._note(binding)
            yield value, ()
            named = isinstance(value, type | ModuleType | FunctionType)
            kind: Any = value if named else type(value)
            inner = (kind,) if isinstance(kind, type) else ()
            yield from self._members(kind, attributes, inner)
            if not named:
                yield from ((module, ()) for module in _modules_named(value, attributes))

    def _members(
        self, owner: type | ModuleType | FunctionType, names: Iterable[str], owners: Owners
    ) -> Iterator[Reached]:
        """What a class, also a base of another one, or a namespace has under such names."""
        if isinstance(owner, type):
            bases = [kind for kind in owner.__mro__ if not is_foreign(kind.__module__)]
            names = [name for name in names if has_name(owner, name)] if bases else ()
            holders: Sequence[Holder] = bases
        else:
            own = vars(owner)
            names = () if is_foreign(own.get("__name__")) else [n for n in names if n in own]
            holders = [own]
        for holder in holders:
            for name in names:
                yield self._note(Binding(holder, name)), owners

    def _in_modules(self, kind: type, modules: Sequence[torch.nn.Module]) -> Iterator[Reached]:
        """What modules of one class do when they are called."""
        own = [(m, name, v) for m in modules for name, v in own_attributes(m).items()]
        held = [v for _, _, v in own if not has_value(v)]
        objects = [Binding(own_of(m) or {}, name) for m, name, v in own if is_users_object(v)]
        self._held += objects
        self._note_named(objects, self._asked.keys())
        owners = (kind, *dict.fromkeys(map(type, held)))
        yield from self._members(kind, CALLED_MODULE, owners)
        yield from ((value, ()) for value in held)


def _by_kind(root: torch.nn.Module) -> Mapping[type, Sequence[torch.nn.Module]]:
    kinds: dict[type, list[torch.nn.Module]] = {}
    for module in root.modules():
        kinds.setdefault(type(module), []).append(module)
    return kinds


def _items(container: Any) -> Iterator[Reached]:
    """What is in a container and may have code."""
    if not isinstance(container, slice):
        items = items_of(container)
        yield from ((item, ()) for item in items if not isinstance(item, type | torch.Tensor))


def _modules_named(value: Any, names: Iterable[str]) -> Iterator[torch.nn.Module]:
    """The modules that an object, of whatever package, has under such names."""
    if not isinstance(value, torch.nn.Module):
        held = own_of(value) or {}
        yield from (held[n] for n in names if issubclass(type(held.get(n)), torch.nn.Module))


def _modules_in(value: Any, searched: dict[int, Any]) -> Iterator[torch.nn.Module]:
    """
    The modules that an object of the user's holds, also in containers and other such objects, but
    for those that were searched.
    """
    pending = [value]
    while pending:
        held = pending.pop()
        if id(held) in searched or type(held) in ProxyTypes or isinstance(held, type | slice):
            continue
        searched[id(held)] = held
        if isinstance(held, torch.nn.Module):
            yield held
        elif isinstance(held, CONTAINERS):
            pending += items_of(held)
        elif is_users_object(held):
            pending += (binding.value for binding in attributes_of(held))


def _is_default(value: Any) -> bool:
    """True for what a class has and its objects may have others in the place of."""
    return has_value(value) or isinstance(value, FunctionType | staticmethod | classmethod)


def _may_be_called(value: Any) -> bool:
    """False for numbers and tensors: what `mean` in `x.mean()` is not; None may give way to it."""
    is_other = not (has_value(value) or isinstance(value, torch.Tensor))
    return value is None or callable(value) or is_other


def _wrapped(value: Any) -> Any:
    """What a decorator was given, else None."""
    return (own_of(value) or {}).get("__wrapped__")


def unwrapped(value: Any) -> Any:
    """What it is without decorators."""
    while (inner := _wrapped(value)) is not None:
        value = inner
    return value


def _bindings(function: FunctionType) -> Iterator[Binding]:
    """The names that one function refers to, and its defaults."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        yield Binding(cell, name)
    for name in names_in_code(function.__code__)[0]:
        yield Binding(function.__globals__, name)
    for name in DEFAULTS:
        yield Binding(function, name)
