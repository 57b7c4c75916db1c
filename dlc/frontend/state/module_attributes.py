"""
The numbers, strings and flags of modules that a program is compiled for.

What the code of a program reads of its modules while it is exported (`self.eps`, `self.training`)
is a constant of the graph, so a call for which it has changed needs another one. So it does where a
module has other submodules or hooks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from dlc.frontend.source import ImportFailure
from dlc.frontend.state.constants import CONTAINERS, MISSING, Identity, copied, has_value, key_of
from dlc.frontend.state.error_hints import changed
from dlc.frontend.state.lookup import Lookup

INTERNAL = frozenset((*vars(torch.nn.Module()), *dir(torch.nn.Module))) - {"training", "forward"}
"""What every module has, and PyTorch itself reads."""
CODE = (torch.nn.Module, FunctionType, BuiltinFunctionType, MethodType, partial, type)
"""Types of objects that are what they do, and compared by identity."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
STRUCTURE = ("_modules", *HOOKS)


OnMethod: TypeAlias = Callable[[type, str], None]
"""Told of the methods that are read: the class of the module, and the name."""


@dataclass(frozen=True)
class Noted:
    """An attribute as it was read first."""

    module: torch.nn.Module
    name: str
    value: Any
    """Of a container a copy."""
    key: Hashable

    def holds(self) -> bool:
        """True if it is the same constant now."""
        found = getattr(self.module, self.name, MISSING)
        if found is self.value and not isinstance(found, CONTAINERS):
            return True
        return type(found) is type(self.value) and _key(found) == self.key

    def add_to(self, lookup: Lookup) -> bool:
        """Has it looked up with others; False if that does not tell whether it holds."""
        found = getattr(self.module, self.name, MISSING)
        if found is MISSING or isinstance(found, CONTAINERS) or "." in self.name:
            return False
        own, kind = _own(self.module), type(self.module)
        if self.name in own and not hasattr(kind, self.name):
            lookup.add(own, self.name)
            for base in kind.__mro__[:-1]:  # where a property would come first
                lookup.add_absent(base, (self.name,))
        else:
            lookup.add_attribute(self.module, self.name)
        return True

    def restore(self) -> Callable[[], None]:
        """Sets it to what it was; a call of the result undoes that. ImportFailure if it cannot."""
        now = getattr(self.module, self.name, MISSING)
        try:
            _set(self.module, self.name, copied(self.value))
        except AttributeError:
            raise ImportFailure(
                f"the attribute '{self.name}' of a {type(self.module).__name__} was "
                f"{self.value!r} in the forward, is {now!r} in its backward, and cannot be set; "
                "set it back before the backward"
            ) from None
        return partial(_set, self.module, self.name, now)


def _set(module: torch.nn.Module, name: str, value: Any) -> None:
    if value is MISSING:
        delattr(module, name)
    else:
        setattr(module, name, value)


class Structure:
    """
    The submodules and hooks of a module, and the parameters, buffers and methods of its own that it
    has not.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        own = _own(module)
        self.parts = [(own[name], dict(own[name])) for name in STRUCTURE]
        self.absent = [
            (tensors, name)
            for tensors in (own["_parameters"], own["_buffers"])
            for name, tensor in tensors.items()
            if tensor is None
        ]
        self.methods: set[str] = set()
        """The names of methods that are read and are those of its class."""

    def holds(self) -> bool:
        return (
            all(not (now or then) or dict(now) == then for now, then in self.parts)
            and all(tensors.get(name) is None for tensors, name in self.absent)
            and _own(self.module).keys().isdisjoint(self.methods)
        )

    def add_to(self, lookup: Lookup) -> None:
        """Has all of it looked up with others."""
        for now, _ in self.parts:
            if now:
                lookup.add_items(dict.keys, now)
                lookup.add_items(dict.values, now)
            else:
                lookup.add_result(len, now)
        for tensors, name in self.absent:
            lookup.add(tensors, name)
        if self.methods:
            lookup.add_attribute(self.module, "__dict__")
            lookup.add_absent(_own(self.module), self.methods)

    def restore(self) -> Callable[[], None]:
        """As of `Noted`."""
        before = [(part, then, dict(part)) for part, then in self.parts]
        given = [(tensors, name, tensors[name]) for tensors, name in self.absent if name in tensors]
        own = _own(self.module)
        methods = {name: own[name] for name in self.methods if name in own}

        def put(old: bool) -> None:
            for part, then, now in before:
                part.clear()
                part.update(then if old else now)
            for tensors, name, tensor in given:
                tensors[name] = None if old else tensor
            for name, method in methods.items():
                _set(self.module, name, MISSING if old else method)

        put(True)
        return partial(put, False)


@dataclass
class ModuleAttributes:
    """What has been read of modules, as it was then."""

    read: dict[tuple[int, str], Noted] = field(default_factory=dict)
    structures: dict[int, Structure] = field(default_factory=dict)
    written: dict[tuple[int, str], torch.nn.Module] = field(default_factory=dict)
    """What the program writes before it reads it, so that what it was does not matter."""
    found: dict[tuple[int, str], object] = field(default_factory=dict)
    """The values that were read themselves, while the program runs: export copies containers."""
    made: dict[int, torch.nn.Module] = field(default_factory=dict)
    """Modules that are made while the program runs, first met in their `__init__`."""
    on_method: OnMethod | None = None
    _are_same: Callable[[], bool] | None = None
    """Of most it suffices that they are the very objects that they were last."""
    _others: list[Noted] = field(default_factory=list)

    def hold(self) -> bool:
        """True if all of them are as they were; cheap enough per call."""
        if self._are_same is not None and self._are_same():
            return all(noted.holds() for noted in self._others)
        if not all(part.holds() for part in (*self.structures.values(), *self.read.values())):
            return False
        lookup = Lookup()
        for structure in self.structures.values():
            structure.add_to(lookup)
        self._others = [noted for noted in self.read.values() if not noted.add_to(lookup)]
        self._are_same = lookup.close()
        return True

    def note(self, module: torch.nn.Module, name: str, value: object) -> None:
        """Remembers what was read, if it is such an attribute."""
        if issubclass(type(module), GraphModule) or id(module) in self.made:
            return
        if "_modules" not in _own(module):
            self.made[id(module)] = module
            return
        if id(module) not in self.structures:
            self.structures[id(module)] = Structure(module)
            self._are_same = None
        where = id(module), name
        if name.startswith("__") or name in INTERNAL:
            return
        if where in self.read or where in self.written:
            return
        if isinstance(value, MethodType) and name not in _own(module):
            self._note_method(module, name)
        if value is MISSING and name.startswith("_"):
            return
        if any(covers(value, "", False) for covers in _PUT_BACK):
            return
        if value is MISSING or has_value(value) or (name in _own(module) and _is_held(value)):
            self.guard(module, name, value)
            self.found[where] = value

    def _note_method(self, module: torch.nn.Module, name: str) -> None:
        self.structures[id(module)].methods.add(name)
        self._are_same = None
        if self.on_method is not None:
            self.on_method(type(module), name)

    def guard(self, module: torch.nn.Module, name: str, value: object) -> None:
        """The program is for this value of an attribute."""
        self._are_same = None
        self.read[id(module), name] = Noted(module, name, copied(value), _key(value))

    def check_write(self, module: torch.nn.Module, name: str, value: object) -> None:
        """ImportFailure for a change of what the program has read, which a graph does only once."""
        noted = self.read.get((id(module), name))
        if noted is not None and any(covers(module, name, False) for covers in _PUT_BACK):
            return
        if noted is None:
            self.written[id(module), name] = module
        elif (has_value(value) or _is_held(value)) and _key(value) != noted.key:
            raise _changed(noted, value)

    def close(self) -> None:
        """Nothing more is noted. ImportFailure if the program has changed what it has read."""
        found = dict(self.found)
        self.on_method = None
        for record in (self.written, self.made, self.found):
            record.clear()
        for where, noted in self.read.items():
            if _key(found[where]) != noted.key:
                raise _changed(noted, found[where])
        for structure in self.structures.values():
            if not structure.holds():
                raise ImportFailure(
                    f"the program changes the submodules or the hooks of a "
                    f"{type(structure.module).__name__}: its kernels would not; change them "
                    "outside of the program"
                )

    @contextmanager
    def restored(self) -> Iterator[None]:
        """All of them are as they were, in here. ImportFailure where one cannot be set."""
        with ExitStack() as stack:
            for part in (*self.structures.values(), *self.read.values()):
                if not part.holds():
                    stack.callback(part.restore())
            yield


_PUT_BACK: list[Callable[[Any, str, bool], bool]] = []


@contextmanager
def attributes_put_back(covers: Callable[[Any, str, bool], bool]) -> Iterator[None]:
    """What of modules is covered may change within, as it is put back there."""
    _PUT_BACK.append(covers)
    try:
        yield
    finally:
        _PUT_BACK.pop()


class _Recording:
    """The records that are being made. Only one thread makes any: see `exclusive`."""

    def __init__(self) -> None:
        self.open: list[ModuleAttributes] = []
        self.thread = 0
        self.write_attribute = torch.nn.Module.__setattr__

    def begin(self, attributes: ModuleAttributes) -> None:
        self.open.append(attributes)
        self.thread = threading.get_ident()
        if len(self.open) > 1:
            return
        self._watch()

    def _watch(self) -> None:
        self.write_attribute = torch.nn.Module.__setattr__

        def read(module: torch.nn.Module, name: str) -> Any:
            return self._read(module, name)

        def write(module: torch.nn.Module, name: str, value: Any) -> None:
            self._write(module, name, value)

        torch.nn.Module.__getattribute__ = read  # type: ignore[method-assign]
        torch.nn.Module.__setattr__ = write  # type: ignore[method-assign]

    def end(self) -> None:
        self.open.pop()
        if not self.open:
            self._look_away()

    def _look_away(self) -> None:
        del torch.nn.Module.__getattribute__
        torch.nn.Module.__setattr__ = self.write_attribute  # type: ignore[method-assign]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is noted within."""
        self._look_away()
        try:
            yield
        finally:
            self._watch()

    def _read(self, module: torch.nn.Module, name: str) -> Any:
        own = _own(module)
        is_new = name not in own and isinstance(getattr(type(module), name, 0), cached_property)
        try:
            value = object.__getattribute__(module, name)
        except AttributeError:
            if not _is_registered(module, name):
                self._note(module, name, MISSING)
            raise
        if is_new and any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(value)):
            del own[name]  # which is a tensor of the trace, and nothing elsewhere
            return value
        self._note(module, name, value)
        return value

    def _note(self, module: torch.nn.Module, name: str, value: object) -> None:
        if self.thread == threading.get_ident():
            for attributes in self.open:
                attributes.note(module, name, value)

    def _write(self, module: torch.nn.Module, name: str, value: Any) -> None:
        if self.thread == threading.get_ident():
            for attributes in self.open:
                attributes.check_write(module, name, value)
        self.write_attribute(module, name, value)


def _changed(noted: Noted, value: object) -> ImportFailure:
    what = f"the attribute '{noted.name}' of a {type(noted.module).__name__}"
    return changed(what, noted.value, value)


def _is_held(value: object) -> bool:
    """True if a value of a module's own is compared: one with code, or a container."""
    return isinstance(value, (*CODE, *CONTAINERS))


def _key(value: object) -> Hashable:
    """
    The key of an attribute's value. Tensors are arguments of the program, whatever holds them, and
    other objects are what they are: neither counts.
    """
    return key_of(value, lambda found: Identity(found if isinstance(found, CODE) else None))


def _own(module: torch.nn.Module) -> dict[str, Any]:
    """The module's `__dict__`, not noted."""
    return object.__getattribute__(module, "__dict__")


def own_attributes(module: torch.nn.Module) -> dict[str, Any]:
    """What a module has of its own beside tensors and submodules; its forward hooks, too."""
    own = _own(module)
    return {
        name: value
        for name, value in own.items()
        if (name not in INTERNAL or name in HOOKS) and not isinstance(value, torch.Tensor)
    }


def _is_registered(module: torch.nn.Module, name: str) -> bool:
    own = _own(module)
    return any(name in own.get(kind, ()) for kind in ("_parameters", "_buffers", "_modules"))


_RECORDING = _Recording()


@contextmanager
def recorded_attributes(on_method: OnMethod | None = None) -> Iterator[ModuleAttributes]:
    """
    Notes what the code of modules reads in here, and tells of methods. ImportFailure where it
    changes any of that. One record may be made inside of another, in the same thread; those of
    threads exclude each other.
    """
    attributes = ModuleAttributes(on_method=on_method)
    _RECORDING.begin(attributes)
    try:
        yield attributes
    finally:
        _RECORDING.end()
    attributes.close()


@contextmanager
def unseen_bodies(root: torch.nn.Module, attributes: ModuleAttributes) -> Iterator[None]:
    """
    PyTorch has Dynamo trace the bodies of control flow, which takes no module that is watched: what
    they read is not known, so it is taken that they read all that the modules in `root` hold.
    """
    compile = torch.compile

    def compile_unseen(*args: Any, **kwargs: Any) -> Any:
        compiled = compile(*args, **kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            with _RECORDING.paused():
                for module in root.modules():
                    for name, value in _own(module).items():
                        attributes.note(module, name, value)
                return compiled(*args, **kwargs)

        return run

    torch.compile = compile_unseen  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compile = compile  # type: ignore[assignment]
