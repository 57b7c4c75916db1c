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
program's from its first statement on (`dlc.frontend.scripts.script_live`). What a function that
returns from within a loop, or is called through a decorator, or a method computes of tensors that
it makes is an input, and a note says so.

Of the walkers over a user's text this one runs pieces of it, with `Lifter` for expressions. Two
others look: `dlc.frontend.scripts.text_effects` at what functions may change, by their text alone,
before anything has run, and `dlc.frontend.scripts.left_out` at what would go on in an expression,
by the values that its names have by then. They stay three, since what one of them asks must not run
what another runs; what they share, what a piece binds, reads and changes, is in
`dlc.frontend.scripts.variables`.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Sequence

from dlc.frontend.scripts.assignments import Assignments
from dlc.frontend.scripts.compound_statements import CompoundStatements
from dlc.frontend.scripts.left_out import evaluated_if_true
from dlc.frontend.scripts.module_state import state_of
from dlc.frontend.scripts.named_expressions import named_expressions
from dlc.frontend.scripts.parts import ended, names_in, place_at
from dlc.frontend.scripts.program_values import has_tensor
from dlc.frontend.scripts.script_now import DEFINITIONS
from dlc.frontend.scripts.script_runs import KEPT_NUMBERS
from dlc.frontend.scripts.variables import loaded, one_by_one, tuple_of
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.dotted import ends_script


class Statements(Assignments, CompoundStatements):
    """Divides statements; `lifter` takes their expressions apart."""

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
            self.changes.check_assigned(statement)

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
