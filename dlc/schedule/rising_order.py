"""What is ranked, the best first, no further than anybody has asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from threading import Lock
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Rising(Generic[T]):
    """What an iterator gives, from its first on for each that asks, of any thread."""

    def __init__(self, rest: Iterator[T]) -> None:
        self._rest, self._first, self._lock = rest, list[T](), Lock()

    def __iter__(self) -> Iterator[T]:
        for number in count():
            with self._lock:
                self._first += islice(self._rest, max(number + 1 - len(self._first), 0))
            if number == len(self._first):
                return
            yield self._first[number]

    def __bool__(self) -> bool:
        return any(True for _ in self)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        """The one at a place from the first on, or those of a slice; IndexError where none is."""
        if isinstance(place, slice):
            return list(islice(self, place.start, place.stop, place.step))
        for found in islice(self, place, place + 1):
            return found
        raise IndexError(place)
