"""
Containers of a script that functions and hooks of its own change where its program runs, such as
one in which a hook keeps what a layer gives: the program reads them as they are then. Numbers that
functions count in a variable around them are looked at by nothing but a user's eyes.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_map

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.mementos import Undo, bound_again, undo_of
from dlc.frontend.scripts.parts import names_in
from dlc.frontend.scripts.program_text import ProgramText
from dlc.frontend.scripts.shown_values import Outputs
from dlc.frontend.scripts.variables import changed_around
from dlc.frontend.state.binding import Binding
from dlc.frontend.state.constants import containers_in
from dlc.frontend.state.insides import CONTAINERS, LEAVES, items_in

HOOKS = ("_forward_hooks", "_forward_pre_hooks")
TABLES = frozenset(
    ("__dict__", "__globals__", "__closure__", "cell_contents", "f_globals", "f_locals")
)
"""Attributes that lead to variables by other ways than their names."""
LOOKING = frozenset(("globals", "locals", "vars", "dir", "eval", "exec", "__import__"))
"""Functions that do."""


class SharedContainers:
    """Finds them, and makes them variables that the program does not have a copy of."""

    def __init__(self, lifter: Lifter, program: ProgramText, outputs: Outputs) -> None:
        self.lifter, self.program, self.outputs = lifter, program, outputs
        self.variables = outputs.variables

    def find(self, statement: ast.stmt) -> None:
        """Notes those that what a statement calls with tensors may change, if nothing else does."""
        lifter = self.lifter
        if not (lifter.changed_within or self._counted) or reads_by_any_name(lifter.tree):
            return
        named = (lifter.scope[n] for n in self._called(statement) if n in lifter.scope)
        functions = [*self._functions(named)]
        for cell in (cell for function in functions for cell in self._cells_of(function)):
            lifter.counted[id(cell)] = Binding(cell, "")
        changed = {name for function in functions for name in self._changed_by(function)}
        for name in sorted(changed - lifter.computed):
            value = lifter.scope.get(name)
            if isinstance(value, CONTAINERS) and not self._is_held(name, value):
                self._add(name, value)
            elif type(value) in LEAVES and name in self._counted:
                lifter.counted[name] = Binding(lifter.globals, name)
                self._add(name, value)

    def assigned_by(self, statement: ast.stmt) -> set[str]:
        """The variables of the script that functions which a statement mentions assign."""
        lifter = self.lifter
        if not lifter.assigned_within:
            return set()
        named = (lifter.scope[n] for n in sorted(names_in(statement)) if n in lifter.scope)
        found = {name for f in self._functions(named) for name in self._assigned_by(f)}
        return {name for name in found - lifter.computed if name in lifter.scope}

    def _called(self, statement: ast.stmt) -> set[str]:
        """The variables of what is called, or passed, with something that the program computes."""
        found: set[str] = set()
        for call in (n for n in ast.walk(statement) if isinstance(n, ast.Call)):
            given = (*call.args, *(keyword.value for keyword in call.keywords))
            if any(map(self.variables.computes, given)):
                found |= names_in(call.func)
                found |= {arg.id for arg in given if isinstance(arg, ast.Name)}
        return found

    def _add(self, name: str, value: Any) -> None:
        lifter = self.lifter
        lifter.shared[name] = value
        lifter.computed.add(name)
        lifter.assigned.add(name)
        # What runs before the program does not read what the program changes.
        for scope in (lifter.scope, lifter.globals):
            scope.pop(name, None)

    @cached_property
    def _counted(self) -> set[str]:
        """The variables around functions that these assign, and that nothing computes with."""
        return self.lifter.assigned_within - {
            n.id for n in self.outputs.used if isinstance(n, ast.Name)
        }

    def _is_held(self, name: str, value: Any) -> bool:
        """True if something else than the variable leads to a value."""
        pending = [v for n, v in self.lifter.scope.items() if n != name and not n.startswith("__")]
        used = {name for statement in self.program.body for name in names_in(statement)}
        pending += [value for name, value in self.lifter.values.items() if name in used]
        seen: set[int] = set()
        while pending:
            inner = pending.pop()
            if inner is value:
                return True
            if id(inner) in seen or isinstance(inner, ModuleType):
                continue
            seen.add(id(inner))
            if isinstance(inner, torch.nn.Module):
                pending += [v for m in inner.modules() for v in vars(m).values()]
            else:
                pending += items_in(inner)
        return False

    def _functions(self, values: Iterable[Any]) -> Iterator[FunctionType]:
        """The functions of the script that run where values are called."""
        seen: set[int] = set()
        pending = self.lifter.functions.reached(values)
        while pending:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            function = value.__func__ if isinstance(value, MethodType) else value
            if isinstance(function, FunctionType):
                yield function
                pending += self.lifter.functions.reached([function])
            elif isinstance(value, torch.nn.Module):
                pending += [inner for m in value.modules() for inner in _code_of(m)]

    def _cells_of(self, function: FunctionType) -> Iterator[Any]:
        """Where a function counts in variables of another one."""
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            if name in self._counted and type(cell.cell_contents) in LEAVES:
                yield cell

    def _changed_by(self, function: FunctionType) -> Iterator[str]:
        definition = self.lifter.functions.definition(function)
        if definition is not None:
            free = {*function.__code__.co_freevars}
            yield from (name for name in changed_around(definition) if name not in free)
            yield from self._assigned_by(function)

    def _assigned_by(self, function: FunctionType) -> Iterator[str]:
        definition = self.lifter.functions.definition(function)
        declared = ast.walk(definition) if definition is not None else ()
        yield from (name for n in declared if isinstance(n, ast.Global) for name in n.names)


def as_before(forward: Callable[..., Any], now: Callable[[], Iterable[Undo]]) -> Callable[..., Any]:
    """A program behind whose runs all is done that `now` says in front of them."""

    @functools.wraps(forward)
    def run(*args: Any) -> Any:
        undo = [*now()]
        try:
            return tree_map(lambda leaf: leaf, forward(*args))
        finally:
            for one in undo:
                one()

    return run


def undo_of_shared(shared: Iterable[Any], counted: Iterable[Binding]) -> list[Undo]:
    """What puts back what is in containers that a program shares, and what is counted."""
    outer = [value for value in shared if isinstance(value, CONTAINERS)]
    inside = [inner for value in outer for inner in containers_in(value)]
    changeable = [*outer, *(inner for inner in inside if isinstance(inner, CONTAINERS))]
    return [*map(undo_of, changeable), *map(bound_again, counted)]


@lru_cache(maxsize=8)
def reads_by_any_name(tree: ast.AST) -> bool:
    """True for a text that gets at its variables by other ways than their names."""
    return any(map(_is_any_name, ast.walk(tree)))


def _is_any_name(node: ast.AST) -> bool:
    """True for what may get at any variable."""
    match node:
        case ast.Name(id=name):
            return name in LOOKING
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
        case ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name in TABLES or name == "import_module"
        case ast.alias(name=name):
            return name in ("__main__", "builtins", "inspect")
    return False


def _code_of(module: torch.nn.Module) -> Iterator[Any]:
    """What runs where one module is called."""
    for hooks in HOOKS:
        yield from vars(module)[hooks].values()
    for kind in type(module).__mro__:
        if kind.__module__ == "__main__":
            yield from (f for f in vars(kind).values() if isinstance(f, FunctionType))
