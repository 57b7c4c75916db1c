"""What a script prints of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

DESCRIPTIONS = frozenset("shape dtype device ndim size dim numel item tolist numpy format".split())
"""What is printed of a tensor that is no tensor."""


def is_description(node: ast.expr) -> bool:
    """True for text, and what a tensor is asked for beside its elements."""
    return isinstance(node, ast.JoinedStr) or _owner(node) is not None


def described(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that a printed one describes: `f(x)` in `f(x).shape` and in `f"{f(x)}"`."""
    if isinstance(node, ast.JoinedStr):
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                yield from described(value.value)
    elif (owner := _owner(node)) is not None:
        yield from described(owner)
    else:
        yield node


def _owner(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Attribute(value=owner, attr=name):
            return owner if name in DESCRIPTIONS else None
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return owner if name in DESCRIPTIONS else None
    return None
