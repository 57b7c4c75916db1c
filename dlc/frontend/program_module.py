"""The program that a lifter has made of a script, as a module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any, TypeAlias

import torch

from dlc.frontend.kept_inputs import check_inputs_alone
from dlc.frontend.lift import Lifter
from dlc.frontend.parts import assignment, attribute, load
from dlc.frontend.program_values import KEPT, SELF
from dlc.frontend.script_places import place_of_sentence
from dlc.frontend.script_shared import as_before
from dlc.frontend.script_state import guarded
from dlc.frontend.script_trials import Trials, asks
from dlc.frontend.tensor_texts import has_modules, makes_text

Program: TypeAlias = tuple[torch.nn.Module, tuple[Any, ...]]
"""A module and its example inputs."""


class CalledModule(torch.nn.Module):
    """
    A module called from the user's line, with the very tables of tensors of that module: its
    parameters have the same names in both, and a copy or conversion of one is that of the other.
    """

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.called = (module,)  # in a tuple, so that it is no submodule
        self._parameters = module._parameters
        self._buffers = module._buffers
        self._modules = module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training


def program_module(lifter: Lifter, body: Sequence[ast.stmt], result: ast.expr) -> Program:
    """The module whose forward is `body` and returns `result`."""
    check_inputs_alone(lifter, [*body, result])
    called = None if body else only_called(lifter.held, result)
    if called is not None:
        assert isinstance(result, ast.Call)
        tuple_of_it = attribute(SELF, "called")
        result.func = ast.Subscript(tuple_of_it, ast.Constant(0), ast.Load())
    base = torch.nn.Module if called is None else CalledModule
    for scope in (lifter.scope, lifter.globals):
        scope.update(lifter.shared)
    made = forward(lifter, body, result)
    makes = any(makes_text(node, lifter.values) for node in (lifter.tree, *body, result))
    compares = makes or asks(made) or has_modules(lifter.scope)
    trials = Trials(lifter.filename) if compares else None
    kept = guarded(
        _as_before(lifter, made),
        lifter.scope,
        lifter.filename,
        lifter.tree,
        trials,
        frozenset(lifter.assigned),
    )
    place_of = partial(place_of_sentence, filename=lifter.filename, tree=lifter.tree)
    own = {"forward": kept, "is_tried": trials is None, "place_of": staticmethod(place_of)}
    program: Any = type("Program", (base,), own)
    inputs = tuple(lifter.inputs.values())
    if called is not None:
        return program(lifter.held[called]), inputs
    module = program()
    for name, value in lifter.held.items():
        setattr(module, name, value)
    return module, inputs


def _as_before(lifter: Lifter, made: Callable[..., Any]) -> Callable[..., Any]:
    """A forward behind whose runs what it shares with the script is what it was."""
    if not lifter.shared and not lifter.counted:
        return made
    return as_before(made, lifter.shared.values(), [*lifter.counted.values()])


def only_called(held: Mapping[str, Any], code: ast.expr) -> str | None:
    """The attribute that `code` calls if it is one call of a module that is all that is held."""
    match code:
        case ast.Call(ast.Attribute(ast.Name(id=name), attr)) if name == SELF:
            uses = [n for n in ast.walk(code) if isinstance(n, ast.Name) and n.id == SELF]
            alone = len(uses) == 1 and list(held) == [attr]
            return attr if alone and isinstance(held[attr], torch.nn.Module) else None
    return None


def forward(lifter: Lifter, body: Sequence[ast.stmt], result: ast.expr) -> FunctionType:
    """`def forward(self, <inputs>): <body>; return <result>`, at the result's place."""
    tree = ast.parse(f"def forward({', '.join((SELF, *lifter.inputs))}): return")
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    for node in ast.walk(function):
        ast.copy_location(node, result)
    kept = [assignment(KEPT + name, load(name)) for name in sorted(lifter.kept)]
    at_result = [ast.copy_location(s, result) for s in (*kept, ast.Return(result))]
    function.body = [*at_result[:-1], *body, at_result[-1]]
    ast.fix_missing_locations(tree)
    scope = {**lifter.scope, **lifter.values}
    exec(compile(tree, lifter.filename, "exec"), scope)
    for names in (scope, lifter.scope):
        names.pop("__name__", None)  # in whose module Dynamo would look for what it has
    return scope["forward"]
