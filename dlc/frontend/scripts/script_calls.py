"""Calls of functions of a script, which stand for the functions' statements."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections.abc import Collection, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeGuard

import torch

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import names_in, place_at, rename
from dlc.frontend.scripts.single_exit import ReturnsWithin, returns_in, with_one_exit
from dlc.frontend.scripts.text_effects import Effects
from dlc.frontend.scripts.variables import bound_by, changed_by, is_stored
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.dotted import value_of
from dlc.frontend.state.random import kept_random_state

NEUTRAL = (
    torch.no_grad,
    torch.inference_mode,
    torch.enable_grad,
    torch.set_grad_enabled,
    torch.device,
)
"""Contexts that make no difference to a program of tensors that are there."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
RESULT = "_dlc_result"
ADVICE = "make the random tensors outside and pass them to it"


@dataclass(frozen=True)
class ScriptCall:
    """A call of a function of the script: its statements, which return at their end or not."""

    name: str
    body: list[ast.stmt]
    arguments: inspect.BoundArguments

    @property
    def shared(self) -> set[str]:
        """The variables of the script that the function declares global."""
        walked = (n for s in self.body for n in ast.walk(s))
        return {name for s in walked if isinstance(s, ast.Global) for name in s.names}

    def statements(
        self, taken: Collection[str], number: int
    ) -> tuple[list[ast.stmt], dict[str, Any]]:
        """
        The function's statements, and the values of its parameters by name. Its variables that are
        `taken` outside get names with a number; those that its functions declare `nonlocal` become
        variables of the script.
        """
        given = dict(self.arguments.arguments)
        stored = {n.id for s in self.body for n in ast.walk(s) if is_stored(n)}
        own = stored.intersection(name for s in self.body for name in bound_by(s))
        for name in sorted((own | {*given}) - self.shared):
            if name in taken:
                new = f"{name}_{self.name}{number}"
                for statement in self.body:
                    rename(statement, name, new)
                if name in given:
                    given[new] = given.pop(name)
        for statement in self.body:
            _declare_global(statement)
        return self.body, given


class ScriptCalls:
    """Finds the calls of functions of a script whose statements may stand for them."""

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self.functions = {f.name: f for f in lifter.tree.body if isinstance(f, ast.FunctionDef)}
        """The functions that the script defines at its top."""
        self.binds = any(isinstance(n, ast.Nonlocal) for n in ast.walk(lifter.tree))
        """True if functions assign variables of functions around them."""
        self.effects = Effects(lifter.tree)
        self.unseen: ImportFailure | None = None
        """Why the statements of the first call that was not taken apart are not the program's."""

    def names_beside(self, name: str) -> set[str]:
        """The variables that the text mentions outside of a function, and Python's own."""
        others = (s for s in self.lifter.tree.body if s is not self.functions[name])
        return {*dir(builtins)}.union(*map(names_in, others))

    def may_change(self, call: ast.AST) -> TypeGuard[ast.Call]:
        """True for a call of a function of the script in which something is changed in place."""
        match call:
            case ast.Call(func=ast.Name(id=name)):
                return name in self.functions and name in self.effects.changing_given
        return False

    def find_again(self, value: ast.expr) -> ScriptCall | None:
        """Such a call that has run already; None if running it twice would change more."""
        call = self.find(value)
        if call is not None and _acts_outside(self.functions[call.name]):
            what = "changes what is outside of it"
            self._note(self.functions[call.name], call.name, what)
            return None
        return call

    def find(self, value: ast.expr) -> ScriptCall | None:
        """
        The call that `value` is: of a function of the script, given what is known and no tensors
        made at random. None for another expression.
        """
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
            return None
        function = self.lifter.scope.get(value.func.id)
        definition = self.functions.get(value.func.id)
        if definition is None or not isinstance(function, FunctionType):
            return None
        with kept_random_state(), self.lifter.whole_calls():
            arguments = self._arguments(value, function)
        if arguments is None:
            return None
        if not self._is_defined_by(definition, function):
            what = "is called through another function, such as a decorator"
            self._note(definition, definition.name, what)
        elif any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(definition)):
            self._note(definition, definition.name, "is a generator")
        else:
            try:
                body = with_one_exit(definition.body, RESULT)
            except ReturnsWithin as error:
                what = "returns from within a loop, a try or a context that ends behind it"
                self._note(error.args[0], definition.name, what)
            else:
                return ScriptCall(definition.name, body, arguments)
        return None

    def find_context(self, value: ast.expr) -> ScriptCall | None:
        """
        The same of a context that is a function of the script with one `yield`: the statements
        before it, the `yield`, and those behind it. None where an error might not get through.
        """
        match value:
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                definition = self.functions[name]
            case _:
                return None
        decorators = [value_of(d, self.lifter.scope) for d in definition.decorator_list]
        body = _around_yield(copy.deepcopy(definition.body))
        if decorators != [contextmanager] or body is None:
            return None
        with kept_random_state(), self.lifter.whole_calls():
            arguments = self._arguments(value, self.lifter.scope[name])
        return None if arguments is None else ScriptCall(name, body, arguments)

    def _arguments(self, call: ast.Call, function: FunctionType) -> inspect.BoundArguments | None:
        """The values of a call's arguments if they are known and no tensors made at random."""
        parts = [self.lifter.visit(a) for a in call.args]
        named: Mapping[str, Any] = {
            k.arg: self.lifter.visit(k.value) for k in call.keywords if k.arg is not None
        }
        if len(named) < len(call.keywords):
            return None
        given = (*parts, *named.values())
        if not all(p.known and not p.sized and not self.lifter.is_data(p.value) for p in given):
            return None
        values = {name: part.value for name, part in named.items()}
        bound = inspect.signature(function).bind(*(p.value for p in parts), **values)
        bound.apply_defaults()
        return bound

    def _is_defined_by(self, definition: ast.FunctionDef, function: FunctionType) -> bool:
        """True if calling `function` runs the statements of `definition` and nothing else."""
        neutral = all(map(self._is_neutral, definition.decorator_list))
        inner: Any = inspect.unwrap(function) if definition.decorator_list else function
        first = min(n.lineno for n in (definition, *definition.decorator_list))
        code = inner.__code__
        at = (code.co_filename, code.co_firstlineno, code.co_name)
        return neutral and at == (self.lifter.filename, first, definition.name)

    def _is_neutral(self, decorator: ast.expr) -> bool:
        part = self.lifter.visit(decorator.func if isinstance(decorator, ast.Call) else decorator)
        return part.known and any(part.value is context for context in NEUTRAL)

    def _note(self, node: ast.stmt, name: str, what: str) -> None:
        place = place_at(self.lifter.filename, node)
        why = f"what {name} computes of tensors that it makes at random is not seen: it {what}"
        self.unseen = self.unseen or ImportFailure(f"{why}; {ADVICE}", place)


def _around_yield(body: list[ast.stmt]) -> list[ast.stmt] | None:
    """
    Statements with one `yield` among them, also one that ends a `try` with nothing but a `finally`,
    whose statements then follow; None for others.
    """
    at = [i for i, node in enumerate(body) if any(map(_is_yield, ast.walk(node)))]
    if len(at) != 1 or any(returns_in(body)):
        return None
    (i,) = at
    match body[i]:
        case ast.Expr(value=ast.Yield()):
            inner: list[ast.stmt] | None = [body[i]]
        case ast.Try(body=tried, handlers=[], orelse=[], finalbody=final):
            tried = _around_yield(tried)
            inner = None if tried is None else [*tried, *final]
        case _:
            inner = None
    return None if inner is None else [*body[:i], *inner, *body[i + 1 :]]


def _is_yield(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom | ast.Await)


def _declare_global(node: ast.AST, around: frozenset[str] = frozenset()) -> None:
    """
    Has the functions in a piece of text declare global what they declare `nonlocal`, unless it is a
    variable of a function `around` them in the same piece.
    """
    inner = around
    if isinstance(node, FUNCTIONS):
        declared = [n for n in node.body if isinstance(n, ast.Nonlocal)]
        for one in declared:
            names = [name for name in one.names if name not in around]
            one.names = [name for name in one.names if name in around]
            if names:
                node.body.insert(0, ast.copy_location(ast.Global(names), one))
        node.body = [n for n in node.body if not isinstance(n, ast.Nonlocal) or n.names]
        bound = {name for statement in node.body for name in bound_by(statement)}
        bound |= {n.arg for n in ast.walk(node.args) if isinstance(n, ast.arg)}
        outer = {name for n in node.body if isinstance(n, ast.Global) for name in n.names}
        inner |= bound - outer
    for child in ast.iter_child_nodes(node):
        _declare_global(child, inner)


def _acts_outside(definition: ast.FunctionDef) -> bool:
    """True if a function assigns variables of the script, or changes what it did not make."""
    nodes = list(ast.walk(definition))
    own = {n.id for n in nodes if is_stored(n)}
    changed = {name for n in nodes if (name := changed_by(n)) is not None}
    return any(isinstance(n, ast.Global) for n in nodes) or not changed <= own
