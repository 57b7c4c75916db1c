"""The tensors that modules hold and a program takes: found at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch

from dlc.frontend.guard import Guard
from dlc.frontend.pairs import pairs_of, resolved
from dlc.frontend.state.function_module import FunctionModule
from dlc.frontend.state.lookup import Lookup

_REGISTRIES = ("_parameters", "_buffers")
_PROPERTIES = attrgetter("shape", "dtype", "layout", "requires_grad", "device")


@dataclass(frozen=True)
class Held:
    """Finds the one tensor that modules have under such names; None if they have several now."""

    places: tuple[tuple[torch.nn.Module, str], ...]

    @property
    def present(self) -> Any:
        """What the first of the modules has."""
        owner, name = self.places[0]
        return getattr(owner, name, None)

    def __call__(self) -> torch.Tensor | None:
        tensor = self.present
        tied = all(getattr(module, name, None) is tensor for module, name in self.places[1:])
        if not tied:
            return None
        return resolved(tensor) if isinstance(tensor, torch.Tensor) else tensor

    @contextmanager
    def put(self, tensor: torch.Tensor) -> Iterator[None]:
        """It is the modules' tensor in here, whatever type of tensor it is."""
        with ExitStack() as stack:
            for module, name in self.places:
                binding = module.tensors.get(name) if isinstance(module, FunctionModule) else None
                if binding is not None:
                    stack.callback(binding.bind, binding.value)
                    binding.bind(tensor)
                own = module.__dict__
                registries = own["_parameters"], own["_buffers"]
                place = next((place for place in registries if name in place), own)
                if name in place:
                    stack.callback(place.__setitem__, name, place[name])
                else:
                    stack.callback(place.pop, name)
                place[name] = tensor
            yield

    def add_to(self, lookup: Lookup) -> None:
        """Has the tensor looked up with others."""
        for module, name in self.places:
            own = module.__dict__
            registry = next((own[kind] for kind in _REGISTRIES if name in own[kind]), None)
            if registry is None:
                lookup.add_attribute(module, name)
            else:
                lookup.add(registry, name)
                lookup.add_absent(own, (name,))


class HeldTensors:
    """
    Such tensors and their guards. Where all are the tensors that they were, with their memory where
    it was, they are not looked at one by one.
    """

    def __init__(self, held: Mapping[int, tuple[Held, Guard]]) -> None:
        self.held = held
        self._are_same: Callable[[], bool] = lambda: False
        self._found: list[torch.Tensor] = []
        self._facts: list[list[Any]] = []
        self._last: dict[int, torch.Tensor] = {}

    def tensors(self) -> Mapping[int, torch.Tensor] | None:
        """The tensors by the numbers of their arguments, complex ones as pairs; None for others
        than the guards are for."""
        if self._are_same() and _facts(self._found) == self._facts:
            return self._last
        found: dict[int, torch.Tensor] = {}
        for number, (held, guard) in self.held.items():
            tensor = held()
            if not isinstance(tensor, torch.Tensor) or not guard.holds(tensor):
                return None
            found[number] = tensor
        self._last = {number: pairs_of(tensor) for number, tensor in found.items()}
        self._note(list(found.values()))
        return self._last

    def _note(self, found: list[torch.Tensor]) -> None:
        """Remembers where tensors are, if they are where modules have them and ordinary ones."""
        self._are_same = lambda: False
        lookup = Lookup()
        for (held, _), tensor in zip(self.held.values(), found, strict=True):
            if tensor is not held.present:  # a copy, for one whose memory holds conjugates
                return
            held.add_to(lookup)
        try:
            self._facts = _facts(found)
        except RuntimeError:  # of a tensor without memory
            return
        self._found, self._are_same = found, lookup.close()


def _facts(tensors: list[torch.Tensor]) -> list[list[Any]]:
    """All that a guard asks of tensors, and where their memory is."""
    kind = torch.Tensor
    asked = (kind.data_ptr, kind.stride, _PROPERTIES, kind.is_conj, kind.is_neg)
    return [list(map(ask, tensors)) for ask in asked]
