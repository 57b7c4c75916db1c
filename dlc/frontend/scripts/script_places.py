"""Where a text may do what is said of it in a sentence that names a variable or an attribute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from dlc.frontend.scripts.parts import place_at
from dlc.frontend.scripts.script_objects import MAKING
from dlc.frontend.scripts.variables import changed_at, is_stored
from dlc.frontend.source import Place

WITHIN = (ast.FunctionDef, ast.Lambda, ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp,
          ast.GeneratorExp)  # fmt: skip
"""What is in these may run when the program does."""


def place_of_sentence(sentence: str, filename: str, tree: ast.Module) -> Place:
    """Where what a sentence names in quotes is changed or read; else where the text ends."""
    for name in re.findall(r"'([A-Za-z_][\w.]*)'", sentence):
        if (place := place_of_change(name, filename, tree)) is not None:
            return place
    return place_at(filename, tree.body[-1])


def place_of_change(path: str, filename: str, tree: ast.AST) -> Place | None:
    """The first place in a text that may have changed what is found by such a path."""
    names = re.findall(r"[^\W\d]\w*", re.sub(r"\[.*?\]", "", path)) or [path]
    for name in reversed(names):
        for node, outer in _with_functions(tree, frozenset()):
            at = _changed_at(node, outer)
            if at is not None and _name_of(at) == name:
                return place_at(filename, at)
    name, root = names[-1], names[0]
    for wanted, among in ((name, _within(tree)), (root, _within(tree)), (root, _placed(tree))):
        for node in among:
            if isinstance(node, ast.Name | ast.Attribute) and _name_of(node) == wanted:
                return place_at(filename, node)
    return None


def place_of_draw(
    module: str, variables: Mapping[str, Any], filename: str, tree: ast.AST
) -> Place | None:
    """The first place in what may run again where a function of a module is called."""
    for node in _within(tree):
        if isinstance(node, ast.Call):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            found = variables.get(root.id) if isinstance(root, ast.Name) else None
            drawn = getattr(found, "__self__", found)
            of = getattr(found, "__module__", None) or type(drawn).__module__
            name = getattr(found, "__name__", "") if isinstance(found, ModuleType) else of
            if name.partition(".")[0] == module.partition(".")[0]:
                return place_at(filename, node)
    return None


def place_of_name(tree: ast.AST, filename: str, *names: str) -> Place | None:
    """The first place of such a name, in what may run again if there is one."""
    found = [n for among in (_within(tree), _placed(tree)) for n in among if _name_of(n) in names]
    return place_at(filename, found[0]) if found else None


def _within(tree: ast.AST) -> Iterator[ast.expr]:
    """What is in loops and functions of a text, in no order but that of its lines."""
    yield from _placed(*(node for node in ast.walk(tree) if isinstance(node, WITHIN)))


def _placed(*pieces: ast.AST) -> Iterator[ast.expr]:
    """The expressions in pieces of a text, in the order of their places."""
    found = {n for piece in pieces for n in ast.walk(piece) if isinstance(n, ast.expr)}
    yield from sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _with_functions(
    node: ast.AST, outer: frozenset[str]
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """What is in a text but for what makes objects, and the variables of outer functions there."""
    yield node, outer
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            if child.name in MAKING:
                continue
            declared = (n for n in child.body if isinstance(n, ast.Global | ast.Nonlocal))
            outer = frozenset(name for n in declared for name in n.names)
        yield from _with_functions(child, outer)


def _changed_at(node: ast.AST, outer: frozenset[str]) -> ast.expr | None:
    """What a piece of text changes."""
    if is_stored(node):
        return node if node.id in outer else None
    return changed_at(node)


def _name_of(node: ast.expr) -> str | None:
    """The last name of an expression that leads to a value: `t` of `a.t[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
