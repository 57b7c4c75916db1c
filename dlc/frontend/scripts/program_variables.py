"""The variables of a script that are the program's: what it computes, and what it may change."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

import torch

from dlc.frontend.scripts.lift import Lifter
from dlc.frontend.scripts.parts import assignment, load, names_in, place_at
from dlc.frontend.scripts.program_values import has_tensor
from dlc.frontend.scripts.script_state import StateChanged
from dlc.frontend.scripts.variables import is_name, root_of
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.constants import containers_in, copied
from dlc.frontend.state.hidden_state import BUFFERS, is_iterator
from dlc.frontend.state.insides import CONTAINERS, is_object, memory_of
from dlc.frontend.state.shared import all_in, overlap

LATE = "what the program before it may have used; put it before the first computation"

NAMED = "a variable by its name, which the program does not see; assign it in a statement"


class ProgramVariables:
    """Tells them from the script's own, and makes what was there a variable of the program."""

    def __init__(
        self,
        lifter: Lifter,
        keep: Callable[[ast.stmt, ast.stmt], None],
        seen: Collection[str],
    ) -> None:
        """
        `keep` makes a statement, which stands for another one, the program's next; functions of
        the script look at the variables in `seen`.
        """
        self.lifter = lifter
        self.keep = keep
        self.seen = seen

    def add(self, names: set[str]) -> None:
        self.lifter.computed |= names
        self.lifter.assigned |= names

    def computes(self, node: ast.AST) -> bool:
        """True if a piece of text mentions an input or what the program computed."""
        scope, names = self.lifter.scope, names_in(node)
        if names & self.lifter.computed:
            return True
        return any(self.lifter.is_data(scope.get(n)) for n in names)

    def is_changeable(self, name: str | None) -> bool:
        value = self.lifter.scope.get(name) if name is not None else None
        kinds = (torch.Tensor, *CONTAINERS, *BUFFERS)
        return isinstance(value, kinds) or is_iterator(value) or is_object(value)

    def bring(self, name: str, node: ast.stmt | ast.expr, *, inside: bool = False) -> None:
        """
        Makes a value that was there a variable of the program, which may change it, or what is
        `inside` of it: an input itself, of others a copy. Its other names go with it; ImportFailure
        where it shares memory with something else.
        """
        if name in self.lifter.computed:
            return
        value, objects = self.lifter.scope[name], self.lifter.objects
        holds = inside and isinstance(value, CONTAINERS) and has_tensor(value)
        if holds or isinstance(value, BUFFERS) or is_object(value) or objects.is_own(value):
            objects.bring(value, node)
            return
        if name in self.seen:
            self.refuse(
                f"{name}, at which a function of the script looks; give it {name} as an argument",
                node,
                name,
            )
        part = self.lifter.visit(ast.copy_location(load(name), node))
        code = self.lifter.use(part)
        names = list(self._other_names(name, part.value, node))
        if isinstance(part.value, torch.Tensor) and not self.lifter.is_input(part.value):
            code = ast.Call(ast.Attribute(code, "clone", ast.Load()), [], [])
        elif isinstance(part.value, CONTAINERS):
            code = ast.Call(self.lifter.constant(copied, code), [code], [])
        if not is_name(code, name):
            self._keep(assignment(name, code), node)
        self.add({name})
        for other in names:
            self._keep(assignment(other, load(name)), node)
        self.add({*names})

    def target(self, node: ast.expr) -> ast.expr:
        """Where the program stores a value."""
        match node:
            case ast.Name(id=name):
                self.add({name})
            case ast.Tuple(elts) | ast.List(elts):
                new = type(node)([self.target(e) for e in elts], ast.Store())
                return ast.copy_location(new, node)
            case ast.Starred(value=value):
                return ast.copy_location(ast.Starred(self.target(value), ast.Store()), node)
            case ast.Subscript(value=ast.Call(func=ast.Name(id="globals" | "locals" | "vars"))):
                self.refuse(NAMED, node)
            case ast.Subscript(value=value, slice=index):
                self._bring_root(node)
                base = self.lifter.use(self.lifter.visit(value))
                at = self.lifter.use(self.lifter.visit(index))
                return ast.copy_location(ast.Subscript(base, at, ast.Store()), node)
            case ast.Attribute(value=value, attr=attr):
                if isinstance(self.lifter.scope.get(root_of(node) or ""), torch.nn.Parameter):
                    self.refuse(LATE, node)  # such as its gradient, which an optimizer takes
                self._bring_root(node)
                base = self.lifter.use(self.lifter.visit(value))
                return ast.copy_location(ast.Attribute(base, attr, ast.Store()), node)
        return node

    def _bring_root(self, target: ast.expr) -> None:
        name = root_of(target)
        if self.is_changeable(name):
            assert name is not None
            self.bring(name, target)
        elif name in self.lifter.scope and name not in self.lifter.computed:
            self.refuse(LATE, target, name)

    def is_of_tensor(self, target: ast.expr) -> bool:
        """True if a target is an element of an input or of what the program computed."""
        inner = target
        while isinstance(inner, ast.Subscript | ast.Attribute):
            inner = inner.value
        return inner is not target and self.computes(inner)

    def _keep(self, new: ast.stmt, node: ast.stmt | ast.expr) -> None:
        ast.copy_location(new, node)
        self.keep(new, new)

    def _other_names(self, name: str, value: Any, node: ast.stmt | ast.expr) -> Iterator[str]:
        """The script's other variables for a value."""
        for other, there in self.lifter.scope.items():
            if other == name or other in self.lifter.computed:
                continue
            if there is value:
                yield other
            elif self._is_shared(value, there):
                self.refuse(f"{name}, which shares memory with {other}; make {name} a copy", node)

    def _is_shared(self, value: Any, there: Any) -> bool:
        """True if a change of a value is one of another value, of which the program has its own."""
        if isinstance(value, CONTAINERS):
            own = {id(value), *map(id, containers_in(value))}
            return any(id(inner) in own for inner, _ in all_in(there))
        if self.lifter.is_input(value):  # the program finds it in objects and functions
            return not memory_of(value).isdisjoint(memory_of(there))
        return any(overlap(value, inner) for inner, _ in all_in(there))

    def refuse(self, what: str, node: ast.stmt | ast.expr, name: str | None = None) -> NoReturn:
        """
        ImportFailure for a statement that changes such a thing; StateChanged if it would do that
        `name`, a variable of the script, was the program's from where that begins.
        """
        place = place_at(self.lifter.filename, node)
        sentence = f"a statement changes {what}"
        if name is None:
            raise ImportFailure(sentence, place)
        raise StateChanged(((), f".{name}"), sentence, place)
