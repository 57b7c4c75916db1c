"""Functions of a script that read its tensors: they become functions of the program."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeAlias

import torch
from torch.utils._contextlib import context_decorator

from dlc.frontend.scripts.parts import load, rename
from dlc.frontend.scripts.script_objects import ScriptObjects, Variables
from dlc.frontend.state.code_names import names_in_code
from dlc.frontend.state.insides import attributes_of, is_object

CONTEXTS = context_decorator.__code__.co_filename
"""Where PyTorch makes a decorator of a context."""
Definition: TypeAlias = ast.FunctionDef | ast.Lambda


class Lifted(Variables, Protocol):
    """The same, and what makes objects the program's."""

    objects: ScriptObjects


class ScriptFunctions:
    """Writes the definitions of such functions into the program, once each."""

    def __init__(self, lifter: Lifted, keep: Callable[[ast.stmt], None]) -> None:
        """`keep` makes a statement the program's next."""
        self.lifter = lifter
        self.keep = keep
        self.found = [n for n in ast.walk(lifter.tree) if isinstance(n, Definition)]
        self._ran: dict[int, tuple[FunctionType, Definition]] = {}
        self._names: dict[int, str] = {}

    def ran(self, node: Definition, value: object) -> None:
        """Notes what a definition, as it ran, has made."""
        if isinstance(value, FunctionType) and value.__code__.co_firstlineno == _first_line(node):
            self._ran[id(value)] = value, copy.deepcopy(node)

    def is_own(self, value: object) -> bool:
        """True for a function of the script."""
        return (
            isinstance(value, FunctionType) and value.__code__.co_filename == self.lifter.filename
        )

    def reads_data(self, function: object, seen: frozenset[int] = frozenset()) -> bool:
        """True for a function of the script that reads inputs or what the program computes."""
        function = _without_context(function)
        if not isinstance(function, FunctionType) or id(function) in seen:
            return False
        if not self.is_own(function):
            return False
        if any(map(self.lifter.is_input, _defaults(function))):
            return True
        return any(
            (is_global and name in self.lifter.computed)
            or self.lifter.is_input(value)
            or self.lifter.objects.is_own(value)
            or self.reads_data(value, seen | {id(function)})
            for name, value, is_global in self._free(function)
        )

    def reached(self, values: Iterable[Any]) -> list[Any]:
        """Some values, what functions of the script among them read, and what objects hold."""
        found: dict[int, Any] = {}
        pending = list(values)
        while pending:
            value = _without_context(pending.pop())
            if id(value) in found:
                continue
            found[id(value)] = value
            if isinstance(value, FunctionType):
                if value.__code__.co_filename == self.lifter.filename:
                    pending += (free for _, free, _ in self._free(value))
            elif isinstance(value, MethodType):
                pending += (value.__self__, value.__func__)
            elif is_object(value) and not isinstance(value, torch.nn.Module):
                pending += attributes_of(value).values()
        return [*found.values()]

    def variables_of(self, values: Iterable[Any]) -> set[str]:
        """The variables of the script that functions of it among some values read."""
        functions = (value for value in values if isinstance(value, FunctionType))
        own = (f for f in functions if f.__code__.co_filename == self.lifter.filename)
        return {name for f in own for name, _, is_global in self._free(f) if is_global}

    def defined(self, function: FunctionType) -> ast.Name | None:
        """
        The name of such a function in the program; None for another, and for one that binds its
        outer variables or is not found in the text.
        """
        if not self.reads_data(function):
            return None
        function = _without_context(function)
        if (name := self._names.get(id(function))) is not None:
            return load(name)
        node = self.definition(function)
        if node is None or any(isinstance(n, ast.Global | ast.Nonlocal) for n in ast.walk(node)):
            return None
        name = self._names[id(function)] = f"_function_{len(self._names)}"
        node = copy.deepcopy(node)
        self._fill_defaults(node.args, function)
        for free, value, is_global in self._free(function):
            if is_global and free in self.lifter.computed:
                continue
            if self.lifter.objects.is_own(value):
                self.lifter.objects.bring(value, node)
                if free in self.lifter.computed:
                    continue
                value_name = self.lifter.name_of(value)
                assert value_name is not None
                rename(node, free, value_name)
                continue
            rename(node, free, self._name_for(free, value, node))
        self.keep(_statement(node, name))
        return load(name)

    def _free(self, function: FunctionType) -> Iterator[tuple[str, Any, bool]]:
        """The variables that a function reads and does not bind, and whether they are global."""
        cells = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            try:
                yield name, cell.cell_contents, False
            except ValueError:  # nothing yet
                continue
        for name in names_in_code(function.__code__)[0]:
            if name in function.__globals__ or name in self.lifter.computed:
                yield name, function.__globals__.get(name), True

    def _name_for(self, name: str, value: Any, node: Definition) -> str:
        """What a variable that a function reads is called in the program."""
        if self.lifter.is_input(value):
            return self.lifter.input(value, name)
        if isinstance(value, FunctionType) and (inner := self.defined(value)) is not None:
            return inner.id
        if isinstance(value, torch.nn.Module | torch.Tensor):
            self.lifter.hold(value, name)
        return self._constant(value, node).id

    def _constant(self, value: Any, node: Definition) -> ast.Name:
        at = ast.copy_location(load("_"), node)
        return self.lifter.constant(value, at)

    def _fill_defaults(self, args: ast.arguments, function: FunctionType) -> None:
        """Puts the values that parameters had when the function was made in place of their text."""

        def code(value: Any, at: ast.expr) -> ast.expr:
            if self.lifter.is_input(value):
                return ast.copy_location(
                    load(self.lifter.input(value, self.lifter.name_of(value))), at
                )
            return self.lifter.constant(value, at)

        args.defaults = [
            code(value, at)
            for value, at in zip(function.__defaults__ or (), args.defaults, strict=True)
        ]
        named: Mapping[str, Any] = function.__kwdefaults__ or {}
        args.kw_defaults = [
            code(named[a.arg], at) if at is not None else None
            for a, at in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]

    def definition(self, function: FunctionType) -> Definition | None:
        """The text that made a function."""
        if (ran := self._ran.get(id(function))) is not None:
            return ran[1]
        code = function.__code__
        places = [(line, at) for line, _, at, _ in code.co_positions() if line and at]
        last = max(places, default=(code.co_firstlineno, 0))
        having = [
            n for n in self.found if _first_line(n) == code.co_firstlineno and _holds(n, last)
        ]
        return having[-1] if having else None


def _without_context(function: Any) -> Any:
    """A function without decorators such as `torch.no_grad()`, which change no value."""
    while isinstance(function, FunctionType) and function.__code__.co_filename == CONTEXTS:
        if (inner := vars(function).get("__wrapped__")) is None:
            break
        function = inner
    return function


def _defaults(function: FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _first_line(node: Definition) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else ()
    return min(n.lineno for n in (node, *decorators))


def _holds(node: Definition, place: tuple[int, int]) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset) <= place <= end


def _statement(node: Definition, name: str) -> ast.stmt:
    """The definition under that name."""
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), node)
    node.name = name
    node.decorator_list = []
    return node
