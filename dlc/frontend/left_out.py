"""What printing and assertions do that are left out of a program, beside what they look at."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from dlc.frontend.lift import Lifter

STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")


def acting(node: ast.AST, lifter: Lifter) -> Iterator[ast.expr]:
    """
    The calls in a piece of text in which something goes on or changes, such as `next(numbers)`, the
    outermost of them; a comprehension with such a call is one.
    """
    match node:
        case ast.Call() if _acts(node, lifter):
            yield node
        case ast.Lambda():
            pass
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            if any(True for child in ast.iter_child_nodes(node) for _ in acting(child, lifter)):
                yield node
        case _:
            for child in ast.iter_child_nodes(node):
                yield from acting(child, lifter)


def _acts(call: ast.Call, lifter: Lifter) -> bool:
    """True if something goes on or changes in a call itself."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    given = (owner, *call.args, *(keyword.value for keyword in call.keywords))
    values = [_value(e.value if isinstance(e, ast.Starred) else e, lifter) for e in given]
    if any(map(lifter.objects.is_own, values)):
        return True
    reached = lifter.functions.reached([_value(call.func, lifter)])
    functions = [v.__func__ if isinstance(v, MethodType) else v for v in reached]
    own = [f for f in functions if isinstance(f, FunctionType)]
    own = [f for f in own if f.__code__.co_filename == lifter.filename]
    return bool(own) and (any(map(lifter.objects.is_own, reached)) or any(map(_assigns, own)))


def _value(node: ast.expr, lifter: Lifter) -> Any:
    """What a dotted name stands for."""
    match node:
        case ast.Name(id=name):
            return lifter.scope.get(name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(_value(owner, lifter), name, None)
    return None


def _assigns(function: FunctionType) -> bool:
    """True if a function assigns variables that are not its own."""
    code = function.__code__
    return any(
        i.opname in STORES and (i.opname.endswith("GLOBAL") or i.argval in code.co_freevars)
        for i in dis.get_instructions(code)
    )
