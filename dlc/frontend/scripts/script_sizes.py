"""Sizes of a script's inputs that may change, and the variables that are computed of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import torch

from dlc.frontend.scripts.parts import Part, names_in, place_at
from dlc.frontend.scripts.variables import bound_by, changed_by, root_of
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.code_names import names_in_code

OF_SIZES = ("shape", "nbytes")
"""Attributes of tensors that sizes are read of."""


@dataclass
class ScriptSizes:
    """
    What a script's text reads of the sizes of its inputs is known when it runs; within the program
    it is read anew, since it may be other numbers then.
    """

    filename: str
    tree: ast.Module
    marked: Mapping[str, Collection[int]]
    """The dimensions that may change, by the name of the input."""
    builds: dict[str, Callable[[], ast.expr] | None] = field(default_factory=dict)
    """The variables of such sizes, and the code that computes each; None if the text alone did."""
    _shapes: dict[int, tuple[Any, Collection[int]]] = field(default_factory=dict)
    """The shapes that were read, by identity, and which of their dimensions may change."""

    def note(self, node: ast.expr, part: Part, parts: Sequence[Part], owner: str | None) -> None:
        """
        Notes that `part`, which `node` computes of `parts`, may be of such sizes. An input with
        attributes is called `owner`; a view of one has no name.
        """
        if not self.marked:
            return
        sized = any(p.sized for p in parts)
        match node:
            case ast.Attribute(attr=attr) if attr in OF_SIZES:
                if dims := self._dims(owner):
                    sized = True
                    self._shapes[id(part.value)] = part.value, dims
            case ast.Subscript() if id(part.base) in self._shapes:
                shape, dims = self._shapes[id(part.base)]
                index = parts[-1].value
                sized = not isinstance(index, int) or index % len(shape) in dims
            case ast.Call(func=called) if sized:
                self._called(called, parts[0].value)
        part.sized = sized and not part.fresh

    def _called(self, node: ast.expr, callee: Any) -> None:
        """Notes what a function that is given such sizes may keep them in."""
        if isinstance(callee, FunctionType) and callee.__code__.co_filename == self.filename:
            shared = (n for n in ast.walk(self.tree) if isinstance(n, ast.Global))
            self.builds |= {name: None for declared in shared for name in declared.names}
        owner = getattr(callee, "__self__", None)
        if owner is not None and not isinstance(owner, ModuleType):
            if (name := root_of(node)) is not None:
                self.builds[name] = None

    def _dims(self, name: str | None) -> Collection[int]:
        if name is None:  # of a view, whose dimensions are any
            return {dim for dims in self.marked.values() for dim in dims}
        return self.marked.get(name, ())

    def code(self, part: Part) -> ast.expr:
        """What computes a number of such sizes within the program."""
        of_numbers = not isinstance(part.value, torch.nn.Module) and not callable(part.value)
        if part.build is None or not of_numbers:
            self._refuse(part.code)
        return part.build()

    def assigned(self, targets: Sequence[ast.expr], part: Part) -> None:
        """Notes what variables are given."""
        for name in {name for target in targets for name in bound_by(target)}:
            self.builds.pop(name, None)
        if not part.sized:
            return
        for target in targets:
            match target:
                case ast.Name(id=name):
                    self.builds[name] = part.build
                case ast.Tuple(elts) if id(part.value) in self._shapes:
                    _, dims = self._shapes[id(part.value)]
                    named = [(d, e.id) for d, e in enumerate(elts) if isinstance(e, ast.Name)]
                    self.builds |= {n: partial(_item, part, d) for d, n in named if d in dims}
                case _:
                    names = {root_of(target), *bound_by(target)}
                    self.builds |= {name: None for name in names if name is not None}

    def ran(self, node: ast.stmt) -> None:
        """Notes that a statement has run, which may have computed variables of such sizes."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and self.marked:
            if any(isinstance(n, ast.Attribute) and n.attr in OF_SIZES for n in _at_once(node)):
                self.builds[node.name] = None
        if names_in(node).isdisjoint(self.builds):
            return
        changed = bound_by(node)
        changed |= {name for n in ast.walk(node) if (name := changed_by(n)) is not None}
        self.builds |= dict.fromkeys(changed)

    def check_text(self, node: ast.AST, at: ast.expr) -> None:
        """ImportFailure if a piece of text that is the program's as it stands reads such sizes."""
        if not names_in(node).isdisjoint(self.builds):
            self._refuse(at)

    def check_function(self, function: Any, at: ast.expr) -> None:
        """ImportFailure if a function, or one of the script that it names, reads such sizes."""
        pending, seen = [function], set[int]()
        while self.builds and pending:
            found = pending.pop()
            if not isinstance(found, FunctionType) or id(found) in seen:
                continue
            seen.add(id(found))
            if found.__code__.co_filename == self.filename:
                names = names_in_code(found.__code__)[0]
                if not self.builds.keys().isdisjoint((*names, *found.__code__.co_freevars)):
                    self._refuse(at)
                pending += [found.__globals__.get(name) for name in names]

    def _refuse(self, at: ast.expr) -> NoReturn:
        raise ImportFailure(
            "what is used here was computed before the program of a size that may change "
            "(--dynamic): it would keep the number of that size; compute it of x.shape where it is "
            "used, or in a function that is given x",
            place_at(self.filename, at),
        )


def _at_once(definition: ast.AST) -> Iterator[ast.AST]:
    """What of a definition runs with it: defaults and decorators, and the body of a class."""
    for name, inner in ast.iter_fields(definition):
        if isinstance(definition, ast.FunctionDef) and name == "body":
            continue
        for node in inner if isinstance(inner, list) else [inner]:
            if isinstance(node, ast.AST):
                yield node
                yield from _at_once(node)


def _item(part: Part, number: int) -> ast.expr:
    """An item of what such code computes."""
    assert part.build is not None
    return ast.copy_location(
        ast.Subscript(part.build(), ast.Constant(number), ast.Load()), part.code
    )
