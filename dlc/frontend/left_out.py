"""What printing and assertions do that are left out of a program, beside what they look at."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import torch

from dlc.frontend.hidden_state import kept
from dlc.frontend.lift import Lifter
from dlc.frontend.script_calls import ScriptCalls
from dlc.frontend.variables import changed_at

STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")


def acting(node: ast.AST, calls: ScriptCalls) -> Iterator[ast.expr]:
    """
    The calls in a piece of text in which something goes on or changes, such as `next(numbers)` or
    `y.add_(1)`, the outermost of them; a comprehension or a choice with such a call is one, as it
    may not come to the call.
    """
    match node:
        case ast.Call() if _acts(node, calls):
            yield node
        case ast.Lambda():
            pass
        case ast.Starred(value=value) if calls.lifter.objects.is_own(_value(value, calls.lifter)):
            yield ast.copy_location(ast.List([node], ast.Load()), node)
        case ast.IfExp() | ast.BoolOp() | ast.Compare(ops=[_, _, *_]):
            if _holds_acting(node, calls):
                yield node
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            if _holds_acting(node, calls):
                yield node
        case _:
            for child in ast.iter_child_nodes(node):
                yield from acting(child, calls)


def _holds_acting(node: ast.AST, calls: ScriptCalls) -> bool:
    return any(True for child in ast.iter_child_nodes(node) for _ in acting(child, calls))


def _acts(call: ast.Call, calls: ScriptCalls) -> bool:
    """True if something goes on or changes in a call itself."""
    if changed_at(call) is not None or calls.may_change(call):
        return True
    lifter = calls.lifter
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    given = (owner, *call.args, *(keyword.value for keyword in call.keywords))
    values = [_value(e.value if isinstance(e, ast.Starred) else e, lifter) for e in given]
    if any(map(lifter.objects.is_own, values)):
        return True
    called = _value(call.func, lifter)
    if isinstance(called, torch.nn.Module):
        return called.training and next(called.buffers(), None) is not None
    if kept(getattr(called, "__self__", None)) is not None:
        return True
    reached = lifter.functions.reached([called])
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
