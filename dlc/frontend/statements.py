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
a copy of it. State that the program changes in another way, such as what functions count, is the
program's from its first statement on (`dlc.frontend.script_live`). What a function that returns
from within a loop, or is called through a decorator, or a method computes of tensors that it makes
is an input, and a note says so.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Hashable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from dlc.frontend.constants import copied
from dlc.frontend.dotted import ends_script
from dlc.frontend.insides import CONTAINERS
from dlc.frontend.left_out import acting, evaluated_if_true
from dlc.frontend.lift import Lifter
from dlc.frontend.module_state import state_of
from dlc.frontend.named_expressions import named_expressions
from dlc.frontend.parts import (
    assignment,
    calls_of_context,
    ended,
    errors_in,
    load,
    names_in,
    place_at,
    with_one_item,
)
from dlc.frontend.program_text import ProgramText
from dlc.frontend.program_values import has_tensor
from dlc.frontend.program_variables import ProgramVariables
from dlc.frontend.script_calls import NEUTRAL, ScriptCall, ScriptCalls
from dlc.frontend.script_changes import Changes
from dlc.frontend.script_functions import ScriptFunctions
from dlc.frontend.script_now import DEFINITIONS, RunsNow
from dlc.frontend.script_objects import UNNAMED, ScriptObjects
from dlc.frontend.script_runs import KEPT_NUMBERS
from dlc.frontend.script_settings import ScriptSettings
from dlc.frontend.script_shared import SharedContainers
from dlc.frontend.shown_values import Outputs
from dlc.frontend.shown_within import ShownWithin
from dlc.frontend.single_exit import FUNCTIONS
from dlc.frontend.source import ImportFailure
from dlc.frontend.variables import (
    bound_by,
    changed_in,
    free_in,
    is_name,
    is_stored,
    loaded,
    one_by_one,
    root_of,
    tuple_of,
)

RETURNED = "_returned"


class Statements:
    """Divides statements; `lifter` takes their expressions apart."""

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
        found = (n for n in ast.walk(lifter.tree) if isinstance(n, FUNCTIONS))
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

    def lift(self, statements: Sequence[ast.stmt], ends: bool = True) -> None:
        """Divides statements; `ends` says that the last of them ends the program."""
        for statement in statements:
            if self.ended:
                return
            self.lifter.live.at(statement, self.lifter)
            for named in named_expressions(statement):
                self._statement(named, False)
            length = len(self.program.body)
            held = self._held_state() if self.program.begun else {}
            if self.variables.computes(statement):
                self.shared.find(statement)
            with self.settings.of(statement), self.changes.none_of_used(statement):
                self._statement(statement, ends and statement is statements[-1])
            if self.program.begun:
                self.lifter.live.begins(statement)
            now = self._held_state() if held else {}
            changed = {key for key, before in held.items() if now.get(key, before) != before}
            if changed:
                names = [n for n, v in self.lifter.scope.items() if id(v) in changed]
                self.changes.refuse_late(statement, names or None)
            if len(self.program.body) > length and not self._redirected:
                self.outputs.check_uncaught(statement)
            self.changes.check_hooks(length)

    def _held_state(self) -> dict[int, Hashable]:
        """What the program's modules and tensors hold."""
        return state_of([*self.lifter.held.values(), *self.lifter.inputs.values()])

    def _statement(self, node: ast.stmt, last: bool) -> None:
        match node:
            case _ if self.changes.unhooks(node):
                pass
            case ast.Expr(value=ast.NamedExpr(target=target, value=value)):
                self._assign(node, [target], value)
            case ast.Expr():
                self._expression(node, last)
            case ast.Assign() if single := one_by_one(node, self._readable):
                count = len(self.program.results)
                for one in single:
                    self._statement(one, False)
                if len(self.program.results) > count:
                    self.program.has_computed(loaded(node.targets[0]))
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
                self._leave_out(evaluated_if_true(test))
            case ast.Return(value=value):
                if last and value is not None:
                    self._end(value, returned=True)
            case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit"), args=args)):
                self._exit(node, args)
            case ast.Raise(exc=ast.Name(id="SystemExit")):
                self._exit(node, [])
            case _ if not isinstance(node, DEFINITIONS) and (
                self.variables.computes(node) or self.program.comes_before(node)
            ):
                self._whole(node)
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                self._define(self.within.visit(node), name)
            case _:
                if not self.now.run(node):
                    self._whole(node)

    def _define(self, node: ast.stmt, name: str) -> None:
        """A function or a class; one that replaces what the program may have used is its own."""
        if self.lifter.live.assigns({name}):
            self.program.keep(node, node)
            self.variables.add({name})
            return
        if name in self.seen and name in self.lifter.scope:
            self.changes.refuse_late(node, [name])
        self.now.run(node)

    def _expression(self, node: ast.Expr, last: bool) -> None:
        value, caught = node.value, False
        if isinstance(value, ast.Call) and ends_script(value.func, self.lifter.scope):
            self._exit(node, value.args)
        elif (called := self._called(value)) is not None:
            self._inline(called, last)
        elif isinstance(value, ast.Constant) and not last:
            pass  # a docstring
        elif self.changes.switches(value):
            self.program.keep(ast.Expr(self.lifter.within_program(value)), node)
        elif self.changes.prepares(value, last):
            self.changes.refuse_late(node)
            before = self.lifter.random.count
            self.now.run(node)
            if self.variables.computes(value) and self.lifter.random.count > before:
                raise ImportFailure(KEPT_NUMBERS, place_at(self.lifter.filename, node))
        elif (given := self.outputs.given(value)) is not None and not (
            caught := self.outputs.is_caught(value)
        ):
            ends = last and self.outputs.is_result(value)
            if ends and (shown := self.outputs.shown(given)):
                self.outputs.note(value)
                self._end(shown[0] if len(shown) == 1 else tuple_of(shown, value))
                self.program.is_doubtful = True
            elif self.variables.computes(value):
                self.outputs.note(value)
                self._leave_out(given)
            elif self.program.comes_before(node):
                self.program.keep(node, node)
            else:
                self.now.run(node)
        elif last and not caught:
            self.changes.bring(value)
            self._end(value)
        else:
            self.changes.bring(value)
            part = self.lifter.visit(value)
            if part.now is not None:
                self.now.run(ast.copy_location(ast.Expr(part.now), node))
            if not part.known and part.now is None:
                self.program.keep(ast.Expr(part.code), node)

    def _leave_out(self, parts: Iterable[ast.expr]) -> None:
        """Leaves printing or an assertion out of the program, but not what goes on in its parts."""
        for acts in self.outputs.acting(parts):
            self.changes.bring(acts)
            # In a tuple, so that a call does not stand for the statements of its function.
            whole = ast.copy_location(ast.Expr(tuple_of([acts], acts)), acts)
            self._statement(whole, False)

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
        is_call = isinstance(value, ast.Call) and not self.variables.computes(value)
        if not part.known:
            is_doubtful = is_call and self.program.result is not None
            self.program.has_computed(part.code, is_doubtful=is_doubtful)
        elif self.program.result is not None and is_call and not has_tensor(part.value):
            pass  # such as that of objects which gc.collect() found
        elif self.program.result is not None and returned and not has_tensor(part.value):
            pass
        elif self.program.result is None or part.value is not None:
            if self.functions.unseen is not None:
                raise self.functions.unseen
            self.lifter.refuse(value, part)

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
        """A context of the script that changes something: its methods are called as Python does."""
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
        counters = {n for f in ast.walk(node) if isinstance(f, ast.For) for n in bound_by(f.target)}
        stored = [n for n in ast.walk(node) if is_stored(n)]
        self.variables.add({*(n.id for n in stored), *changed})
        found = [n for n in stored if n.id not in counters]
        found += [ast.copy_location(load(name), at) for name, at, _ in places]
        if found:
            found.sort(key=lambda n: (n.lineno, n.col_offset))
            at_node = [ast.copy_location(load(n.id), node) for n in found]
            self.program.has_computed(*at_node, is_doubtful=True)

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
        self.lifter.inner |= {n: value for n, value in new.items() if n not in outer}
        outer.update({n: new[n] for n in (*call.shared, returned) if n in new})
