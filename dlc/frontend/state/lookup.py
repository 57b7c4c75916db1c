"""
Many objects looked up at once, and compared with what they were.

A call of a compiled program asks of hundreds of names whether they are bound to the same objects as
before. Each question is a few instructions of Python, and takes longer than a kernel; here `map`
and `itemgetter` ask all of them, so that one takes some 50 ns. What is answered is sufficient, not
necessary: where an object is another one, the caller compares by value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from itertools import chain
from operator import attrgetter, call, is_, itemgetter
from typing import Any, TypeAlias

_CALL: Callable[..., Any] = call
NO_OBJECT = (LookupError, ValueError, AttributeError)
"""What looks raise where there is nothing."""
_END = object()
MANY = 4
"""Objects of which one function is asked at once."""
_IS_DISJOINT: Callable[..., bool] = type({}.keys()).isdisjoint

Namespace: TypeAlias = Mapping[str, Any] | type


class Lookup:
    """What namespaces (dictionaries and classes), attributes and functions give."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Mapping[str, Any], list[str]]] = {}
        self._attributes: dict[int, tuple[Any, list[str]]] = {}
        self._absent: dict[int, tuple[Mapping[str, Any], set[str]]] = {}
        self._items: list[tuple[Callable[..., Any], Any]] = []
        self._results: list[tuple[Callable[..., Any], Any]] = []

    def add(self, space: Namespace, name: str) -> None:
        """The object that a name is bound to; that it is not bound, if it is not now."""
        if name in _mapping(space):
            self._names.setdefault(id(space), (_mapping(space), []))[1].append(name)
        else:
            self.add_absent(space, (name,))

    def add_absent(self, space: Namespace, names: Iterable[str]) -> None:
        """That such names are not bound."""
        self._absent.setdefault(id(space), (_mapping(space), set()))[1].update(names)

    def add_attribute(self, of: Any, name: str) -> None:
        """The object that is an attribute; its name may not contain a dot."""
        self._attributes.setdefault(id(of), (of, []))[1].append(name)

    def add_result(self, function: Callable[[Any], Any], of: Any) -> None:
        """The object that a function gives for another object."""
        self._results.append((function, of))

    def add_items(self, function: Callable[[Any], Iterable[Any]], of: Any) -> None:
        """The objects that are in what a function gives for another object, and their order."""
        self._items.append((function, of))

    def close(self) -> Callable[[], bool]:
        """Tells whether all of them are what they are now; not, where there is nothing."""
        single, several = _Calls(), _Calls()
        for function, of in self._results:
            single.add(function, function, of)
        for getter, places in ((itemgetter, self._names), (attrgetter, self._attributes)):
            for of, names in places.values():
                calls = several if len(names) > 1 else single
                calls.add((getter, *names), getter(*names), of)
        functions, holders = _columns(self._items)
        views, absent = _columns([(of.keys(), names) for of, names in self._absent.values()])

        def look() -> Iterable[Any]:
            found = chain(several.results(), map(_CALL, functions, holders))
            return chain(single.results(), chain.from_iterable(found), (_END,))

        try:
            before = list(look())
        except NO_OBJECT:
            return lambda: False

        def are_same() -> bool:
            try:
                return all(map(is_, look(), before)) and all(map(_IS_DISJOINT, views, absent))
            except NO_OBJECT:
                return False

        return are_same


class _Calls:
    """Functions of objects; one of many objects is mapped over them."""

    def __init__(self) -> None:
        self._rows: dict[Hashable, tuple[Callable[..., Any], list[Any]]] = {}

    def add(self, key: Hashable, function: Callable[..., Any], of: Any) -> None:
        """Those of one key are one function."""
        self._rows.setdefault(key, (function, []))[1].append(of)

    @cached_property
    def _columns(self) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
        rows = self._rows.values()
        few = [(function, of) for function, group in rows if len(group) < MANY for of in group]
        return [row for row in rows if len(row[1]) >= MANY], *_columns(few)

    def results(self) -> Iterable[Any]:
        many, functions, objects = self._columns
        return chain(map(_CALL, functions, objects), *(map(f, group) for f, group in many))


def _mapping(space: Namespace) -> Mapping[str, Any]:
    return vars(space) if isinstance(space, type) else space


def _columns(rows: list[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    first, second = zip(*rows, strict=True) if rows else ((), ())
    return first, second
