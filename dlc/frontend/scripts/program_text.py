"""The statements of a script that are its program, and what they compute."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from torch.utils._pytree import tree_leaves

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import names_in
from dlc.frontend.scripts.printed import looks
from dlc.frontend.scripts.program_values import has_tensor
from dlc.frontend.scripts.quiet_traces import SHOWS
from dlc.frontend.scripts.variables import bound_by, loaded
from dlc.frontend.state.outside import CLOCKS, domains_in


class ProgramText:
    """What the program is so far."""

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self.begun = False
        """True once the program has a statement: what it uses must not change any more."""
        self.body: list[ast.stmt] = []
        """The program's statements so far."""
        self.results: list[ast.expr] = []
        """What the program computed, the last of it last."""
        self.is_doubtful = False
        """True if the last of it may be a number of the script's own."""
        self.looked: set[str] = set()
        """The variables that have what is for a user's eyes: numbers and text of tensors."""
        self._looks: set[ast.stmt] = set()
        """The statements that assign such."""
        self._domains: set[str] = set()
        """What the program asks or changes outside of its variables."""

    @property
    def result(self) -> ast.expr | None:
        """What the program computed last."""
        return self.results[-1] if self.results else None

    def has_computed(self, *results: ast.expr, is_doubtful: bool = False) -> None:
        self.results += results
        self.is_doubtful = is_doubtful

    def has_assigned(self, value: ast.expr, target: ast.expr) -> None:
        """Notes what the program's last statement has assigned."""
        scope = self.lifter.scope
        computed = {n for n in names_in(value) if n in self.lifter.computed or not _plain(scope, n)}
        looked = looks(value, self.looked, computed) and not self.lifter.acts(value)
        names = bound_by(target)
        if looked:
            self._looks.add(self.body[-1])
            self.looked |= names
        else:
            self.looked -= names
        if not (looked and self.results):
            is_doubtful = looked or not isinstance(target, ast.Name | ast.Tuple | ast.List)
            self.has_computed(loaded(target), is_doubtful=is_doubtful)

    def without_looks(self, result: ast.expr, read: Collection[str]) -> list[ast.stmt]:
        """
        The statements without those at the end of which only a user's eyes have something;
        functions look at the variables in `read`.
        """
        live, kept = names_in(result) | {*read}, list[ast.stmt]()
        for statement in reversed(self.body):
            stored = bound_by(statement)
            if live.isdisjoint(stored) and (
                statement in self._looks or _only_shows(statement, self._goes_on)
            ):
                continue
            live |= names_in(statement)
            kept.append(statement)
        return kept[::-1]

    def _goes_on(self, over: ast.expr) -> bool:
        """True if a loop over something may change it."""
        scope, is_own = self.lifter.scope, self.lifter.objects.is_own
        return any(isinstance(n, ast.Await | ast.NamedExpr) for n in ast.walk(over)) or any(
            is_own(scope.get(name)) for name in names_in(over)
        )

    def define(self, definition: ast.stmt) -> None:
        """Makes a function the program's."""
        self.begun = True
        self.body.append(definition)
        self._domains |= self._asked_in(definition)

    def keep(self, new: ast.stmt, node: ast.stmt) -> None:
        """Makes `new`, which stands for `node`, the program's next statement."""
        self.begun = True
        self.body.append(ast.copy_location(new, node))
        self._domains |= self._asked_in(new)

    def comes_before(self, node: ast.AST) -> bool:
        """
        True if a piece of text asks or changes what the program before it may have changed or asked
        outside of its variables: then it is for the program, too.
        """
        return bool(self._domains) and not self._domains.isdisjoint(self._asked_in(node))

    def _asked_in(self, node: ast.AST) -> frozenset[str]:
        return domains_in(node, {**self.lifter.scope, **self.lifter.values}) - CLOCKS


def _only_shows(statement: ast.stmt, goes_on: Callable[[ast.expr], bool]) -> bool:
    """True for a loop that prints and does nothing else."""
    match statement:
        case ast.If(test=ast.Call(func=ast.Name(id=name)), orelse=others) if name == SHOWS:
            return not others
        case ast.For(body=body, orelse=others, iter=over) if not goes_on(over):
            return all(_only_shows(inner, goes_on) for inner in (*body, *others))
    return isinstance(statement, ast.Pass)


def _plain(scope: Mapping[str, Any], name: str) -> bool:
    """True for a name of a number, text or a module of Python's own or NumPy's."""
    if name not in scope:
        return hasattr(builtins, name)
    value = scope[name]
    if isinstance(value, ModuleType):
        root = value.__name__.partition(".")[0]
        return root == "numpy" or root in sys.stdlib_module_names
    if isinstance(value, tuple | list | dict):
        return not has_tensor(value) and not any(map(callable, tree_leaves(value)))
    return isinstance(value, int | float | str | np.generic | np.ndarray | None)
