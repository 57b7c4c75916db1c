"""Calls of a script's functions, whose statements are divided in their place."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence

from dlc.frontend.scripts.left_out import acting
from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import assignment
from dlc.frontend.scripts.program_text import ProgramText
from dlc.frontend.scripts.program_variables import ProgramVariables
from dlc.frontend.scripts.script_calls import ScriptCall, ScriptCalls
from dlc.frontend.scripts.script_changes import Changes
from dlc.frontend.scripts.script_functions import ScriptFunctions
from dlc.frontend.scripts.script_now import RunsNow
from dlc.frontend.scripts.script_objects import ScriptObjects
from dlc.frontend.scripts.script_settings import ScriptSettings
from dlc.frontend.scripts.script_shared import SharedContainers
from dlc.frontend.scripts.shown_values import Outputs
from dlc.frontend.scripts.shown_within import ShownWithin
from dlc.frontend.scripts.variables import SCOPES, bound_by, free_in

RETURNED = "_returned"


class DividedCalls(ABC):
    """What divides a script's statements, and divides those of functions that are called."""

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self.program = program = ProgramText(lifter)
        self.functions = ScriptCalls(lifter)
        lifter.inline = self._returned
        lifter.is_late = program.comes_before
        lifter.acts = lambda node: any(True for _ in acting(node, self.functions))
        lifter.functions = ScriptFunctions(lifter, program.define)
        lifter.objects = ScriptObjects(lifter, program.keep)
        lifter.changes = bool(self.functions.effects.changing or lifter.changed_within)
        found = (n for n in ast.walk(lifter.tree) if isinstance(n, SCOPES))
        self.seen = {name for function in found for name in free_in(function)}
        """The variables of the script that its functions may look at."""
        self.variables = ProgramVariables(lifter, program.keep, self.seen)
        self.changes = Changes(lifter, program, self.functions, self.variables)
        self.now = RunsNow(lifter, program, self.functions, self.seen, self.changes.refuse_late)
        self.outputs = Outputs(lifter, program, self.functions, self.variables, self.now)
        self.shared = SharedContainers(lifter, program, self.outputs)
        self.within = ShownWithin(self.outputs)
        self.settings = ScriptSettings(program, self.variables.refuse)
        self.calls = 0
        """The calls of functions of the script that were taken apart."""
        self._redirected = False
        """True within a context that redirects what is printed, which the program enters, too."""
        self.ended = False
        """True once the script has ended itself, by `sys.exit()`."""

    @property
    def result(self) -> ast.expr | None:
        """What the program computed last."""
        return self.program.result

    @property
    def _readable(self) -> set[str]:
        """The variables that anything may look at: those that there are, or that functions read."""
        return self.seen | self.lifter.scope.keys() | self.lifter.computed

    @abstractmethod
    def lift(self, statements: Sequence[ast.stmt], ends: bool = True) -> None:
        """Divides statements; `ends` says that the last of them ends the program."""

    def _called(self, value: ast.expr) -> ScriptCall | None:
        """The call of a function of the script that `value` is, given no tensors of the program."""
        return None if self.variables.computes(value) else self.functions.find(value)

    def _returned(self, value: ast.Call) -> ast.Name | None:
        """The variable with what such a call returns; its statements become the program's."""
        if self.variables.computes(value) or (call := self.functions.find_again(value)) is None:
            return None
        name = f"{RETURNED}{self.calls}"
        self._inline(call, False, name)
        return ast.copy_location(ast.Name(name, ast.Load()), value)

    def _inline_around(self, call: ScriptCall, node: ast.With, last: bool) -> None:
        """Divides the statements of a context, and those within it in the place of its `yield`."""
        outer = self.lifter.scope
        self.calls += 1
        # All of its variables get names of their own: the text within may call it, or another.
        taken = set(call.arguments.arguments).union(*map(bound_by, call.body))
        body, given = call.statements(taken, self.calls)
        given_at = [getattr(statement, "value", None) for statement in body]
        at, yields = next((i, v) for i, v in enumerate(given_at) if isinstance(v, ast.Yield))
        enters, leaves = body[:at], body[at + 1 :]
        if (target := node.items[0].optional_vars) is not None:
            value = yields.value or ast.Constant(None)
            given_to = ast.copy_location(ast.Assign([target], value), node)
            enters = [*enters, ast.fix_missing_locations(given_to)]
        inner = self.lifter.scope = {**outer, **given}
        self.lift(enters, False)
        self.lifter.scope = outer
        if target is not None:
            outer.update({n: inner[n] for n in bound_by(target) if n in inner})
        self.lift(node.body, last)
        inner.update(outer)
        self.lifter.scope = inner
        self.lift(leaves, False)
        self.lifter.scope = outer
        self.lifter.inner |= {n: value for n, value in inner.items() if n not in outer}
        outer.update({n: inner[n] for n in call.shared if n in inner})

    def _inline(self, call: ScriptCall, last: bool, returned: str | None = None) -> None:
        """Divides the statements of a function; its result ends the program or gets a name."""
        outer = self.lifter.scope
        self.calls += 1
        # Variables that functions assign around them become the script's, under names of their own.
        binds = self.functions.binds
        beside = self.functions.names_beside(call.name) if binds else set[str]()
        body, given = call.statements({*outer, *self.lifter.assigned, *beside}, self.calls)
        if returned is not None and isinstance(end := body[-1], ast.Return) and end.value:
            body[-1] = ast.copy_location(assignment(returned, end.value), end)
        new = self.lifter.scope = outer if binds else {**outer}
        new.update(given)
        self.lift(body, last)
        self.lifter.scope = outer
        self.lifter.inner |= {n: value for n, value in new.items() if n not in outer}
        outer.update({n: new[n] for n in (*call.shared, returned) if n in new})
