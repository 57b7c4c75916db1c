"""
Objects of a script that its program changes, or that hold its random tensors: they are variables of
the program, which makes them anew each time that it runs.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from types import FunctionType, ModuleType
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_leaves

from dlc.frontend.scripts.parts import assignment, attribute, load, place_at
from dlc.frontend.scripts.variables import changed_at, free_in
from dlc.frontend.source import ImportFailure
from dlc.frontend.state.hidden_state import BUFFERS, GENERATORS, is_iterator
from dlc.frontend.state.insides import (
    CONTAINERS,
    LEAVES,
    attributes_of,
    held_in,
    is_object,
    reached,
)
from dlc.frontend.state.random import RandomTensors
from dlc.frontend.state.shared import all_in, overlap

MAKING = ("__init__", "__post_init__", "__new__")
"""Methods that make objects."""
UNNAMED = "_object_"
"""What begins the names of objects that no variable of the script has."""
HIDDEN = re.compile(r"\(\d+\)")
"""What Python's text cannot get at."""
BY_ANY_NAME = frozenset(("setattr", "delattr", "vars", "__dict__", "__setattr__"))
"""Mentioned where attributes are changed whose names the text does not say."""


class Variables(Protocol):
    """What a lifter knows of a script's variables."""

    filename: str
    tree: ast.Module
    scope: dict[str, Any]
    random: RandomTensors
    examples: dict[str, Any]
    computed: set[str]
    assigned: set[str]

    def is_input(self, value: Any) -> bool: ...
    def input(self, value: Any, name: str | None) -> str: ...
    def name_of(self, value: object) -> str | None: ...
    def hold(self, value: Any, name: str | None) -> str: ...
    def constant(self, value: Any, node: ast.expr) -> ast.Name: ...


class Copies:
    """
    Copies of some objects, called with what is there in the places of `originals`, the tensors in
    them; what is in `left` they share.
    """

    def __init__(self, objects: tuple[Any, ...], originals: list[Any], left: list[Any]) -> None:
        self._objects, self._originals, self._left = objects, originals, left

    def __call__(self, *present: Any) -> tuple[Any, ...]:
        memo = {id(v): v for v in self._left}
        memo |= {id(v): now for v, now in zip(self._originals, present, strict=True)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of itertools
            return tuple(copy.deepcopy(o, memo) for o in self._objects)


class ScriptObjects:
    """Tells such objects from others, and makes them variables of the program."""

    def __init__(self, lifter: Variables, keep: Callable[[ast.stmt, ast.stmt], None]) -> None:
        """`keep` makes a statement, which stands for another one, the program's next."""
        self.lifter = lifter
        self.keep = keep
        tree = lifter.tree
        self.changed = set(_changed_attributes(tree))
        """The names of attributes that the text changes."""
        classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
        self.changing = {c.name for c in classes if any(_changed_attributes(c))}
        """The names of classes whose methods change attributes."""
        named = {getattr(n, "id", getattr(n, "attr", None)) for n in ast.walk(tree)}
        self.any_changes = not BY_ANY_NAME.isdisjoint(named)
        self.out_of_reach = set(_read_by_methods(tree))
        """The variables that methods look at, which are not the program's."""

    def is_own(self, value: Any) -> bool:
        """True if a value is, or leads to, an object or an iterator that is for the program."""
        found = reached(value).values()
        if any(is_iterator(v) or isinstance(v, GENERATORS) for v in found):
            return True  # they change when they are used
        return self.is_changing(value)

    def is_changing(self, value: Any) -> bool:
        """True for one that leads to an object whose attributes change, or that holds data."""
        found = [v for v in reached(value).values() if is_object(v)]
        return any(map(self._changes, found)) or any(map(self.holds_random, found))

    def _changes(self, value: Any) -> bool:
        """True if the text may change an object's attributes."""
        if self.any_changes or not self.changed.isdisjoint(attributes_of(value)):
            return True
        kinds = (kind for kind in type(value).__mro__ if kind.__module__ == "__main__")
        return any(kind.__name__ in self.changing for kind in kinds)

    def has_computed(self, value: Any, since: int) -> bool:
        """True if a value or what it holds is computed from random numbers `since` then."""
        tensors = [v for v in reached(value).values() if isinstance(v, torch.Tensor)]
        return self.lifter.random.computed(tensors, since)

    def holds_random(self, value: Any) -> bool:
        """True if there is an object in a value that holds random tensors."""
        found = reached(value).values()
        if not any(map(is_object, found)):
            return False
        return any(isinstance(v, torch.Tensor) and self.lifter.is_input(v) for v in found)

    def bring(self, value: Any, node: ast.stmt | ast.expr) -> None:
        """
        Makes a value a variable of the program, together with the script's variables that hold
        something of what is in it. ImportFailure where the program cannot have its own.
        """
        lifter = self.lifter
        names = self._sharing(value)
        if not any(id(value) in reached(lifter.scope[name]) for name in names):
            names.append(f"{UNNAMED}{len(lifter.assigned)}")
            lifter.scope[names[-1]] = value
        for name in names:
            if name in self.out_of_reach:
                what = f"{self._named(name)}, at which a method looks; give it as an argument"
                raise self._refusal(what, node)
        objects = tuple(lifter.scope[name] for name in names)
        originals: list[Any] = []
        buffers: list[Any] = []
        left: list[Any] = []
        present: list[ast.expr] = []
        for path, inner in _named(zip(names, objects, strict=True)):
            if isinstance(inner, ModuleType | torch.nn.Module | torch.nn.Parameter):
                left.append(inner)
                if not isinstance(inner, ModuleType):
                    lifter.hold(inner, path)
            elif isinstance(inner, torch.Tensor):
                originals.append(inner)
                present.append(self._present(inner, path))
            elif isinstance(inner, BUFFERS):
                buffers.append(inner)
        self._check_memory(names, [*originals, *buffers], node)
        copies = Copies(objects, originals, left)
        try:
            copies(*originals)
        except Exception as error:
            what = f"{self._named(names[0])}, which cannot be copied: {error}"
            if any(map(is_iterator, objects)):
                what += "; make a list of what it gives"
            raise self._refusal(what, node) from None
        at = ast.copy_location(load("_"), node)
        made = ast.Call(lifter.constant(copies, at), present, [])
        if len(names) == 1:
            one = ast.Subscript(made, ast.Constant(0), ast.Load())
            new = assignment(names[0], one)
        else:
            new = ast.Assign(
                [ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], made
            )
        ast.copy_location(new, node)
        self.keep(new, new)
        lifter.computed.update(names)
        lifter.assigned.update(names)

    def _present(self, tensor: torch.Tensor, path: str) -> ast.expr:
        """What a tensor in an object is in the program: an input, or a copy of a constant."""
        lifter = self.lifter
        if not lifter.is_input(tensor):
            held = attribute("_program", lifter.hold(tensor, path))
            return ast.Call(ast.Attribute(held, "clone", ast.Load()), [], [])
        for name, example in lifter.examples.items():
            leaves = tree_leaves(example)
            number = next((i for i, leaf in enumerate(leaves) if leaf is tensor), None)
            if example is not tensor and number is not None:
                of = ast.Call(
                    lifter.constant(tree_leaves, load(name)),
                    [load(lifter.input(example, name))],
                    [],
                )
                return ast.Subscript(of, ast.Constant(number), ast.Load())
        return load(lifter.input(tensor, lifter.name_of(tensor) or path))

    def _sharing(self, value: Any) -> list[str]:
        """The script's variables that hold something that is in a value or in one another."""
        held = {
            name: {key for key, v in reached(there).items() if _has_state(v, self.lifter)}
            for name, there in self.lifter.scope.items()
            if name not in self.lifter.computed and not name.startswith("__")
        }
        ids = {key for key, v in reached(value).items() if _has_state(v, self.lifter)}
        names: list[str] = []
        while more := [n for n in held if n not in names and not ids.isdisjoint(held[n])]:
            names += more
            ids = ids.union(*(held[n] for n in more))
        return names

    def _check_memory(
        self, names: list[str], tensors: list[Any], node: ast.stmt | ast.expr
    ) -> None:
        """ImportFailure where copies would not see what is written to each other's."""
        for one, other in combinations(tensors, 2):
            if overlap(one, other):
                what = "in which two tensors or arrays share memory; make one a copy"
                raise self._refusal(f"{self._named(names[0])}, {what}", node)
        copied = {id(t) for t in tensors}
        constants = [t for t in tensors if not self.lifter.is_input(t)]
        for other, there in self.lifter.scope.items():
            if other in self.lifter.computed:
                continue
            for inner, is_copied in all_in(there, in_copy=other in names):
                if is_copied and (id(inner) in copied):
                    continue
                if any(overlap(t, inner) for t in constants):
                    what = f"which shares memory with '{other}'; make that a copy"
                    raise self._refusal(f"{self._named(names[0])}, {what}", node)

    def _named(self, name: str) -> str:
        return described(name, self.lifter.scope)

    def _refusal(self, what: str, node: ast.stmt | ast.expr) -> ImportFailure:
        place = place_at(self.lifter.filename, node)
        return ImportFailure(f"the program changes {what}", place)


def described(path: str, variables: Mapping[str, Any]) -> str:
    """What is found in variables by a path, in the user's words."""
    root = re.split(r"\W", path, maxsplit=1)[0]
    if root.startswith(UNNAMED):
        return f"an object of type {type(variables[root]).__name__} that no variable has"
    return f"'{re.split(HIDDEN, path)[0]}'"


def _has_state(value: Any, lifter: Variables) -> bool:
    if isinstance(value, torch.Tensor):
        return not lifter.is_input(value) and not isinstance(value, torch.nn.Parameter)
    return (
        isinstance(value, (*CONTAINERS, *BUFFERS, *GENERATORS))
        or is_iterator(value)
        or is_object(value)
    )


def _named(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same of several, each once, with a name for it: `a_t` for `a.t`."""
    seen: set[int] = set()
    pending = deque(values)
    while pending:
        path, inner = pending.popleft()
        if id(inner) in seen or type(inner) in LEAVES:
            continue
        seen.add(id(inner))
        yield path, inner
        if not isinstance(inner, FunctionType | type | ModuleType):
            for key, item in held_in(inner):
                plain = "".join(c if c.isalnum() else "_" for c in key.strip(".[]'"))
                pending.append((f"{path}_{plain}" if plain else path, item))


def _changed_attributes(tree: ast.AST, maker: str | None = None) -> Iterator[str]:
    """
    The names of attributes, and of those on the way to them, that a text changes; not where a
    method that makes an object gives it its own.
    """
    for node in ast.iter_child_nodes(tree):
        if (target := changed_at(node)) is not None:
            yield from _attributes_to(target, maker)
        inner = maker
        if isinstance(node, ast.FunctionDef):
            args = node.args.args
            inner = args[0].arg if node.name in MAKING and args else None
        yield from _changed_attributes(node, inner)


def _attributes_to(target: ast.AST, maker: str | None) -> Iterator[str]:
    names: list[str] = []
    while isinstance(target, ast.Subscript | ast.Attribute):
        if isinstance(target, ast.Attribute):
            names.append(target.attr)
        target = target.value
    if not (isinstance(target, ast.Name) and target.id == maker):
        yield from names


def _read_by_methods(tree: ast.AST) -> Iterator[str]:
    """The variables that methods look at, and functions that assign variables outside of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield from free_in(inner)
        elif isinstance(node, ast.FunctionDef):
            if any(isinstance(n, ast.Global | ast.Nonlocal) for n in ast.walk(node)):
                yield from free_in(node)
