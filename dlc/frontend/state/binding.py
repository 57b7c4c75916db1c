"""A name and where it is bound, which can be looked up again and bound anew."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, partial
from types import CellType
from typing import Any, TypeAlias

from dlc.frontend.state.constants import MISSING
from dlc.frontend.state.lookup import Lookup

Holder: TypeAlias = "CellType | dict[str, Any] | type | object"


@dataclass(frozen=True, eq=False)
class Binding:
    """
    A name and where it is bound: in a closure, a namespace (globals, a Python module, attributes of
    a function or an object), a class, a slot of an object; or one of `DEFAULTS` of a function.
    """

    holder: Holder
    name: str

    @cached_property
    def get(self) -> Callable[[str, Any], Any]:
        """Looks up a name in the holder, with a value for none."""
        match self.holder:
            case dict():
                return self.holder.get
            case type():
                return vars(self.holder).get
            case CellType():
                return partial(_content, self.holder)
            case _:
                return partial(attribute, self.holder)

    @property
    def value(self) -> Any:
        """What it is bound to now, or MISSING."""
        return self.get(self.name, MISSING)

    def add_to(self, lookup: Lookup) -> None:
        """Has what it is bound to looked up with others."""
        match self.holder:
            case dict() | type():
                lookup.add(self.holder, self.name)
            case _ if self.value is MISSING:
                lookup.add_result(partial(self.get, self.name), MISSING)
            case CellType():
                lookup.add_attribute(self.holder, "cell_contents")
            case _:
                lookup.add_attribute(self.holder, self.name)

    @property
    def place(self) -> Hashable:
        """What two bindings of one name in one place have in common."""
        return id(self.holder), self.name

    def bind(self, value: Any) -> None:
        match self.holder:
            case dict() if value is MISSING:
                self.holder.pop(self.name, None)
            case dict():
                self.holder[self.name] = value
            case CellType() if value is MISSING:
                del self.holder.cell_contents
            case CellType():
                self.holder.cell_contents = value
            case type() if value is MISSING:
                delattr(self.holder, self.name)
            case type():
                setattr(self.holder, self.name, value)
            case owner if value is MISSING:
                object.__delattr__(owner, self.name)
            case owner:  # of a frozen dataclass, too
                object.__setattr__(owner, self.name, value)


def _content(cell: CellType, name: str, default: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return default


def attribute(value: Any, name: str, default: Any) -> Any:
    """Of a slot that is empty nothing, whatever `__getattr__` has for it."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return default
