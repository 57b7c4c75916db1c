"""Entries of a JSON document, read as what they are to be; what else is there is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NoReturn

LARGEST = 2**63 - 1


class EntryError(ValueError):
    """An entry is not what it is to be; the message is a sentence that names it."""


class Entry:
    """A value of a document and its place, such as `variants[0].arguments[1].shape`."""

    def __init__(self, value: Any, place: str) -> None:
        self.value = value
        self.place = place

    def __getitem__(self, key: str) -> Entry:
        """The member of an object; EntryError if there is no such object, or no such member."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        place = f"{self.place}.{key}" if self.place else key
        if key not in self.value:
            raise EntryError(f"expected an entry {place}, found none")
        return Entry(self.value[key], place)

    def __iter__(self) -> Iterator[Entry]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            self.fail("a list")
        for number, value in enumerate(self.value):
            yield Entry(value, f"{self.place}[{number}]")

    def members(self) -> Iterator[tuple[str, Entry]]:
        """The members of an object, by key."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        for key in self.value:
            yield key, self[key]

    def integer(self, end: int = LARGEST) -> int:
        """A number from 0 up to and without `end`."""
        if type(self.value) is not int or not 0 <= self.value < end:
            self.fail(f"an integer from 0 to {end - 1}" if end else "no entry")
        return self.value

    def integers(self) -> tuple[int, ...]:
        """A list of such numbers."""
        return tuple(entry.integer() for entry in self)

    def optional_integer(self, end: int = LARGEST) -> int | None:
        """Such a number or null."""
        return None if self.value is None else self.integer(end)

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.fail("a text")
        return self.value

    def one_of(self, choices: Collection[str]) -> str:
        """A text out of some."""
        if not isinstance(self.value, str) or self.value not in choices:
            self.fail(f"one of {', '.join(choices)}")
        return self.value

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail("true or false")
        return self.value

    def fail(self, expected: str) -> NoReturn:
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
        raise EntryError(f"expected {self.place or 'the manifest'} to be {expected}, found {shown}")
