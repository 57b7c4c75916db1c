"""What the code of a program finds in its closures and globals."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from types import CellType, CodeType, FunctionType
from typing import Any

import torch

from dlc.frontend.constants import CONTAINERS, Identity, copied, has_value, key_of
from dlc.frontend.source import ImportFailure

FOREIGN = ("torch", "dlc")
"""Packages whose code reads no names that a program's user binds anew."""
BY_IDENTITY = (torch.nn.Module, FunctionType)


class _Missing:
    """The value of a name that is bound to nothing."""


MISSING = _Missing()


@dataclass(frozen=True, eq=False)
class Binding:
    """A name in a closure or among globals."""

    holder: CellType | dict[str, Any]
    name: str

    @property
    def value(self) -> Any:
        """What it is bound to now."""
        if isinstance(self.holder, dict):
            return self.holder.get(self.name, MISSING)
        try:
            return self.holder.cell_contents
        except ValueError:
            return MISSING

    @property
    def place(self) -> Hashable:
        """What two bindings of one name in one place have in common."""
        return id(self.holder), self.name

    def bind(self, value: Any) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.name] = value
        else:
            self.holder.cell_contents = value


@dataclass(frozen=True)
class NotedBinding:
    """A binding and the constant that it was."""

    binding: Binding
    value: Any
    """Of a container a copy."""
    key: Hashable

    def holds(self) -> bool:
        found = self.binding.value
        if found is self.value and not isinstance(found, CONTAINERS):
            return True
        return type(found) is type(self.value) and key_of(found) == self.key


class FreeVariables:
    """The constants among what functions find, as they were."""

    def __init__(self, bindings: Sequence[Binding] = ()) -> None:
        self.noted: list[NotedBinding] = []
        for binding in bindings:
            value = binding.value
            if has_value(value):
                self.noted.append(NotedBinding(binding, copied(value), key_of(value)))
            elif isinstance(value, BY_IDENTITY):
                self.noted.append(NotedBinding(binding, value, Identity(value)))
        self._globals: list[tuple[dict[str, Any], str, NotedBinding]] = []
        """Those that need no more than a look whether it is the same object."""
        self._others: list[NotedBinding] = []
        for noted in self.noted:
            holder = noted.binding.holder
            if isinstance(holder, dict) and not isinstance(noted.value, CONTAINERS):
                self._globals.append((holder, noted.binding.name, noted))
            else:
                self._others.append(noted)

    def hold(self) -> bool:
        """True if all of them are as they were; cheap enough per call."""
        for holder, name, noted in self._globals:
            if holder.get(name) is not noted.value and not noted.holds():
                return False
        return all(noted.holds() for noted in self._others)

    def check_unchanged(self) -> None:
        """ImportFailure where the program has changed what it reads, which a graph does once."""
        for noted in self.noted:
            value, name = noted.binding.value, noted.binding.name
            if has_value(value) and not noted.holds():
                raise ImportFailure(
                    f"the program changes the variable '{name}', which it reads, from "
                    f"{noted.value!r} to {value!r}: its kernels would not; keep it in a buffer "
                    "(register_buffer), or change it outside of the program"
                )

    @contextmanager
    def restored(self) -> Iterator[None]:
        """All of them are as they were, in here."""
        with ExitStack() as stack:
            for noted in self.noted:
                if not noted.holds():
                    stack.callback(noted.binding.bind, noted.binding.value)
                    noted.binding.bind(copied(noted.value))
            yield


class FunctionModule(torch.nn.Module):
    """
    A function as a module. The modules and tensors that the function (or one that it calls) finds
    in its closure or its globals are attributes under their names, so they are known by these.
    """

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function
        self.tensors: dict[str, Binding] = {}
        """The names that were bound to tensors."""
        for name, value in free_values(function).items():
            if isinstance(value, (torch.nn.Module, torch.Tensor)) and not hasattr(self, name):
                setattr(self, name, value)
        for binding in free_variables([function]):
            value = vars(self).get(binding.name)
            if isinstance(value, torch.Tensor) and binding.value is value:
                self.tensors[binding.name] = binding

    def follow(self) -> None:
        """Names that are bound to other tensors by now are so here."""
        for name, binding in self.tensors.items():
            if isinstance(value := binding.value, torch.Tensor):
                vars(self)[name] = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def free_values(function: Callable[..., Any]) -> dict[str, Any]:
    """The values that the code of a function refers to, through the functions it calls too."""
    found: dict[str, Any] = {}
    pending: list[Any] = [function]
    seen: set[int] = set()
    while pending:
        current = inspect.unwrap(pending.pop())
        if id(current) in seen:
            continue
        seen.add(id(current))
        if inspect.ismethod(current):
            owner = current.__self__
            if isinstance(owner, torch.nn.Module):
                found.setdefault(type(owner).__name__.lower(), owner)
            current = current.__func__
        if not inspect.isfunction(current):
            continue
        if (current.__module__ or "").split(".")[0] == "torch":  # what eval made has no module
            continue
        free = inspect.getclosurevars(current)
        for name, bound in {**free.nonlocals, **free.globals}.items():
            value = inspect.unwrap(bound)
            found.setdefault(name, value)
            pending.append(value)
    return found


def free_variables(functions: Sequence[Callable[..., Any]]) -> list[Binding]:
    """
    The names that the code of functions refers to, through the functions that they call by name,
    and the forwards of modules that they find, too.
    """
    found: dict[Hashable, Binding] = {}
    pending: list[Any] = list(functions)
    seen: set[CodeType] = set()
    while pending:
        current = inspect.unwrap(pending.pop())
        current = current.__func__ if inspect.ismethod(current) else current
        if not inspect.isfunction(current) or current.__code__ in seen:
            continue
        if (current.__module__ or "").split(".")[0] in FOREIGN:  # what eval made has no module
            continue
        seen.add(current.__code__)
        for binding in _bindings(current):
            found.setdefault(binding.place, binding)
            value = binding.value
            pending += methods(value) if isinstance(value, torch.nn.Module) else [value]
    return list(found.values())


def methods(root: torch.nn.Module) -> list[Callable[..., Any]]:
    """The methods of modules that are reached from their forwards by name."""
    found: list[Callable[..., Any]] = []
    for kind in dict.fromkeys(type(module) for module in root.modules()):
        found += _reached(kind)
    return found


@cache
def _reached(kind: type) -> Sequence[Callable[..., Any]]:
    """The same of one class."""
    found: dict[str, Callable[..., Any]] = {}
    pending = ["forward"]
    while pending:
        name = pending.pop()
        method: Any = getattr(kind, name, None)
        method = inspect.unwrap(method)
        if name in found or not inspect.isfunction(method):
            continue
        if (method.__module__ or "").split(".")[0] in FOREIGN:
            continue
        found[name] = method
        pending += _names(method.__code__)[1]
    return list(found.values())


def _bindings(function: FunctionType) -> Iterator[Binding]:
    """The names that one function refers to."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        yield Binding(cell, name)
    for name in _names(function.__code__)[0]:
        if name in function.__globals__:
            yield Binding(function.__globals__, name)


@cache
def _names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals that code reads, and the attributes, that of functions in it included."""
    globals: dict[str, None] = {}
    attributes: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            globals[instruction.argval] = None
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            more = _names(constant)
            globals |= dict.fromkeys(more[0])
            attributes |= dict.fromkeys(more[1])
    return tuple(globals), tuple(attributes)
