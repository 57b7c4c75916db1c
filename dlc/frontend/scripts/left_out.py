"""What printing and assertions do that are left out of a program, beside what they look at."""

from __future__ import annotations

import ast
import builtins
import dis
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from operator import attrgetter, methodcaller
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType
from typing import Any

import torch

from dlc.frontend.scripts.parts import load, names_in
from dlc.frontend.scripts.printed import NUMBERS
from dlc.frontend.scripts.script_calls import ScriptCalls
from dlc.frontend.scripts.text_effects import GOES_ON, is_lazy
from dlc.frontend.scripts.variables import CHANGING, changed_at
from dlc.frontend.state.constants import MISSING
from dlc.frontend.state.dotted import is_users, value_of
from dlc.frontend.state.hidden_state import kept
from dlc.frontend.state.insides import CONTAINERS, reached
from dlc.frontend.state.outside import asks_outside

STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
LOOKS = NUMBERS | {"print", "type", "id", "isinstance"}
"""Functions that go over nothing that they are given."""
BUILTINS = (BuiltinMethodType, MethodWrapperType)
OPERATORS = (methodcaller, attrgetter)
FUNCTIONS = (FunctionType, MethodType, partial, *BUILTINS, *OPERATORS)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CHOICES = (ast.IfExp, ast.BoolOp, *COMPREHENSIONS)


def acting(node: ast.AST, calls: ScriptCalls) -> Iterator[ast.expr]:
    """
    What goes on or changes something in a piece of text, such as `next(numbers)`, `y.add_(1)` or
    `o.count` of a property that counts, the outermost such expressions; a comprehension or a choice
    with one in it is one, as it may not come to it.
    """
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.expr) and not isinstance(node, CHOICES) and _acts(node, calls):
        yield _as_expression(node)
        return
    inner = (acts for child in ast.iter_child_nodes(node) for acts in acting(child, calls))
    if isinstance(node, COMPREHENSIONS) and (
        _passes(node, calls) or not calls.effects.iterators.isdisjoint(names_in(node))
    ):
        yield node
    elif isinstance(node, CHOICES) or (isinstance(node, ast.Compare) and len(node.ops) > 1):
        yield from (node for _ in islice(inner, 1))
    else:
        yield from inner


def acting_if_shown(node: ast.expr, calls: ScriptCalls) -> Iterator[ast.expr]:
    """The same of what is printed: its text may be made by a method that changes something."""
    shown = ast.copy_location(ast.Call(load("str"), [_as_expression(node)], []), node)
    if not isinstance(node, ast.JoinedStr | ast.Constant) and _acts(shown, calls):
        ast.copy_location(shown.func, node)
        yield shown
    else:
        yield from acting(node, calls)


def evaluated_if_true(test: ast.expr) -> list[ast.expr]:
    """What is evaluated of an expression that is true: all of what `and` and `<` connect."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return [inner for value in values for inner in evaluated_if_true(value)]
        case ast.Compare(left=left, comparators=[_, _, *_] as others):
            return [left, *others]
    return [test]


def _as_expression(node: ast.expr) -> ast.expr:
    """The same as an expression of its own."""
    match node:
        case ast.FormattedValue():
            return ast.copy_location(ast.JoinedStr([node]), node)
        case ast.Starred():
            return ast.copy_location(ast.List([node], ast.Load()), node)
    return node


def _acts(node: ast.expr, calls: ScriptCalls) -> bool:
    """True if something goes on or changes in an operation itself."""
    scope, objects = calls.lifter.scope, calls.lifter.objects
    if (methods := calls.effects.by(node)) and _may_have(node, methods, calls):
        return True
    match node:
        case ast.Starred(value=value) if _goes_over(value, calls):
            return True
        case ast.Compare(comparators=values) if any(_goes_over(v, calls) for v in values):
            return True
        case ast.Starred(value=value):
            return objects.is_own(value_of(value, scope))
        case ast.Attribute(attr=name):
            return name in calls.effects.changing
        case ast.Subscript(value=value):
            return hasattr(type(value_of(value, scope)), "__missing__")
        case ast.Call():
            return _call_acts(node, calls)
    return False


def _goes_over(value: ast.expr, calls: ScriptCalls) -> bool:
    """True if something goes on where one goes over a value."""
    if isinstance(value, ast.Name):
        return value.id in calls.effects.iterators
    return is_lazy(value) and any(True for _ in acting(value, calls))


def _passes(node: ast.expr, calls: ScriptCalls) -> bool:
    """True if an expression mentions a function that changes something, or a container of such."""
    scope, functions = calls.lifter.scope, list[Any]()
    for value in (scope[name] for name in names_in(node) if name in scope):
        items = value.values() if isinstance(value, dict) else value
        inner = items if isinstance(value, dict | list | tuple | set) else (value,)
        functions += (w for v in inner if isinstance(v, FUNCTIONS) for w in _wrapped(v))
    return any(_function_acts(v, calls) for v in calls.lifter.functions.reached(functions))


def _may_have(node: ast.expr, methods: Collection[str], calls: ScriptCalls) -> bool:
    """True unless what goes into an operation is known to have no such methods of a user's."""
    for name in names_in(node):
        value = calls.lifter.scope.get(name, MISSING)
        if value is MISSING:
            if not hasattr(builtins, name):
                return True
        elif isinstance(value, FunctionType | type):
            if value is not builtins and (isinstance(value, FunctionType) or is_users(value)):
                return True
        elif any(_has(type(inner), methods) for inner in reached(value).values()):
            return True
    return False


def _has(kind: type, methods: Collection[str]) -> bool:
    return is_users(kind) and any(hasattr(kind, name) for name in methods)


def _call_acts(call: ast.Call, calls: ScriptCalls) -> bool:
    """The same of a call, by what is called and what it is given."""
    if changed_at(call) is not None or calls.may_change(call):
        return True
    if not isinstance(call.func, ast.Name | ast.Attribute) and _gives_acting(call.func, calls):
        return True
    lifter, effects = calls.lifter, calls.effects
    scope, is_own = lifter.scope, lifter.objects.is_own
    if isinstance(call.func, ast.Attribute) and call.func.attr in effects.changing:
        return True
    passed = (*call.args, *(keyword.value for keyword in call.keywords))
    if any(_last_name(value) in effects.changing for value in passed) or _passes(call, calls):
        return True
    if _last_name(call.func) in GOES_ON:
        return True
    given = [a.value if isinstance(a, ast.Starred) else a for a in call.args]
    if _last_name(call.func) not in LOOKS and any(_goes_over(value, calls) for value in given):
        return True
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    given = [owner, *passed]
    values = [value_of(e.value if isinstance(e, ast.Starred) else e, scope) for e in given]
    if any(map(is_own, values)):
        return True
    called = value_of(call.func, scope)
    if isinstance(called, torch.nn.Module):
        if any(getattr(module, "inplace", False) for module in called.modules()):
            return True
        return called.training and next(called.buffers(), None) is not None
    if kept(getattr(called, "__self__", None)) is not None or asks_outside([called]):
        return True
    return any(_function_acts(v, calls) for v in lifter.functions.reached(_wrapped(called)))


def _gives_acting(node: ast.expr, calls: ScriptCalls) -> bool:
    """True if an expression may give a function that changes something: `(l.append or f)`."""
    named = (_last_name(n) or getattr(n, "value", None) for n in ast.walk(node))
    if any(isinstance(name, str) and _changes_by_name(name, calls) for name in named):
        return True
    return _passes(node, calls) or any(True for _ in acting(node, calls))


def _changes_by_name(name: str, calls: ScriptCalls) -> bool:
    return name in CHANGING or name in calls.effects.changing


def _last_name(node: ast.AST) -> str:
    """`append` of `l.append`; nothing for what is no such name."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _wrapped(called: Any) -> list[Any]:
    """A function, and what a `partial` calls and gives it."""
    if isinstance(called, partial):
        return [called, *_wrapped(called.func), *called.args, *called.keywords.values()]
    if isinstance(called, MethodWrapperType) and called.__name__ == "__call__":
        return _wrapped(called.__self__)
    return [called]


def _function_acts(value: Any, calls: ScriptCalls) -> bool:
    """True if a function of the script, or what one reads, goes on or changes."""
    if calls.lifter.objects.is_own(value):
        return True
    if isinstance(value, OPERATORS):
        _, names, *_ = value.__reduce__()
        return any(isinstance(n, str) and _changes_by_name(n, calls) for n in names)
    if isinstance(value, BUILTINS) and value.__name__ in CHANGING:
        return isinstance(value.__self__, CONTAINERS)
    function = value.__func__ if isinstance(value, MethodType) else value
    if not isinstance(function, FunctionType):
        return False
    if function.__code__.co_filename != calls.lifter.filename:
        return False
    return function.__name__ in calls.effects.changing or _assigns(function)


def _assigns(function: FunctionType) -> bool:
    """True if a function assigns variables that are not its own."""
    code = function.__code__
    return any(
        i.opname in STORES and (i.opname.endswith("GLOBAL") or i.argval in code.co_freevars)
        for i in dis.get_instructions(code)
    )
