"""
What a script's program changes and computes with that was there before it: a number that functions
count in a variable around them, an attribute of an object, a class, a function or a module, what is
in a list that several things hold.

The text is read again for it (`dlc.frontend.scripts.capture`): from where the program begins, all
that mentions such state is the program's, which finds it as it was there at each run and leaves it
so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, Protocol

import torch

from dlc.frontend.scripts.mementos import Undo, bound_again, undo_of
from dlc.frontend.scripts.script_state import (
    OF_MODULES,
    Path,
    StateChanged,
    found_by,
    name_of,
    root_of_path,
)
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.binding import Binding
from dlc.frontend.state.hidden_state import kept
from dlc.frontend.state.insides import CONTAINERS, is_object, reached
from dlc.frontend.state.module_attributes import HOOKS, STRUCTURE
from dlc.frontend.state.shared import all_in

MANY = 16
"""Readings of one text, in which each has found something that the program changes."""
BINDING = (FunctionType, ModuleType, type, torch.nn.Module)
"""What has names of its own, beside objects."""


class Variables(Protocol):
    """What a lifter knows of a script's variables."""

    globals: dict[str, Any]
    scope: dict[str, Any]
    computed: set[str]
    assigned: set[str]
    shared: dict[str, Any]
    held: dict[str, Any]

    def is_input(self, value: Any) -> bool: ...
    def hold(self, value: Any, name: str | None) -> str: ...


@dataclass
class Live:
    """Such state, which earlier readings of a text have found."""

    paths: list[Path] = field(default_factory=list)
    begin: tuple[int, int] | None = None
    """Where the program begins: the line and the column of a statement."""
    names: set[str] = field(default_factory=set)
    """The variables of the script that are such state themselves."""
    owners: dict[int, Any] = field(default_factory=dict)
    """What holds such state, by identity: containers, objects, classes, modules, cells."""
    _tensors: set[int] = field(default_factory=set)
    """Those of modules among them, by identity."""
    _undo: list[Callable[[], Undo]] = field(default_factory=list)
    _pending: list[Path] = field(default_factory=list)
    _is_active: bool = False

    def again(self, change: StateChanged) -> Live | None:
        """For another reading of a text whose program has changed something; None for no use."""
        is_known = not change.path or change.path in self.paths
        if is_known or len(self.paths) >= MANY or not root_of_path(change.path).isidentifier():
            return None  # such as 'sys.path', which is no variable's
        return Live([*self.paths, change.path], self.begin)

    def at(self, statement: ast.stmt, lifter: Variables) -> None:
        """A statement is next: what is found by now is the program's if that has begun."""
        if self.paths and self.begin == (statement.lineno, statement.col_offset):
            self._is_active, self._pending = True, [*self.paths]
        if self._is_active:
            self._pending = [path for path in self._pending if not self._find(path, lifter)]
            self._put_all(lifter)

    def begins(self, statement: ast.stmt) -> None:
        """The program has had its first statement by then."""
        self.begin = self.begin or (statement.lineno, statement.col_offset)

    def assigns(self, names: set[str]) -> bool:
        """True for variables that the program assigns, whatever they are given."""
        return self._is_active and not names.isdisjoint(self.names)

    def covers(self, owner: Any, name: str, is_variable: bool) -> bool:
        """True for a place that is as it was after each run."""
        return name in self.names if is_variable else place_of(owner, name) in self.owners

    def undo(self) -> list[Undo]:
        """What makes all of it what it is now."""
        return [note() for note in self._undo]

    def _find(self, path: Path, lifter: Variables) -> bool:
        """Finds what a path leads to; False where what holds it is not there yet."""
        outer, key = path  # pyright: ignore[reportAssignmentType]
        name = name_of(key)
        around = {**lifter.globals, **lifter.scope, **lifter.shared}
        try:
            owner = found_by(outer, around)
        except LookupError:
            return False
        is_hidden = False
        with suppress(LookupError):
            value = found_by(path, around)
            if (state := kept(value)) is not None and state.undo is not None:
                self._add(value, lambda: _undo_of_hidden(value))
                is_hidden = True
        if not outer:
            self.names.add(name)
            self._undo.append(partial(bound_again, Binding(lifter.globals, name)))
            if name in around and name not in lifter.shared:
                self._put(name, around[name], lifter)
        elif isinstance(owner, CONTAINERS) and not name:
            self._add(owner, partial(undo_of, owner))
        elif not name or not (isinstance(owner, BINDING) or is_object(owner)):
            return is_hidden
        else:
            holder = _holder(owner, name)
            place = holder if _is_apart(owner, holder) else owner
            self._add(place, partial(bound_again, Binding(holder, name)))
        return True

    def _add(self, owner: Any, note: Callable[[], Undo]) -> None:
        self.owners[id(owner)] = owner
        self._undo.append(note)

    def _put_all(self, lifter: Variables) -> None:
        """Makes the variables that lead to what holds such state the program's."""
        for name, value in [*lifter.scope.items()]:
            if name.startswith("__") or name in lifter.computed:
                continue
            if not self._tensors.isdisjoint(reached(value)):
                self._hide(name, lifter)  # the program has others in the place of these
            elif self._leads(value):
                self._put(name, value, lifter)

    def _put(self, name: str, value: Any, lifter: Variables) -> None:
        """Makes one the program's, which has it as it is; its modules are the program's, too."""
        held = [inner for inner, _ in all_in(value)]
        if any(isinstance(v, torch.Tensor) and lifter.is_input(v) for v in held):
            raise ImportFailure(f"'{name}' holds an input of the program, which changes it")
        modules = [v for v in held if isinstance(v, torch.nn.Module)]
        whole = (*modules, *(v for v in lifter.held.values() if isinstance(v, torch.nn.Module)))
        parts = [inner for of in whole for inner in of.modules() if inner is not of]
        for module in modules:
            if not any(module is inner for inner in parts):
                lifter.hold(module, name)
            self._add(module, partial(_undo_of_module, module))
            self.owners |= {id(hooks): hooks for hooks in map(vars(module).get, HOOKS)}
            self._tensors |= {id(t) for t in chain(module.parameters(), module.buffers())}
        lifter.shared[name] = value
        lifter.computed.add(name)
        self._hide(name, lifter)

    def _hide(self, name: str, lifter: Variables) -> None:
        """What runs before the program does not read what the program changes."""
        lifter.assigned.add(name)
        for scope in (lifter.scope, lifter.globals):
            scope.pop(name, None)

    def _leads(self, value: Any) -> bool:
        """True if a value is, or leads to, what holds such state."""
        if not self.owners:
            return False
        return not self.owners.keys().isdisjoint(places_in([value]))


def place_of(owner: Any, name: str) -> int:
    """What two owners have in common that have the same under a name: themselves, or a place."""
    holder = _holder(owner, name)
    return id(holder) if _is_apart(owner, holder) else id(owner)


def places_in(values: Iterable[Any]) -> set[int]:
    """Such places in values and in what they hold, and their classes."""
    found: set[int] = set()
    for value in values:
        for inner, _ in all_in(value):
            found |= {id(inner), id(type(inner))}
            if isinstance(inner, FunctionType):
                found |= {*map(id, inner.__closure__ or ()), id(inner.__globals__)}
            elif isinstance(inner, ModuleType):
                found.add(id(vars(inner)))
    return found


def _holder(owner: Any, name: str) -> Any:
    """What an owner's name is bound in: a cell, or a table of attributes or of variables."""
    match owner:
        case FunctionType():
            code, cells, around = owner.__code__, owner.__closure__ or (), owner.__globals__
            found = dict(zip(code.co_freevars, cells, strict=True)).get(name)
            beside = name in around and name not in vars(owner)
            return found or (around if beside and around.get("__name__") else vars(owner))
        case type():
            return owner
        case _:
            return getattr(owner, "__dict__", owner)


def _is_apart(owner: Any, holder: Any) -> bool:
    """True if a holder may be another owner's, too."""
    if isinstance(owner, FunctionType):
        return holder is not vars(owner)
    return isinstance(owner, ModuleType)


def _undo_of_module(module: torch.nn.Module) -> Undo:
    """What puts back what a module has beside tensors: settings, modules and hooks."""
    own = vars(module)
    tables = [undo_of(own[name]) for name in STRUCTURE]
    settings = {name: v for name, v in own.items() if name not in OF_MODULES}

    def undo() -> None:
        for name in [name for name in own if name not in OF_MODULES and name not in settings]:
            del own[name]
        own.update(settings)
        for table in tables:
            table()

    return undo


def _undo_of_hidden(value: Any) -> Undo:
    state = kept(value)
    return (lambda: None) if state is None or state.undo is None else state.undo
