"""What dotted names of a text, such as `torch.backends.cudnn`, stand for, without running code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from inspect import getattr_static
from types import FunctionType, MethodType, ModuleType
from typing import Any

from dlc.frontend.state.constants import MISSING
from dlc.frontend.state.foreign import is_own


def value_of(node: ast.AST, scope: Mapping[str, Any]) -> Any:
    """What a dotted name stands for; MISSING for another expression, and where there is nothing."""
    match node:
        case ast.Name(id=name):
            return scope.get(name, MISSING)
        case ast.Attribute(value=owner, attr=name):
            return attribute_of(value_of(owner, scope), name)
    return MISSING


def attribute_of(owner: Any, name: str) -> Any:
    """An attribute; MISSING where a user's code would have to run for it."""
    if owner is MISSING:
        return MISSING
    kind = type(owner)
    if isinstance(owner, ModuleType) or not is_users(kind):
        try:
            return getattr(owner, name, MISSING)
        except Exception:  # whatever an extension raises
            return MISSING
    found = getattr_static(owner, name, MISSING)
    if isinstance(found, FunctionType) and name not in getattr(owner, "__dict__", {}):
        return MethodType(found, owner)
    if isinstance(found, staticmethod | classmethod):
        return getattr(owner, name)
    if hasattr(type(found), "__get__") and not isinstance(found, FunctionType | type):
        slot = hasattr(type(found), "__objclass__")
        return getattr(owner, name, MISSING) if slot else MISSING
    if found is MISSING and hasattr(kind, "_modules"):
        return attribute_of_tables(owner, name)
    return found


def attribute_of_tables(module: Any, name: str) -> Any:
    """What a module of PyTorch has of a name in its tables."""
    tables = (vars(module).get(t, {}) for t in ("_parameters", "_buffers", "_modules"))
    return next((table[name] for table in tables if name in table), MISSING)


def ends_script(function: ast.expr, scope: Mapping[str, Any]) -> bool:
    """True for what ends a script where it is called."""
    match function:
        case ast.Name(id="exit" | "quit" as name):
            return name not in scope
    return value_of(function, scope) is sys.exit


def is_users(kind: type) -> bool:
    """True for a class of a user, or derived of one."""
    return any(is_own(k.__module__) for k in kind.__mro__)
