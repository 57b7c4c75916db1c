"""Contexts of a script, and loops and branches that belong to the program as a whole."""

from __future__ import annotations

import ast
from contextlib import ExitStack, suppress
from typing import Any

from dlc.frontend.scripts.divided_calls import RETURNED, DividedCalls
from dlc.frontend.scripts.parts import (
    assignment,
    calls_of_context,
    errors_in,
    load,
    names_in,
    with_one_item,
)
from dlc.frontend.scripts.script_calls import NEUTRAL
from dlc.frontend.scripts.script_objects import UNNAMED
from dlc.frontend.scripts.variables import bound_by, changed_in, is_name, is_stored


class CompoundStatements(DividedCalls):
    """Divides contexts, and makes other statements with a body the program's."""

    def _with(self, node: ast.With, last: bool) -> None:
        node = with_one_item(node)
        (item,) = node.items
        part = self.lifter.visit(item.context_expr)
        context, catches = part.value, self.outputs.catches(part.value, node)
        computes = self.variables.computes(node)
        hides = isinstance(context, suppress)
        whole = not part.known or (computes and (catches or hides))
        if whole or (hides and not self.now.run(node)):
            self._whole(node)
        if whole or hides:
            return
        if self.functions.effects.of_context(context):
            self._entered(node, context, last)
            return
        with ExitStack() as stack, errors_in(self.lifter.filename):
            entered = stack.enter_context(context)
            if isinstance(name := item.optional_vars, ast.Name):
                self.lifter.scope[name.id] = entered
            outside, self.program.body = self.program.body, []
            redirected, self._redirected = self._redirected, self._redirected or catches
            with self.settings.within():
                self.lift(node.body, last)
            self._redirected = redirected
            inside, self.program.body = self.program.body, outside
        if inside and not isinstance(context, NEUTRAL):
            if last and self.program.result is not None:
                inside.append(self._result_kept(node))
            code = part.build() if part.build else self.lifter.use(part)
            inside = [ast.copy_location(ast.With([ast.withitem(code)], inside), node)]
        self.program.body += inside

    def _entered(self, node: ast.With, context: Any, last: bool) -> None:
        """A context of the script that changes something: what Python calls for it is divided."""
        if (call := self.functions.find_context(node.items[0].context_expr)) is not None:
            self._inline_around(call, node, last)
            return
        name = f"{UNNAMED}{len(self.lifter.scope)}"
        self.lifter.scope[name] = context
        enter, leave = calls_of_context(node, name)
        self.lift([enter, *node.body], last)
        self.lift([leave], False)

    def _result_kept(self, node: ast.stmt) -> ast.stmt:
        """The assignment by which a result computed within a statement outlives it."""
        assert self.program.result is not None
        kept = ast.copy_location(assignment(RETURNED, self.program.result), node)
        self.program.has_computed(
            ast.copy_location(load(RETURNED), node), is_doubtful=self.program.is_doubtful
        )
        return kept

    def _whole(self, node: ast.stmt) -> None:
        """A loop or a branch over tensors belongs to the program as it stands."""
        node = self.within.visit(node)
        places = [c for c in changed_in(node) if self.variables.is_changeable(c[0])]
        changed = {name for name, *_ in places}
        inside = {name for name, _, is_inside in places if is_inside}
        for name in sorted(names_in(node) - self.lifter.computed):
            if name in changed:
                self.variables.bring(name, node, inside=name in inside)
            elif name in self.lifter.scope:
                part = self.lifter.visit(ast.copy_location(ast.Name(name, ast.Load()), node))
                if not is_name(code := self.lifter.use(part), name):
                    self.program.keep(assignment(name, code), node)
        self.program.keep(node, node)
        if assigned := self.shared.assigned_by(node):
            self.lifter.live.begins(node)
            self.changes.refuse_late(node, sorted(assigned))
        counters = {n for f in ast.walk(node) if isinstance(f, ast.For) for n in bound_by(f.target)}
        bound = bound_by(node)
        self.variables.add(bound | changed)
        found = [n for n in ast.walk(node) if is_stored(n) and n.id in bound - counters]
        found += [ast.copy_location(load(name), at) for name, at, _ in places]
        if found:
            found.sort(key=lambda n: (n.lineno, n.col_offset))
            at_node = [ast.copy_location(load(n.id), node) for n in found]
            self.program.has_computed(*at_node, is_doubtful=True)
