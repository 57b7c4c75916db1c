"""
The statements of a script, divided into what runs now and what is the program.

What makes modules, constants and random tensors runs once, as Python; what computes tensors of
these, and whatever uses a result of that, is the program, in the order of the text. The last value
that the program computes is what it returns, which may be what is printed last. Other printing and
assertions of the program's values are left out. A call of a function of the script that is given no
tensors, such as `main()`, stands for the function's statements, as does `loss = main()` if these
compute something of random tensors. A loop, a comprehension, a generator or a lambda that computes
something of tensors that it makes is the program's as it stands, which draws them itself. An object
that holds random tensors, or that the text changes, is a variable of the program, which begins with
a copy of it. What a function that returns from within a loop, or is called through a decorator, or
a method computes of tensors that it makes is an input, and a note says so.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.insides import CONTAINERS
from dlc.frontend.left_out import acting
from dlc.frontend.lift import KEPT_NUMBERS, Lifter
from dlc.frontend.module_state import state_of
from dlc.frontend.named_expressions import named_expressions
from dlc.frontend.parts import assignment, ended, errors_in, load, names_in, place_at
from dlc.frontend.printed import described, is_description
from dlc.frontend.program_values import has_tensor
from dlc.frontend.program_variables import LATE, ProgramVariables
from dlc.frontend.random import kept_random_state
from dlc.frontend.script_calls import NEUTRAL, ScriptCall, ScriptCalls
from dlc.frontend.script_functions import ScriptFunctions
from dlc.frontend.script_objects import ScriptObjects
from dlc.frontend.single_exit import FUNCTIONS
from dlc.frontend.source import ImportFailure
from dlc.frontend.variables import (
    bound_by,
    changed_by,
    free_in,
    is_name,
    is_stored,
    loaded,
    one_by_one,
    root_of,
    tuple_of,
)

FILLS = frozenset("uniform_ normal_ random_ bernoulli_ exponential_ log_normal_ cauchy_".split())
"""Methods that fill a tensor with random numbers."""
DEFINITIONS = (
    ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    | ast.Global | ast.Pass
)  # fmt: skip
UNDONE = ast.For | ast.While | ast.Try | ast.Match | ast.Assign | ast.AugAssign
"""Statements that run now, and are undone if they compute something of random tensors."""
READS = frozenset(
    "parameters named_parameters modules named_modules children named_children buffers "
    "named_buffers state_dict get_parameter get_buffer get_submodule extra_repr forward".split()
)
"""Methods of modules that change nothing."""
RETURNED = "_returned"


class Statements:
    """Divides statements; `lifter` takes their expressions apart."""

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self.functions = ScriptCalls(lifter)
        lifter.inline = self._returned
        lifter.functions = ScriptFunctions(lifter, self._define)
        lifter.objects = ScriptObjects(lifter, self._keep)
        functions = (n for n in ast.walk(lifter.tree) if isinstance(n, FUNCTIONS))
        self.seen = {name for function in functions for name in free_in(function)}
        """The variables of the script that its functions may look at."""
        self.variables = ProgramVariables(lifter, self._keep, self.seen)
        self.calls = 0
        """The calls of functions of the script that were taken apart."""
        self.begun = False
        """True once the program has a statement: what it uses must not change any more."""
        self.body: list[ast.stmt] = []
        """The program's statements so far."""
        self.results: list[ast.expr] = []
        """What the program computed, the last of it last."""
        self.is_doubtful = False
        """True if the last of it may be a number of the script's own."""
        self.ended = False
        """True once the script has ended itself, by `sys.exit()`."""

    @property
    def _readable(self) -> set[str]:
        """The variables that anything may look at: those that there are, or that functions read."""
        return self.seen | self.lifter.scope.keys() | self.lifter.computed

    @property
    def result(self) -> ast.expr | None:
        """What the program computed last."""
        return self.results[-1] if self.results else None

    def _has_computed(self, *results: ast.expr, is_doubtful: bool = False) -> None:
        self.results += results
        self.is_doubtful = is_doubtful

    def lift(self, statements: Sequence[ast.stmt], ends: bool = True) -> None:
        """Divides statements; `ends` says that the last of them ends the program."""
        for statement in statements:
            if self.ended:
                return
            for named in named_expressions(statement):
                self._statement(named, False)
            held = self._held_state() if self.begun else {}
            self._statement(statement, ends and statement is statements[-1])
            now = self._held_state() if held else {}
            if any(now[key] != before for key, before in held.items() if key in now):
                self.variables.refuse(LATE, statement)

    def _held_state(self) -> dict[int, Hashable]:
        """What the program's modules and tensors hold."""
        return state_of([*self.lifter.held.values(), *self.lifter.inputs.values()])

    def _statement(self, node: ast.stmt, last: bool) -> None:
        match node:
            case ast.Expr(value=ast.NamedExpr(target=target, value=value)):
                self._assign(node, [target], value)
            case ast.Expr():
                self._expression(node, last)
            case ast.Assign() if single := one_by_one(node, self._readable):
                count = len(self.results)
                for one in single:
                    self._statement(one, False)
                if len(self.results) > count:
                    self._has_computed(loaded(node.targets[0]))
            case ast.Assign(targets=targets, value=value):
                self._assign(node, targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(node, [target], value)
            case ast.AugAssign():
                self._update(node)
            case ast.If(test=test) if (part := self.lifter.visit(test)).known and not part.sized:
                self.lift(node.body if part.value else node.orelse, last)
            case ast.With():
                self._with(node, last)
            case ast.Delete(targets=targets) if all(isinstance(t, ast.Name) for t in targets):
                for name in names_in(node):
                    self.lifter.computed.discard(name)
                    self.lifter.scope.pop(name, None)
            case ast.Assert(test=test) if self.variables.computes(node):
                self._leave_out([test])
            case ast.Return(value=value):
                if last and value is not None:
                    self._end(value, returned=True)
            case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit"), args=args)):
                self._exit(node, args)
            case ast.Raise(exc=ast.Name(id="SystemExit")):
                self._exit(node, [])
            case _ if self.variables.computes(node) and not isinstance(node, DEFINITIONS):
                self._whole(node)
            case _:
                if not self._run(node):
                    self._whole(node)

    def _expression(self, node: ast.Expr, last: bool) -> None:
        value = node.value
        if isinstance(value, ast.Call) and self._is_exit(value.func):
            self._exit(node, value.args)
        elif (called := self._called(value)) is not None:
            self._inline(called, last)
        elif isinstance(value, ast.Constant) and not last:
            pass  # a docstring
        elif self._prepares(value, last):
            self._refuse_late(node)
            before = self.lifter.random.count
            self._run(node)
            if self.variables.computes(value) and self.lifter.random.count > before:
                raise ImportFailure(KEPT_NUMBERS, place_at(self.lifter.filename, node))
        elif self._is_print(value):
            assert isinstance(value, ast.Call)
            if last and (shown := self._shown(value.args)):
                self._end(shown[0] if len(shown) == 1 else tuple_of(shown, value))
                self.is_doubtful = True
            elif self.variables.computes(value):
                self._leave_out([*value.args, *(k.value for k in value.keywords)])
            else:
                self._run(node)
        elif last:
            self._bring_changed(value)
            self._end(value)
        else:
            self._bring_changed(value)
            part = self.lifter.visit(value)
            if part.now is not None:
                self._run(ast.copy_location(ast.Expr(part.now), node))
            elif not part.known:
                self._keep(ast.Expr(part.code), node)

    def _leave_out(self, parts: Sequence[ast.expr]) -> None:
        """Leaves printing or an assertion out of the program, but not what goes on in its parts."""
        for call in (c for part in parts for c in acting(part, self.functions)):
            self._statement(ast.copy_location(ast.Expr(call), call), False)

    def _shown(self, printed: Sequence[ast.expr]) -> list[ast.expr]:
        """What the program computes of what is printed at its end."""
        if self.result is None:
            return [e for p in printed for e in described(p) if self._adds(e)]
        return [e for e in printed if not is_description(e) and self._adds(e)]

    def _adds(self, value: ast.expr) -> bool:
        """True if an expression computes something of an input, which may be made in it."""
        if self.variables.computes(value):
            return True
        if not any(isinstance(n, ast.Call) for n in ast.walk(value)):
            return False
        lifter, before = self.lifter, {*self.lifter.inputs}
        with kept_random_state(), lifter.whole_calls(), self._undone_if_constant() as undone:
            part = lifter.visit(value)
            undone.append(True)
            return not before.issuperset(lifter.inputs) or lifter.random.computed(part.value)

    def _is_exit(self, function: ast.expr) -> bool:
        """True for what ends a script."""
        match function:
            case ast.Name(id="exit" | "quit" as name):
                return name not in self.lifter.scope
        return self._evaluated_name(function) is sys.exit

    def _exit(self, node: ast.stmt, args: Sequence[ast.expr]) -> None:
        """The end of the script, with an exit code: that of `main()`, say."""
        for code in args:
            if self._called(code) is None and not self.variables.computes(code):
                part = self.lifter.visit(code)
                if part.known and part.value not in (None, 0):
                    place = place_at(self.lifter.filename, node)
                    raise ended(part.value, place)
            else:
                self._statement(ast.copy_location(ast.Expr(code), node), False)
        self.ended = True

    def _end(self, value: ast.expr, returned: bool = False) -> None:
        """Makes an expression the program's result; a number that a function returns is none."""
        part = self.lifter.visit(value, outermost=True)
        if not part.known:
            self._has_computed(part.code)
        elif self.result is not None and returned and not has_tensor(part.value):
            pass
        elif self.result is None or part.value is not None:
            if self.functions.unseen is not None:
                raise self.functions.unseen
            self.lifter.refuse(value, part)

    def _is_print(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(func=ast.Name(id="print")):
                return self.lifter.scope.get("print", print) is print
        return False

    def _assign(self, node: ast.stmt, targets: list[ast.expr], value: ast.expr) -> None:
        bound = {name for target in targets for name in bound_by(target)}
        if any(
            name in self.lifter.scope or name in self.lifter.assigned for name in bound & self.seen
        ):
            self._refuse_late(node)
        self._check_modules(value)
        stores = any(not isinstance(t, ast.Name | ast.Tuple | ast.List) for t in targets)
        again = copy.deepcopy(value)
        with self._undone_if_constant() as constant:
            part = self.lifter.visit(value, assigned=True)
            into_tensor = any(self.variables.is_of_tensor(t) for t in targets)
            now = part.code if part.known else part.now
            constant.append(now is not None and not into_tensor and not (stores and self.begun))
        if constant[0]:
            assert now is not None
            new: ast.stmt = ast.Assign([*targets], now)
            if self._run(ast.copy_location(new, node)):
                for target in targets:
                    self.lifter.computed -= bound_by(target)
                self.lifter.sizes.assigned(targets, part)
                return
            part = self.lifter.visit(again, assigned=True)
        code = self.lifter.use(part)
        self._keep(ast.Assign([self.variables.target(t) for t in targets], code), node)
        self._has_computed(loaded(targets[0]))

    def _update(self, node: ast.AugAssign) -> None:
        name = root_of(node.target)
        changes = self.begun and self.variables.is_changeable(name)
        if not isinstance(node.target, ast.Name) and not changes:
            if not self.variables.computes(node.target):
                self._refuse_late(node)
        if not self.variables.computes(node) and not changes:
            if name in self.seen:
                self._refuse_late(node)
            if self._run(node):
                return
        value = self.lifter.use(self.lifter.visit(node.value))
        if name in self.lifter.scope:
            self.variables.bring(name, node)
        target = self.variables.target(node.target)
        self._keep(ast.AugAssign(target, node.op, value), node)  # pyright: ignore[reportArgumentType]
        self._has_computed(loaded(node.target))

    def _with(self, node: ast.With, last: bool) -> None:
        items = [self.lifter.visit(item.context_expr) for item in node.items]
        if not all(item.known for item in items):
            self._whole(node)
            return
        with ExitStack() as stack, errors_in(self.lifter.filename):
            for item, part in zip(node.items, items, strict=True):
                entered = stack.enter_context(part.value)
                if isinstance(item.optional_vars, ast.Name):
                    self.lifter.scope[item.optional_vars.id] = entered
            outside, self.body = self.body, []
            self.lift(node.body, last)
            inside, self.body = self.body, outside
        kept = [p for p in items if not isinstance(p.value, NEUTRAL)]
        if inside and kept:
            if last and self.result is not None:
                inside.append(self._result_kept(node))
            contexts = [ast.withitem(p.build() if p.build else self.lifter.use(p)) for p in kept]
            inside = [ast.copy_location(ast.With(contexts, inside), node)]
        self.body += inside

    def _result_kept(self, node: ast.stmt) -> ast.stmt:
        """The assignment by which a result computed within a statement outlives it."""
        assert self.result is not None
        kept = ast.copy_location(assignment(RETURNED, self.result), node)
        self._has_computed(ast.copy_location(load(RETURNED), node), is_doubtful=self.is_doubtful)
        return kept

    def _whole(self, node: ast.stmt) -> None:
        """A loop or a branch over tensors belongs to the program as it stands."""
        changes = map(changed_by, ast.walk(node))
        changed = [n for n in changes if n is not None and self.variables.is_changeable(n)]
        for name in sorted(names_in(node) - self.lifter.computed):
            if name in changed:
                self.variables.bring(name, node)
            elif name in self.lifter.scope:
                part = self.lifter.visit(ast.copy_location(ast.Name(name, ast.Load()), node))
                if not is_name(code := self.lifter.use(part), name):
                    self._keep(assignment(name, code), node)
        self._keep(node, node)
        counters = {n for f in ast.walk(node) if isinstance(f, ast.For) for n in bound_by(f.target)}
        stored = [n for n in ast.walk(node) if is_stored(n)]
        self.variables.add({*(n.id for n in stored), *changed})
        if found := [n for n in (*stored, *_changes_in(node, changed)) if n.id not in counters]:
            found.sort(key=lambda n: (n.lineno, n.col_offset))
            at_node = [ast.copy_location(load(n.id), node) for n in found]
            self._has_computed(*at_node, is_doubtful=True)

    def _bring_changed(self, value: ast.expr) -> None:
        """What a call of its method may change becomes a variable of the program."""
        if not self.begun and not self.variables.computes(value):
            return
        self._check_modules(value)
        name = changed_by(value)
        if name is not None and self.variables.is_changeable(name):
            self.variables.bring(name, value)

    def _bring_arguments(self, value: ast.expr) -> None:
        """What a function of the script may change of its arguments becomes the program's."""
        for call in ast.walk(value):
            if self.functions.may_change(call) and (self.begun or self.variables.computes(call)):
                for name in sorted(names_in(call)):
                    if self.variables.is_changeable(name):
                        self.variables.bring(name, call)

    def _check_modules(self, value: ast.expr) -> None:
        """ImportFailure if what the program has used may be changed by a method of a module."""
        self._bring_arguments(value)
        for call in ast.walk(value):
            match call:
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
                    self.begun and name not in READS
                ):
                    of = self._evaluated_name(owner)
                    if isinstance(of, torch.nn.Module | torch.nn.Parameter):
                        if not self.variables.computes(call):
                            self._refuse_late(call)

    def _refuse_late(self, node: ast.stmt | ast.expr) -> None:
        """ImportFailure if the program has begun."""
        if self.begun:
            self.variables.refuse(LATE, node)

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

    def _inline(self, call: ScriptCall, last: bool, returned: str | None = None) -> None:
        """Divides the statements of a function; its result ends the program or gets a name."""
        outer = self.lifter.scope
        self.calls += 1
        body, given = call.statements({*outer, *self.lifter.assigned}, self.calls)
        if returned is not None and isinstance(end := body[-1], ast.Return) and end.value:
            body[-1] = ast.copy_location(assignment(returned, end.value), end)
        self.lifter.scope = {**outer, **given}
        self.lift(body, last)
        new = self.lifter.scope
        self.lifter.scope = outer
        outer.update({n: new[n] for n in (*call.shared, returned) if n in new})

    def _prepares(self, value: ast.expr, last: bool) -> bool:
        """True if a call sets tensors to begin with, or changes a module."""
        if not isinstance(value, ast.Call) or names_in(value) & self.lifter.computed:
            return False
        match value.func:
            case ast.Attribute(value=owner, attr=name):
                of = self._evaluated_name(owner)
                if of is torch.nn.init or name in FILLS:
                    return True
                if last or not self.variables.computes(value):
                    return not last
                return isinstance(of, torch.nn.Module) and hasattr(torch.nn.Module, name)
        return False

    def _evaluated_name(self, node: ast.expr) -> Any:
        """What a dotted name stands for; None if it is no such name."""
        match node:
            case ast.Name(id=name):
                return self.lifter.scope.get(name)
            case ast.Attribute(value=owner, attr=attr):
                return getattr(self._evaluated_name(owner), attr, None)
        return None

    @contextmanager
    def _undone_if_constant(self) -> Iterator[list[bool]]:
        """What was noted of inputs and modules within is forgotten if `True` is appended."""
        lifter, body, begun = self.lifter, [*self.body], self.begun
        before = dict(lifter.inputs), dict(lifter.examples), dict(lifter.held), set(lifter.kept)
        computed, assigned = set(lifter.computed), set(lifter.assigned)
        outcome: list[bool] = []
        yield outcome
        if outcome[0]:
            lifter.inputs, lifter.examples, lifter.held, lifter.kept = before
            lifter.computed, lifter.assigned = computed, assigned
            self.body, self.begun = body, begun

    def _run(self, node: ast.stmt) -> bool:
        """
        Runs a statement now. False if it has computed something of random tensors: then it is for
        the program, and all is as if it had not run.
        """
        if not isinstance(node, DEFINITIONS | ast.Assign | ast.Expr | ast.AugAssign):
            if not self._is_apart(node):
                self._refuse_late(node)
        scope, random = self.lifter.scope, self.lifter.random
        names = names_in(node)
        if not names.isdisjoint(self.functions.functions):
            names |= self.seen
        before = self.lifter.memento(map(scope.get, names)) if isinstance(node, UNDONE) else None
        known, found, count = dict(scope), len(random.found), random.count
        scope.update(self.lifter.values)
        reads = len(self.lifter.runs.read_at)
        with self.lifter.runs.noting(node):
            tree = ast.fix_missing_locations(ast.Module([node], []))
            exec(compile(tree, self.lifter.filename, "exec"), scope)
        for name in self.lifter.values:
            del scope[name]
        self.lifter.sizes.ran(node)
        if isinstance(node, ast.FunctionDef):
            self.lifter.functions.ran(node, scope[node.name])
        if before is None or random.count == count:
            return True
        if not any(self.lifter.objects.has_computed(value, count) for value in scope.values()):
            return True
        if not before.restore():
            return True
        scope.clear()
        scope.update(known)
        random.forget(found, count)
        self.lifter.runs.computed_at.pop()
        del self.lifter.runs.read_at[reads:]
        return False

    def _is_apart(self, node: ast.stmt) -> bool:
        """True if a statement mentions nothing that the program uses, so that it changes none."""
        lifter, names = self.lifter, names_in(node)
        stored = {n.id for n in ast.walk(node) if is_stored(n)}
        if names & (lifter.computed | self.functions.functions.keys()) or stored & self.seen:
            return False
        mentioned = {name for statement in self.body for name in names_in(statement)}
        constants = [value for name, value in lifter.values.items() if name in mentioned]
        seen = [lifter.scope.get(name) for name in self.seen]
        used = [*seen, *constants, *lifter.held.values(), *lifter.examples.values()]
        changeable = (torch.Tensor, torch.nn.Module, *CONTAINERS)
        known = {id(v) for u in used for v in (u, *tree_leaves(u)) if isinstance(v, changeable)}
        found = [lifter.scope.get(name) for name in names]
        return not any(id(v) in known for f in found for v in (f, *tree_leaves(f)))

    def _define(self, definition: ast.stmt) -> None:
        """Makes a function the program's."""
        self.begun = True
        self.body.append(definition)

    def _keep(self, new: ast.stmt, node: ast.stmt) -> None:
        """Makes `new`, which stands for `node`, the program's next statement."""
        self.begun = True
        self.body.append(ast.copy_location(new, node))


def _changes_in(node: ast.AST, names: Collection[str]) -> Iterator[ast.Name]:
    """The places where a piece of text changes the values of such variables."""
    for inner in ast.walk(node):
        name = changed_by(inner)
        if name is not None and name in names and isinstance(inner, ast.expr | ast.stmt):
            yield ast.copy_location(ast.Name(name, ast.Load()), inner)
