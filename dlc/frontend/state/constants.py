"""
Which values are one constant. A program is compiled for the numbers, strings and flags of its call
and its modules, so 0.0 and -0.0, `(2,)` and `(2.0,)`, 1 and True are different ones, and NaN is
itself.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch

SCALARS = (bool, int, str, bytes, type(None), Enum, range, torch.dtype, torch.device, torch.layout)
"""Values that are the same constant where they are equal and of one type."""
CONTAINERS = (tuple, list, deque, dict, set, frozenset, slice)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""The value of a name that is bound to nothing."""


def same_constant(a: object, b: object) -> bool:
    """True if a program that was compiled for one value is right for the other."""
    if a is b and not isinstance(a, CONTAINERS):
        return True
    return type(a) is type(b) and key_of(a) == key_of(b)


def key_of(value: Any, of_object: Callable[[object], Hashable] | None = None) -> Hashable:
    """
    What is equal for values that are the same constant, and stays so when a container is changed.
    Objects without a value (modules, functions, tensors) count by `of_object`, else by identity.
    """

    def inner(item: object) -> Hashable:
        return key_of(item, of_object)

    kind = type(value)
    match value:
        case float():
            return kind, value.hex()
        case complex():
            return kind, value.real.hex(), value.imag.hex()
        case np.generic():
            return kind, value.tobytes()
        case slice():
            return kind, inner((value.start, value.stop, value.step))
        case tuple() | list() | deque():
            return kind, tuple(map(inner, value))
        case dict():
            return kind, tuple((inner(name), inner(item)) for name, item in value.items())
        case set() | frozenset():
            return kind, frozenset(map(inner, value))
        case _:
            return (kind, value) if isinstance(value, SCALARS) else (of_object or Identity)(value)


def has_value(value: Any) -> bool:
    """True if a value is compared by what it is, and nothing in it by identity."""
    match value:
        case float() | complex() | np.generic() | slice():
            return True
        case tuple() | list() | deque() | set() | frozenset():
            return all(map(has_value, value))
        case dict():
            return all(has_value(name) and has_value(item) for name, item in value.items())
        case _:
            return isinstance(value, SCALARS)


def is_changeable(value: Any) -> bool:
    """True for a container that may hold something else by and by."""
    if isinstance(value, tuple | frozenset):
        return any(map(is_changeable, value))
    return isinstance(value, list | deque | dict | set)


def items_of(container: Any) -> tuple[Any, ...]:
    """What a container holds, in its order, which stays as long as it does; of a dict keys, too."""
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)


def put_items(container: Any, items: Sequence[Any]) -> None:
    """Has what `items_of` gave in a container that can be changed; others stay as they are."""
    match container:
        case list() | deque():
            container.clear()
            container.extend(items)
        case set():
            container.clear()
            container.update(items)
        case dict():
            container.clear()
            _fill(container, zip(items[: len(items) // 2], items[len(items) // 2 :], strict=True))
        case _:
            pass


def containers_in(container: Any) -> Iterator[Any]:
    """The containers in one that hold, or are, such that can be changed, all the way down."""
    for item in filter(is_changeable, items_of(container)):
        yield item
        yield from containers_in(item)


def copied(value: Any) -> Any:
    """A value with containers of its own, all the way down."""
    match value:
        case list() | deque():
            return _filled(value, lambda own: own.extend(map(copied, value)))
        case dict():
            items = [(name, copied(item)) for name, item in value.items()]
            return _filled(value, lambda own: _fill(own, items))
        case set():
            return copy.copy(value)
        case tuple():
            items = map(copied, value)
            return tuple(items) if type(value) is tuple else _made(value, items)
        case _:
            return value


def _fill(container: dict[Any, Any], items: Iterable[tuple[Any, Any]]) -> None:
    """Sets items one by one, as the `update` of a Counter counts them."""
    for name, item in items:
        container[name] = item


def _filled(value: Any, fill: Callable[[Any], None]) -> Any:
    own = copy.copy(value)
    own.clear()
    fill(own)
    return own


def _made(value: Any, items: Iterable[Any]) -> Any:
    """A named tuple of such items; a tuple of another type as it is."""
    make = getattr(value, "_make", None)
    return value if make is None else make(items)


class Identity:
    """Equal for one object only, which it keeps."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
