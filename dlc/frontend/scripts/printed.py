"""What a script prints of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from dlc.frontend.scripts.parts import names_in

DESCRIPTIONS = frozenset("shape dtype device ndim size dim numel item tolist numpy format".split())
"""What is printed of a tensor that is no tensor."""


NUMBERS = frozenset("float int bool str repr len format".split())
"""Functions that give what is no tensor."""


def is_description(node: ast.expr) -> bool:
    """True for text, and what a tensor is asked for beside its elements."""
    return _told(node) is not None or _owner(node) is not None


def looks(node: ast.expr, looked: Collection[str], computed: Collection[str]) -> bool:
    """
    True for what is for a user's eyes: numbers, lists and text of tensors, and what is made of such
    alone; `looked` are the variables that have some, among those that are `computed`.
    """
    match node:
        case ast.Name(id=name):
            return name in looked
        case ast.Call(func=ast.Name(id=name)) if name in NUMBERS:
            return True
    if is_description(node):
        return True
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return False
    parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
    parts += [k.value for k in ast.iter_child_nodes(node) if isinstance(k, ast.keyword)]
    own = [p for p in parts if not names_in(p).isdisjoint(computed)]
    return bool(own) and all(looks(part, looked, computed) for part in own)


def described(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that a printed one describes: `f(x)` in `f(x).shape` and in `f"{f(x)}"`."""
    if (told := _told(node)) is not None:
        for value in told:
            yield from described(value)
    elif (owner := _owner(node)) is not None:
        yield from described(owner)
    else:
        yield node


def variables_told(node: ast.expr) -> Iterator[ast.Name]:
    """The variables whose elements a printed expression tells: `x`, `y` in `f"{x} {y.item()}"`."""
    match node:
        case ast.Name():
            yield node
        case (
            ast.Call(func=ast.Attribute(value=value, attr="item" | "tolist" | "numpy"), args=[])
            | ast.Call(func=ast.Name(id="float" | "int" | "str"), args=[value])
        ):
            yield from variables_told(value)
        case _:
            for value in _told(node) or ():
                yield from variables_told(value)


def _told(node: ast.expr) -> list[ast.expr] | None:
    """What goes into a text: `x`, `y` in `f"{x} {y}"`, `"%s %s" % (x, y)`, `"{} {}".format(…)`."""
    match node:
        case ast.JoinedStr(values=values):
            return [v.value for v in values if isinstance(v, ast.FormattedValue)]
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=right):
            return right.elts if isinstance(right, ast.Tuple) else [right]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format")):
            return [*node.args, *(keyword.value for keyword in node.keywords)]
    return None


def _owner(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Attribute(value=owner, attr=name):
            return owner if name in DESCRIPTIONS else None
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return owner if name in DESCRIPTIONS else None
    return None
