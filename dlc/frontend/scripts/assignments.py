"""Assignments of a script: made now, or the program's."""

from __future__ import annotations

import ast
import copy

from dlc.frontend.scripts.divided_calls import DividedCalls
from dlc.frontend.scripts.variables import bound_by, loaded, root_of
from dlc.frontend.state.constants import copied
from dlc.frontend.state.insides import CONTAINERS


class Assignments(DividedCalls):
    """Divides assignments, by what they assign and to what."""

    def _assign(self, node: ast.stmt, targets: list[ast.expr], value: ast.expr) -> None:
        bound = {name for target in targets for name in bound_by(target)}
        looked = bound & self.seen - self.lifter.live.names
        if any(name in self.lifter.scope or name in self.lifter.assigned for name in looked):
            self.changes.refuse_late(node, looked)
        self.changes.check_modules(value)
        stores = any(not isinstance(t, ast.Name | ast.Tuple | ast.List) for t in targets)
        again = copy.deepcopy(value)
        with self.now.undone_if_constant() as constant:
            part = self.lifter.visit(value, assigned=True)
            into_tensor = any(self.variables.is_of_tensor(t) for t in targets)
            now = part.code if part.known else part.now
            constant.append(
                now is not None
                and not into_tensor
                and not (stores and self.program.begun)
                and not self.lifter.live.assigns(bound)
            )
        if constant[0]:
            assert now is not None
            new: ast.stmt = ast.Assign([*targets], now)
            if self.now.run(ast.copy_location(new, node)):
                for target in targets:
                    self.lifter.computed -= bound_by(target)
                self.lifter.sizes.assigned(targets, part)
                return
            part = self.lifter.visit(again, assigned=True)
        code = self.lifter.use(part)
        if part.known and isinstance(part.value, CONTAINERS):  # each run has its own
            code = ast.Call(self.lifter.constant(copied, value), [code], [])
        self.program.keep(ast.Assign([self.variables.target(t) for t in targets], code), node)
        self.program.has_assigned(again, targets[0])
        for name in bound & self.lifter.objects.out_of_reach:
            self.lifter.scope.pop(name, None)  # a method would see what it was

    def _update(self, node: ast.AugAssign) -> None:
        name = root_of(node.target)
        changes = self.program.begun and self.variables.is_changeable(name)
        if not isinstance(node.target, ast.Name) and not changes:
            if not self.variables.computes(node.target):
                self.changes.refuse_late(node, [name])
        if not self.variables.computes(node) and not changes:
            if name in self.seen:
                self.changes.refuse_late(node, [name])
            if self.now.run(node):
                return
        value = self.lifter.use(self.lifter.visit(node.value))
        if name in self.lifter.scope:
            self.variables.bring(name, node)
        target = self.variables.target(node.target)
        self.program.keep(ast.AugAssign(target, node.op, value), node)  # pyright: ignore[reportArgumentType]
        self.program.has_computed(loaded(node.target))
