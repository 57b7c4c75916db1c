"""Attributes that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_set = object.__setattr__


class cached(Generic[T]):
    """
    A method of no arguments as an attribute that is computed when it is first asked for, also of
    a frozen dataclass. As functools.cached_property, which takes a lock before Python 3.12: that
    costs more than most of what is computed here.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = self.compute(instance)
        _set(instance, self.name, value)
        return value
