"""The variables of a script's text: which it binds, reads and changes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection
from typing import TypeGuard

from dlc.frontend.parts import names_in

CHANGING = frozenset(
    "append extend insert pop remove clear sort reverse update setdefault popitem add".split()
)
"""Methods of containers that change them."""
VIEWING = frozenset(
    "t transpose permute swapaxes swapdims movedim moveaxis view view_as reshape flatten ravel "
    "unflatten expand expand_as squeeze unsqueeze narrow select diagonal as_strided unfold detach "
    "chunk split unbind tensor_split contiguous".split()
)
"""Methods that may give a view of their tensor, which a change of the view changes."""


def root_of(target: ast.AST) -> str | None:
    """The variable that an element, attribute or view by a method, however deep, belongs to."""
    while True:
        match target:
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                target = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in VIEWING:
                target = inner
            case ast.Name(id=name):
                return name
            case _:
                return None


def changed_at(node: ast.AST) -> ast.expr | None:
    """The item or attribute that a piece of text binds or deletes, or what its method changes."""
    match node:
        case (
            ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del())
        ):
            return node
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
            name.endswith("_") or name in CHANGING
        ):
            return owner
    return None


def changed_by(node: ast.AST) -> str | None:
    """The variable whose value a piece of text may change."""
    at = node.target if isinstance(node, ast.AugAssign) else changed_at(node)
    return None if at is None else root_of(at)


def free_in(function: ast.AST) -> set[str]:
    """The variables that a function reads and does not bind."""
    bound = {n.id for n in ast.walk(function) if is_stored(n)}
    bound |= {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    return names_in(function) - bound


def bound_by(target: ast.expr) -> set[str]:
    """The variables that an assignment to a target binds."""
    return {n.id for n in ast.walk(target) if is_stored(n)}


def is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    """True where a variable is bound."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def one_by_one(node: ast.Assign, seen: Collection[str]) -> list[ast.stmt]:
    """
    The assignments that `x, y = a, b` stands for, where that makes no difference; else none.
    Functions, and whatever else there is, may look at the variables in `seen`.
    """
    match node:
        case ast.Assign(targets=[ast.Tuple(targets)], value=ast.Tuple(values)):
            starred = any(isinstance(e, ast.Starred) for e in (*targets, *values))
            bound = {name for target in targets for name in bound_by(target)}
            plain = all(isinstance(e, ast.Name | ast.Tuple) for e in targets)
            if plain and not starred and len(targets) == len(values):
                if bound.isdisjoint(names_in(node.value) | {*seen}):
                    both = zip(targets, values, strict=True)
                    return [ast.copy_location(ast.Assign([t], v), node) for t, v in both]
    return []


def loaded(target: ast.expr) -> ast.expr:
    """The value of a target after it was assigned to."""
    copied = copy.deepcopy(target)
    for node in ast.walk(copied):
        if isinstance(node, ast.Name | ast.Tuple | ast.List | ast.Starred):
            node.ctx = ast.Load()
    if isinstance(copied, ast.Subscript | ast.Attribute):
        return loaded(copied.value)
    return copied


def tuple_of(parts: list[ast.expr], at: ast.expr) -> ast.expr:
    """A tuple of parts, at the place of `at`."""
    return ast.copy_location(ast.Tuple(parts, ast.Load()), at)


def is_name(node: ast.expr, name: str) -> bool:
    """True for the variable of that name."""
    return isinstance(node, ast.Name) and node.id == name
