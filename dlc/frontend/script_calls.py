"""Calls of functions of a script, which stand for the functions' statements."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from dlc.frontend.parts import Part, rename
from dlc.frontend.variables import is_stored


@dataclass(frozen=True)
class ScriptCall:
    """A call of a function that returns at its end or not at all."""

    definition: ast.FunctionDef
    arguments: inspect.BoundArguments

    @property
    def shared(self) -> set[str]:
        """The variables of the script that the function declares global."""
        walked = ast.walk(self.definition)
        return {name for s in walked if isinstance(s, ast.Global) for name in s.names}

    def statements(
        self, taken: Collection[str], number: int
    ) -> tuple[list[ast.stmt], dict[str, Any]]:
        """
        The function's statements, and the values of its parameters by name. Its variables that are
        `taken` outside get names with a number.
        """
        body = copy.deepcopy(self.definition.body)
        given = dict(self.arguments.arguments)
        own = {n.id for s in body for n in ast.walk(s) if is_stored(n)}
        for name in sorted((own | {*given}) - self.shared):
            if name in taken:
                new = f"{name}_{self.definition.name}{number}"
                for statement in body:
                    rename(statement, name, new)
                if name in given:
                    given[new] = given.pop(name)
        return body, given


def script_call(
    value: ast.Call,
    definition: ast.FunctionDef,
    function: FunctionType,
    visit: Callable[[ast.expr], Part],
    is_input: Callable[[Any], bool],
) -> ScriptCall | None:
    """A call whose arguments are known, and no tensors made at random; None for another one."""
    returns = [n for s in definition.body for n in ast.walk(s) if isinstance(n, ast.Return)]
    if returns and returns != definition.body[-1:]:
        return None  # it returns from within
    parts = [visit(a) for a in value.args]
    named: Mapping[str, Part] = {k.arg: visit(k.value) for k in value.keywords if k.arg is not None}
    given = [*parts, *named.values()]
    if len(named) < len(value.keywords):
        return None
    if not all(p.known and not is_input(p.value) for p in given):
        return None
    bound = inspect.signature(function).bind(
        *(p.value for p in parts), **{name: p.value for name, p in named.items()}
    )
    bound.apply_defaults()
    return ScriptCall(definition, bound)
