"""What a statement of a script may change of what its program has, or has used."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import names_in, place_at
from dlc.frontend.scripts.program_text import ProgramText
from dlc.frontend.scripts.program_values import SELF, is_module
from dlc.frontend.scripts.program_variables import LATE, ProgramVariables
from dlc.frontend.scripts.script_calls import ScriptCalls
from dlc.frontend.scripts.script_live import place_of, places_in
from dlc.frontend.scripts.script_runs import ASSIGNED
from dlc.frontend.scripts.script_state import ScriptState, StateChanged
from dlc.frontend.scripts.variables import changed_by, changes_inside
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.dotted import value_of
from dlc.frontend.state.foreign import is_own

FILLS = frozenset("uniform_ normal_ random_ bernoulli_ exponential_ log_normal_ cauchy_".split())
"""Methods that fill a tensor with random numbers."""
READS = frozenset(
    "parameters named_parameters modules named_modules children named_children buffers "
    "named_buffers state_dict get_parameter get_buffer get_submodule extra_repr forward".split()
)
"""Methods of modules that change nothing."""


MODES = frozenset(("train", "eval"))
"""Methods of modules that change how they compute, which a program puts back."""


class Changes:
    """Makes it the program's, or refuses it where the program would not see it."""

    def __init__(
        self,
        lifter: Lifter,
        program: ProgramText,
        functions: ScriptCalls,
        variables: ProgramVariables,
    ) -> None:
        self.lifter, self.program = lifter, program
        self.functions, self.variables = functions, variables
        self._unhooked: ast.stmt | None = None
        """Where hooks are removed behind what the program has computed."""

    def unhooks(self, node: ast.stmt) -> bool:
        """True for what removes hooks: they stay, as no module may be called behind it."""
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="remove"))):
                removed = [value_of(owner, self.lifter.scope)]
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Name(id=of) | ast.Call(func=ast.Attribute(value=ast.Name(id=of)), args=[]),
                body=[ast.Expr(value=ast.Call(func=ast.Attribute(ast.Name(id=at), "remove")))],
            ) if name == at:
                found = self.lifter.scope.get(of, ())
                removed = [*(found.values() if isinstance(found, dict) else found)]
            case _:
                return False
        if not self.program.begun or not all(isinstance(r, RemovableHandle) for r in removed):
            return False
        self._unhooked = self._unhooked or node
        return True

    def check_hooks(self, since: int) -> None:
        """
        ImportFailure if the program has called a module `since` then, without its hooks:
        StateChanged, so that each module is the program's.
        """
        if self._unhooked is not None:
            if any(SELF in names_in(statement) for statement in self.program.body[since:]):
                modules = (n for n, v in self.lifter.scope.items() if is_module(v))
                self.variables.refuse(LATE, self._unhooked, next(modules, None))

    def switches(self, value: ast.expr) -> bool:
        """True if a call has modules of the program compute otherwise from here on."""
        match value:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if self.program.begun:
                of = value_of(owner, self.lifter.scope)
                if isinstance(of, torch.nn.Module) and not self.variables.computes(value):
                    if name in MODES and self._asks_modes:
                        names = [n for n, v in self.lifter.globals.items() if v is of]
                        self.refuse_late(value, names or None)
                    return name in MODES or is_own(
                        getattr(getattr(type(of), name, None), "__module__", None)
                    )
        return False

    @cached_property
    def _asks_modes(self) -> bool:
        """True if the text reads the mode of a module, so that modules are to be the program's."""
        attributes = (n for n in ast.walk(self.lifter.tree) if isinstance(n, ast.Attribute))
        return any(n.attr == "training" and isinstance(n.ctx, ast.Load) for n in attributes)

    def prepares(self, value: ast.expr, last: bool) -> bool:
        """True if a call sets tensors to begin with, or changes a module."""
        if not isinstance(value, ast.Call) or names_in(value) & self.lifter.computed:
            return False
        match value.func:
            case ast.Name(id="exec"):
                return not last and "exec" not in self.lifter.scope
            case ast.Attribute(value=owner, attr=name):
                of = value_of(owner, self.lifter.scope)
                if of is torch.nn.init or name in FILLS:
                    return True
                is_module = isinstance(of, torch.nn.Module)
                if last or not self.variables.computes(value):
                    return not last and (is_module or not self.program.begun)
                return is_module and hasattr(torch.nn.Module, name)
        return False

    def bring(self, value: ast.expr) -> None:
        """What a call of its method may change becomes a variable of the program."""
        if not self.program.begun and not self.variables.computes(value):
            return
        self.check_modules(value)
        name = changed_by(value)
        if name is not None and self.variables.is_changeable(name):
            self.variables.bring(name, value, inside=changes_inside(value))

    def check_modules(self, value: ast.expr) -> None:
        """ImportFailure if what the program has used may be changed by a method of a module."""
        self._bring_arguments(value)
        for call in ast.walk(value):
            match call:
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
                    self.program.begun and name not in READS
                ):
                    of = value_of(owner, self.lifter.scope)
                    if isinstance(of, torch.nn.Module | torch.nn.Parameter):
                        if not self.variables.computes(call):
                            self.refuse_late(call)

    def check_assigned(self, node: ast.stmt) -> None:
        """ImportFailure if what ran of a statement has assigned a variable of the program's."""
        if assigned := sorted(self.lifter.live.names & self.lifter.globals.keys()):
            place = place_at(self.lifter.filename, node)
            raise ImportFailure(ASSIGNED.format(assigned[0]), place)

    @contextmanager
    def none_of_used(self, node: ast.stmt) -> Iterator[None]:
        """StateChanged if what runs within changes what the program has used."""
        if not self.program.begun or not any(isinstance(n, ast.Call) for n in ast.walk(node)):
            yield
            return
        mentioned = {name for statement in self.program.body for name in names_in(statement)}
        values = [value for name, value in self.lifter.values.items() if name in mentioned]
        reached = self.lifter.functions.reached(values)
        used, read = places_in(reached), self.lifter.functions.variables_of(reached)
        state = ScriptState(ChainMap(self.lifter.scope, self.lifter.inner))
        yield
        read &= self.lifter.scope.keys()  # others are the program's by now

        def is_unused(owner: Any, name: str, is_variable: bool) -> bool:
            return name not in read if is_variable else place_of(owner, name) not in used

        path = state.change(is_unused)
        if path is not None:
            place = place_at(self.lifter.filename, node)
            raise StateChanged(path, f"a statement changes {LATE}", place)

    def refuse_late(
        self, node: ast.stmt | ast.expr, names: Iterable[str | None] | None = None
    ) -> None:
        """
        StateChanged if the program has begun: for `names`, or what a statement mentions, it would
        not be too late if they were the program's.
        """
        if self.program.begun:
            scope, live = self.lifter.scope, self.lifter.live.names
            named = sorted(names_in(node)) if names is None else names
            there = {**scope, **self.lifter.shared}
            found = (n for n in named if n in there and n not in live)
            mine = (n for n in found if not isinstance(there[n], ModuleType))
            self.variables.refuse(LATE, node, next(mine, None))

    def _bring_arguments(self, value: ast.expr) -> None:
        """What a function of the script may change of its arguments becomes the program's."""
        for call in ast.walk(value):
            if self.functions.may_change(call):
                if self.program.begun or self.variables.computes(call):
                    for name in sorted(names_in(call)):
                        if self.variables.is_changeable(name):
                            self.variables.bring(name, call)
