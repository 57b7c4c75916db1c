"""Statements of a script that run now, before its program, or as if they had not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import names_in
from dlc.frontend.scripts.program_text import ProgramText
from dlc.frontend.scripts.script_calls import ScriptCalls
from dlc.frontend.scripts.script_turns import counting
from dlc.frontend.scripts.variables import bound_by
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.insides import CONTAINERS, LEAVES

DEFINITIONS = (
    ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    | ast.Global | ast.Pass
)  # fmt: skip
DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
LISTS = frozenset("parameters named_parameters modules named_modules children named_children "
                  "buffers named_buffers state_dict".split())  # fmt: skip
"""Methods by which modules tell what they hold."""
QUIET = frozenset("print len sum str repr format tuple list numel size dim items keys values join "
                  "ljust rjust center startswith endswith isinstance type sorted enumerate zip "
                  "any all max min int float".split())  # fmt: skip
"""Functions and methods that change nothing of a module's."""
UNDONE = ast.For | ast.While | ast.Try | ast.With | ast.Match | ast.Assign | ast.AugAssign
"""Statements that run now, and are undone if they compute something of random tensors."""


class RunsNow:
    """Runs them, while the program stands as it does."""

    def __init__(
        self,
        lifter: Lifter,
        program: ProgramText,
        functions: ScriptCalls,
        seen: Collection[str],
        refuse_late: Callable[[ast.stmt], None],
    ) -> None:
        """Functions of the script look at the variables in `seen`."""
        self.lifter, self.program, self.functions = lifter, program, functions
        self.seen = {*seen}
        self.refuse_late = refuse_late

    def run(self, node: ast.stmt) -> bool:
        """
        Runs a statement now. False if it has computed something of random tensors, or has read what
        the program changes: then it is for the program, and all is as if it had not run.
        """
        if not isinstance(node, DEFINITIONS | ast.Assign | ast.Expr | ast.AugAssign):
            if not self._is_apart(node):
                self.refuse_late(node)
        scope, random = self.lifter.scope, self.lifter.random
        names = names_in(node)
        if not names.isdisjoint(self.functions.functions):
            names |= self.seen
        before = self.lifter.memento(map(scope.get, names)) if isinstance(node, UNDONE) else None
        known, found, count = dict(scope), len(random.found), random.count
        scope.update(self.lifter.values)
        reads, times = len(self.lifter.runs.read_at), random.reads
        failed: ImportFailure | None = None
        try:
            with self.lifter.runs.noting(node), self.lifter.early_hint(node):
                tree = ast.fix_missing_locations(ast.Module([node], []))
                tree = counting(tree) if isinstance(node, DEFINING) else tree
                exec(compile(tree, self.lifter.filename, "exec"), scope)
        except ImportFailure as error:
            if before is None or not self.lifter.reads_shared(error):
                raise
            failed = error
        for name in self.lifter.values:
            scope.pop(name, None)
        self.lifter.sizes.ran(node)
        if isinstance(node, ast.FunctionDef):
            self.lifter.functions.ran(node, scope[node.name])
        if before is None or (failed is None and random.count == count):
            return True
        computed = (self.lifter.objects.has_computed(v, count) for v in scope.values())
        counts = random.reads_compute and random.reads > times
        if failed is None and not counts and not any(computed):
            return True
        if not before.restore():
            if failed is not None:
                raise failed
            return True
        scope.clear()
        scope.update(known)
        random.forget(found, count)
        if failed is None:
            self.lifter.runs.computed_at.pop()
        del self.lifter.runs.read_at[reads:]
        return False

    def _is_apart(self, node: ast.stmt) -> bool:
        """True if a statement mentions nothing that the program uses, so that it changes none."""
        lifter, names = self.lifter, names_in(node)
        stored = bound_by(node)
        if names & (lifter.computed | self.functions.functions.keys()) or stored & self.seen:
            return False
        mentioned = {name for statement in self.program.body for name in names_in(statement)}
        constants = [value for name, value in lifter.values.items() if name in mentioned]
        seen = [lifter.scope.get(name) for name in self.seen]
        held = () if self._only_reads(node) else lifter.held.values()
        used = [*seen, *constants, *held, *lifter.examples.values()]
        changeable = (torch.Tensor, torch.nn.Module, *CONTAINERS)
        known = {id(v) for u in used for v in (u, *tree_leaves(u)) if isinstance(v, changeable)}
        found = [lifter.scope.get(name) for name in names]
        return not any(id(v) in known for f in found for v in (f, *tree_leaves(f)))

    def _only_reads(self, node: ast.stmt) -> bool:
        """True if a statement asks modules what they hold, and changes nothing but numbers."""
        scope = self.lifter.scope
        listed: set[ast.AST] = set()
        for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr in LISTS:
                listed |= {n for n in ast.walk(call.func) if isinstance(n, ast.Name)}
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name not in QUIET or name in scope:
                return False
        names = (n for n in ast.walk(node) if isinstance(n, ast.Name) and n not in listed)
        if any(isinstance(scope.get(n.id), torch.nn.Module) for n in names):
            return False
        targets = (n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign))
        counts = all(isinstance(t, ast.Name) and type(scope.get(t.id)) in LEAVES for t in targets)
        return counts and not any(
            isinstance(n, ast.Attribute | ast.Subscript) and not isinstance(n.ctx, ast.Load)
            for n in ast.walk(node)
        )

    @contextmanager
    def undone_if_constant(self) -> Iterator[list[bool]]:
        """What was noted of inputs and modules within is forgotten if `True` is appended."""
        lifter, program = self.lifter, self.program
        body, begun = [*program.body], program.begun
        before = dict(lifter.inputs), dict(lifter.examples), dict(lifter.held), set(lifter.kept)
        computed, assigned = set(lifter.computed), set(lifter.assigned)
        outcome: list[bool] = []
        yield outcome
        if outcome[0]:
            lifter.inputs, lifter.examples, lifter.held, lifter.kept = before
            lifter.computed, lifter.assigned = computed, assigned
            program.body, program.begun = body, begun
