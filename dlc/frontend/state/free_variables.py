"""What the code of a program reads beside arguments and modules, as it was."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any

import torch

from dlc.frontend.source import ImportFailure
from dlc.frontend.state.binding import Binding
from dlc.frontend.state.caches import emptied_again
from dlc.frontend.state.constants import (
    CONTAINERS,
    Identity,
    containers_in,
    copied,
    has_value,
    is_changeable,
    items_of,
    key_of,
    put_items,
)
from dlc.frontend.state.error_hints import changed
from dlc.frontend.state.lookup import Lookup
from dlc.frontend.state.names_read import Bindings
from dlc.frontend.state.tracers import TRACERS


@dataclass(frozen=True)
class NotedBinding:
    """A binding and what it was: a value, or which object."""

    binding: Binding
    value: Any
    """Of a container a copy."""
    key: Hashable
    inner: tuple[tuple[Any, tuple[Any, ...]], ...] = ()
    """The containers in one that can be changed, and what was in each: these very objects."""
    items: tuple[Any, ...] = ()
    """What was in the container itself."""
    is_changeable: bool = False
    """True for a container that can be changed, at whatever depth."""
    container: Any = None
    """Such a container itself."""

    @staticmethod
    def of(binding: Binding) -> NotedBinding:
        value = binding.value
        try:
            key = key_of(value)
        except RecursionError:  # a container that holds itself
            return NotedBinding(binding, value, Identity(value))
        if not is_changeable(value):
            return NotedBinding(binding, value, key)
        inner = tuple((part, items_of(part)) for part in containers_in(value))
        return NotedBinding(binding, copied(value), key, inner, items_of(value), True, value)

    def holds(self) -> bool:
        found = self.binding.value
        if not self.is_changeable and found is self.value:
            return True
        if type(found) is not type(self.value) or isinstance(self.key, Identity):
            return False
        if self.is_changeable and _holds(found, self.items):
            if all(_holds(part, items) for part, items in self.inner):
                return True
        return key_of(found) == self.key

    def put_back(self) -> None:
        """Binds what was bound, with the items that were in it."""
        if not self.is_changeable:
            self.binding.bind(self.value)
            return
        for part, items in ((self.container, self.items), *self.inner):
            put_items(part, items)
        self.binding.bind(self.container)


def _is_of_trace(value: Any) -> bool:
    """True for a tensor that stands for one while a program is exported, and for what holds one."""
    if isinstance(value, torch.Tensor):
        return isinstance(value, TRACERS)
    is_full = isinstance(value, CONTAINERS) and not isinstance(value, slice)
    return is_full and any(map(_is_of_trace, items_of(value)))


def _holds(container: Any, items: Sequence[Any]) -> bool:
    """True if these very objects are in a container."""
    found = items_of(container)
    return len(found) == len(items) and all(map(is_, found, items))


@dataclass(frozen=True)
class FollowedTensor:
    """A binding of a tensor for which any other will do."""

    binding: Binding
    value: torch.Tensor

    def holds(self) -> bool:
        return isinstance(self.binding.value, torch.Tensor)

    def put_back(self) -> None:
        self.binding.bind(self.value)


class FreeVariables:
    """
    What is bound to the names that code reads. Tensors whose bindings are `followed` are arguments
    of the program, so that it matters only that they are tensors.
    """

    def __init__(self, program: Any = None, followed: Iterable[Binding] = ()) -> None:
        self.bindings = Bindings()
        self.noted: list[NotedBinding | FollowedTensor] = []
        self._followed = {binding.place for binding in followed}
        self._objects: list[NotedBinding] = []
        """Of these it suffices that they are the very objects that they were last."""
        self._caches: list[Callable[[], object]] = []
        """What empties the caches of functions among them that a trace has filled."""
        self._are_same: Callable[[], bool] | None = None
        self._others: list[NotedBinding | FollowedTensor] = []
        self._note(self.bindings.reach(program))

    def reach_method(self, kind: type, name: str) -> None:
        """Notes what is read by what modules of a class have under a name."""
        self._note(self.bindings.reach_member(kind, name))

    def _note(self, bindings: Sequence[Binding]) -> None:
        for binding in bindings:
            value = binding.value
            self._caches += emptied_again([value])
            if binding.place in self._followed and isinstance(value, torch.Tensor):
                noted = FollowedTensor(binding, value)
            else:
                noted = NotedBinding.of(binding)
            self.noted.append(noted)
            if isinstance(noted, FollowedTensor) or noted.is_changeable:
                self._others.append(noted)
            else:
                self._objects.append(noted)
        self._are_same = None

    def reads(self, value: object) -> bool:
        """True if a name is bound to this very object."""
        return any(noted.value is value for noted in self.noted)

    def hold(self) -> bool:
        """True if all of them are as they were; cheap enough per call."""
        if self._are_same is None or not self._are_same():
            if not all(noted.holds() for noted in self._objects):
                return False
            lookup = Lookup()
            for noted in self._objects:
                noted.binding.add_to(lookup)
            self._are_same = lookup.close()
        return all(noted.holds() for noted in self._others)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """
        A trace, in here. ImportFailure where it has changed what the program reads, which a graph
        does once; where anything fails, all of it is as it was.
        """
        try:
            yield
            for noted in self.noted:
                self._check(noted)
        except BaseException:
            for noted in self.noted:
                now = noted.binding.value
                if now is not noted.value and (not noted.holds() or _is_of_trace(now)):
                    noted.put_back()
            raise

    @staticmethod
    def _check(noted: NotedBinding | FollowedTensor) -> None:
        value, name = noted.binding.value, noted.binding.name
        if value is noted.value:
            return
        if _is_of_trace(value):
            raise ImportFailure(
                f"the program puts a tensor that it computes into the variable '{name}', which it "
                "reads: its kernels would not; let it return the tensor, or keep it in a buffer "
                "(register_buffer)"
            )
        if not noted.holds() and has_value(value):
            raise changed(f"the variable '{name}'", noted.value, value)

    @contextmanager
    def caches_emptied(self) -> Iterator[None]:
        """Caches of functions among them keep nothing of a trace in here."""
        try:
            yield
        finally:
            for empty in self._caches:
                empty()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """All of them are as they were, in here."""
        with ExitStack() as stack:
            for noted in self.noted:
                if not noted.holds():
                    stack.callback(noted.binding.bind, noted.binding.value)
                    noted.binding.bind(copied(noted.value))
            yield
