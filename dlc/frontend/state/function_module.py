"""A function as a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import torch

from dlc.frontend.state.binding import Binding
from dlc.frontend.state.names_read import Bindings, unwrapped


class FunctionModule(torch.nn.Module):
    """
    A function as a module. The modules and tensors that the function (or one that it calls) reads
    are attributes under their names, so they are known by these.
    """

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function
        self.tensors: dict[str, Binding] = {}
        """The names that were bound to tensors."""
        for name, (value, bindings) in held_by(function).items():
            if not hasattr(self, name):
                setattr(self, name, value)
                if isinstance(value, torch.Tensor) and len(bindings) == 1:
                    self.tensors[name] = bindings[0]

    def follow(self) -> None:
        """Names that are bound to other tensors by now are so here."""
        for name, binding in self.tensors.items():
            if isinstance(value := binding.value, torch.Tensor):
                self._set(name, value)

    @contextmanager
    def parameters_as_tensors(self) -> Iterator[None]:
        """
        Within it the code reads ordinary tensors for parameters that names are bound to: PyTorch
        exports those under their names, as it does other tensors, and parameters as copies.
        """
        with ExitStack() as stack:
            for name, binding in self.tensors.items():
                value = binding.value
                if isinstance(value, torch.nn.Parameter):
                    stack.callback(self._set, name, value)
                    stack.callback(binding.bind, value)
                    alias = value.detach().requires_grad_(value.requires_grad)
                    binding.bind(alias)
                    self._set(name, alias)
            yield

    def _set(self, name: str, tensor: torch.Tensor) -> None:
        """Parameters are registered, other tensors are attributes."""
        self._parameters.pop(name, None)
        vars(self).pop(name, None)
        setattr(self, name, tensor)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def root_of(program: Callable[..., Any]) -> torch.nn.Module:
    """
    The module that has the parameters of a program: itself, or one around a function, or around a
    module whose code reads parameters by names, or modules with others than its own, as in a list.
    """
    if isinstance(program, torch.nn.Module):
        reached = Bindings()
        values = (unwrapped(binding.value) for binding in reached.reach(program))
        reads = any(isinstance(value, torch.nn.Parameter) for value in values)
        own = set(_tensors(program))
        if not reads and all(own.issuperset(_tensors(module)) for module in reached.modules):
            return program
    return FunctionModule(program)


def held_by(function: Any) -> dict[str, tuple[torch.nn.Module | torch.Tensor, Sequence[Binding]]]:
    """
    The modules and tensors that code reads, by name, and where; a method reads its module. Modules
    in containers, partial functions and objects have the names of their classes.
    """
    reached = Bindings()
    found: dict[str, tuple[torch.nn.Module | torch.Tensor, list[Binding]]] = {}
    for binding in reached.reach(function):
        value = unwrapped(binding.value)
        if isinstance(value, (torch.nn.Module, torch.Tensor)):
            first, bindings = found.setdefault(binding.name, (value, []))
            if first is value:
                bindings.append(binding)
    for owner in reached.receivers:
        found.setdefault(type(owner).__name__.lower(), (owner, []))
    held = function, *(value for value, _ in found.values())
    known = {id(part) for value in held for part in _modules(value)}
    for module in reached.modules:
        if id(module) not in known:
            known.update(map(id, module.modules()))
            name = type(module).__name__.lower()
            free = (f"{name}_{n}" if n else name for n in count())
            found[next(n for n in free if n not in found)] = module, []
    return dict(found)


def _tensors(module: torch.nn.Module) -> Iterable[int]:
    """The parameters and buffers of a module, by identity."""
    return map(id, (*module.parameters(), *module.buffers()))


def _modules(value: object) -> Iterable[torch.nn.Module]:
    return value.modules() if isinstance(value, torch.nn.Module) else ()
