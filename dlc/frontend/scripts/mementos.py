"""What values were before a statement ran, so that it can be as if it had not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from operator import is_
from types import FunctionType, MethodType
from typing import Any, TypeAlias

import torch

from dlc.frontend.scripts.script_state import ScriptState
from dlc.frontend.state.binding import Binding
from dlc.frontend.state.hidden_state import Kept, drawn_from, kept
from dlc.frontend.state.insides import attributes_of, is_object
from dlc.frontend.state.tensor_changes import refill, version_of

Undo: TypeAlias = Callable[[], object]
LEFT = (str, bytes, int, float, complex)
"""What never changes."""


class Memento:
    """
    What is in some values and in what they hold, at whatever depth: containers, objects, tensors
    and buffers, which may change, and classes, functions, modules and parameters, which may not;
    and what there is `beside` them, such as what the generators of random numbers draw next.
    """

    def __init__(self, values: Iterable[Any], beside: Iterable[Kept] | None = None) -> None:
        self._goes_on = False
        """True if an iterator or a file is among them, which cannot go back."""
        self._undo: list[Undo] = [partial(torch.set_rng_state, torch.get_rng_state())]
        self._is_same: list[Callable[[], bool]] = []
        """Of what may not change."""
        self._others: list[Any] = []
        """What may change what it holds when it runs, and objects of extensions."""
        for state in drawn_from().values() if beside is None else beside:
            self._keep_state(state, may_change=True)
        seen: dict[int, Any] = {}
        pending = deque((value, True) for value in values)
        while pending:
            value, may_change = pending.popleft()
            if id(value) not in seen and not isinstance(value, LEFT):
                seen[id(value)] = value
                pending += self._note(value, may_change)
        others = {str(number): value for number, value in enumerate(self._others)}
        state = ScriptState(others, known=seen.keys() - map(id, self._others))
        self._is_same.append(lambda: state.change() is None)

    def restore(self) -> bool:
        """Makes the values what they were; False, and nothing, where something else has changed."""
        if self._goes_on or not all(same() for same in self._is_same):
            return False
        for undo in self._undo:
            undo()
        return True

    def _note(self, value: Any, may_change: bool) -> Iterator[tuple[Any, bool]]:
        """Keeps what is in one value; gives what it holds, and whether that may change."""
        match value:
            case torch.Tensor():
                if may_change and not isinstance(value, torch.nn.Parameter):
                    self._undo.append(partial(refill, value, value.detach().clone()))
                else:
                    self._is_same.append(partial(_has_version, value, version_of(value)))
            case list() | deque():
                self._keep(may_change, undo_of(value), partial(_holds, value, [*value]))
                yield from ((item, may_change) for item in value)
            case dict():
                self._keep(may_change, undo_of(value), partial(_holds_table, value, dict(value)))
                yield from ((item, may_change) for item in value.values())
            case set():
                self._keep(may_change, undo_of(value), partial(value.__eq__, set(value)))
            case type():
                if value.__module__ == "__main__":  # a class of the script
                    self._is_same.append(partial(_holds_table, vars(value), dict(vars(value))))
            case tuple() | frozenset():
                yield from ((item, may_change) for item in value)
            case torch.nn.Module():
                yield vars(value), False
                yield from ((buffer, True) for buffer in value.buffers())
            case MethodType():
                yield value.__self__, may_change
            case FunctionType():
                self._others.append(value)
            case _ if (state := kept(value)) is not None:
                self._keep_state(state, may_change)
            case _ if hasattr(value, "__next__"):
                self._goes_on = True
            case _ if is_object(value) and _takes_attributes(value):
                own = attributes_of(value)
                self._keep(
                    may_change, partial(_reset, value, own), partial(_has_attributes, value, own)
                )
                yield from ((item, may_change) for item in own.values())
            case _:
                self._others.append(value)

    def _keep_state(self, state: Kept, may_change: bool) -> None:
        before = state.now()
        undo = state.undo or (lambda: None)
        self._keep(may_change and state.undo is not None, undo, lambda: state.now() == before)

    def _keep(self, may_change: bool, undo: Undo, same: Callable[[], bool]) -> None:
        if may_change:
            self._undo.append(undo)
        else:
            self._is_same.append(same)


def undo_of(value: list[Any] | deque[Any] | dict[Any, Any] | set[Any]) -> Undo:
    """What puts back into a container what is in it now."""
    match value:
        case list():
            return partial(value.__setitem__, slice(None), [*value])
        case deque():
            return partial(_refill_queue, value, [*value])
        case dict():
            return partial(_refill_table, value, dict(value))
        case _:
            return partial(_refill_table, value, set(value))


def bound_again(binding: Binding) -> Undo:
    """What binds a name to what it is bound to now."""
    before = binding.value

    def undo() -> None:
        if binding.value is not before:
            binding.bind(before)

    return undo


def _takes_attributes(value: Any) -> bool:
    """False for an object of an extension that sets attributes in a way of its own."""
    try:
        object.__delattr__(value, "")
    except TypeError:
        return False
    except AttributeError:  # there is none of that name
        pass
    return True


def _has_attributes(value: Any, own: dict[str, Any]) -> bool:
    return _holds_table(attributes_of(value), own)


def _reset(value: Any, own: dict[str, Any]) -> None:
    for name in attributes_of(value).keys() - own.keys():
        object.__delattr__(value, name)
    for name, item in own.items():
        object.__setattr__(value, name, item)


def _has_version(tensor: torch.Tensor, version: Hashable) -> bool:
    return version_of(tensor) == version


def _holds(found: list[Any] | deque[Any], items: list[Any]) -> bool:
    return len(found) == len(items) and all(map(is_, found, items))


def _holds_table(found: Mapping[Any, Any], items: dict[Any, Any]) -> bool:
    return found.keys() == items.keys() and all(found[key] is items[key] for key in items)


def _refill_queue(queue: deque[Any], before: list[Any]) -> None:
    queue.clear()
    queue.extend(before)


def _refill_table(table: Any, before: Any) -> None:
    table.clear()
    table.update(before)
