"""The program that a lifter has made of a script, as a module."""

from __future__ import annotations

import ast
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import torch

from dlc.frontend.scripts.kept_inputs import check_inputs_alone
from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.mementos import Undo
from dlc.frontend.scripts.parts import assignment, attribute, load
from dlc.frontend.scripts.program_values import KEPT, SELF, is_module
from dlc.frontend.scripts.script_guard import guarded
from dlc.frontend.scripts.script_places import place_of_sentence
from dlc.frontend.scripts.script_shared import as_before, undo_of_shared
from dlc.frontend.scripts.script_trials import Trials, asks
from dlc.frontend.scripts.script_turns import counting
from dlc.frontend.scripts.tensor_texts import has_modules, makes_text
from dlc.frontend.scripts.variables import bound_by
from dlc.frontend.state.binding import Binding
from dlc.frontend.state.caches import emptied_again
from dlc.frontend.state.foreign import is_own

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
    beside = [module for name, module in [*sys.modules.items()] if is_own(name)]
    kept = guarded(
        as_before(made, partial(_undo, lifter, beside)),
        ChainMap(lifter.scope, lifter.inner),
        lifter.filename,
        lifter.tree,
        lifter.process,
        trials,
        frozenset(lifter.assigned),
        partial(_covers, lifter),
    )
    place_of = partial(place_of_sentence, filename=lifter.filename, tree=lifter.tree)
    own = {
        "forward": kept,
        "is_tried": trials is None and not lifter.changes,
        "place_of": staticmethod(place_of),
    }
    program: Any = type("Program", (base,), own)
    inputs = tuple(lifter.inputs.values())
    if called is not None:
        return program(lifter.held[called]), inputs
    module = program()
    for name, value in lifter.held.items():
        setattr(module, name, value)
    return module, inputs


def _undo(lifter: Lifter, beside: Sequence[ModuleType]) -> list[Undo]:
    """What makes what a program may change, of modules `beside` the script too, what it is now."""
    modes = [Binding(vars(module), "training") for module in _modules(lifter)]
    counted = (*lifter.counted.values(), *modes)
    values = [*lifter.scope.values(), *lifter.inner.values(), *beside]
    caches = [] if lifter.process.asks_caches else emptied_again(values)
    return [*undo_of_shared(lifter.shared.values(), counted), *lifter.live.undo(), *caches]


def _covers(lifter: Lifter, owner: Any, name: str, is_variable: bool) -> bool:
    """True for what is so."""
    if name == "training" and any(owner is module for module in _modules(lifter)):
        return True
    return lifter.live.covers(owner, name, is_variable)


def _modules(lifter: Lifter) -> Iterator[torch.nn.Module]:
    """The modules of a program."""
    for held in filter(is_module, lifter.held.values()):
        yield from held.modules()


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
    at_result: list[ast.stmt] = [ast.copy_location(s, result) for s in (*kept, ast.Return(result))]
    stored = {name for statement in body for name in bound_by(statement)}
    if shared := sorted(stored & lifter.live.names):
        at_result.insert(0, ast.copy_location(ast.Global(shared), result))
    function.body = [*at_result[:-1], *body, at_result[-1]]
    # Functions of the script and the forward have the same global variables.
    maker = ast.parse(f"def made({', '.join(lifter.values)}):\n    pass\n    return forward")
    (outer,) = maker.body
    assert isinstance(outer, ast.FunctionDef)
    outer.body[0] = function
    made: dict[str, Any] = {}
    exec(compile(counting(maker), lifter.filename, "exec"), lifter.scope, made)
    lifter.scope.pop("__name__", None)  # in whose module Dynamo would look for what it has
    return made["made"](**lifter.values)
