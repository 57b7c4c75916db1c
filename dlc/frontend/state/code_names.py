"""The names that the code of a function reads, by its bytecode."""

from __future__ import annotations

import dis
import sys
from collections.abc import Set as AbstractSet
from functools import cache
from types import CodeType
from typing import Any

NAME_LOADS = {
    dis.opmap[name]: loads
    for name, loads in {
        "LOAD_GLOBAL": (True, 1, 0),
        "LOAD_NAME": (True, 0, 0),
        "LOAD_METHOD": (False, 0, 0),
        "LOAD_ATTR": (False, 1, 1) if sys.version_info >= (3, 12) else (False, 0, None),
        "LOAD_SUPER_ATTR": (False, 2, None),
    }.items()
    if name in dis.opmap
}
"""
Bytecode that reads a name: True if a global's, the bits of its argument below the name's, and which
of them are 1 where an attribute is only called; None where it never is.
"""

LOAD_CONST, MATCH_CLASS = dis.opmap["LOAD_CONST"], dis.opmap["MATCH_CLASS"]
BY_TEXT = frozenset({"getattr", "hasattr", "attrgetter", "vars", "__dict__"})
"""What attributes are asked for by texts with."""
MATCHED = "__match_args__"
"""The attribute of classes that has the names of what patterns as `Point(x, y)` read."""


@cache
def names_in_code(
    code: CodeType,
) -> tuple[tuple[str, ...], tuple[str, ...], AbstractSet[str]]:
    """
    The globals that code reads, the attributes, and those of these that it only calls; those of
    functions in it included. Texts in code that asks for attributes by texts are such, too, and
    names in patterns of classes.
    """
    globals: dict[str, None] = {}
    attributes: dict[str, bool] = {}  # True for those that are only called
    bytecode, high = code.co_code, 0
    loaded: Any = ()
    for operation, low in zip(bytecode[::2], bytecode[1::2], strict=True):
        argument = high | low
        high = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation == LOAD_CONST:
            loaded = code.co_consts[argument]
        elif operation == MATCH_CLASS:  # which follows a constant with the names
            attributes |= dict.fromkeys((MATCHED, *loaded), False)
        if (load := NAME_LOADS.get(operation)) is None:
            continue
        is_global, flags, calls = load
        name = code.co_names[argument >> flags]
        if is_global:
            globals[name] = None
        else:
            is_called = calls is not None and argument & calls == calls
            attributes[name] = attributes.get(name, True) and is_called
    by_text = not BY_TEXT.isdisjoint([*globals, *attributes])
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            more, named, called = names_in_code(constant)
            globals |= dict.fromkeys(more)
            for name in named:
                attributes[name] = attributes.get(name, True) and name in called
        elif by_text and isinstance(constant, str):
            parts = constant.split(".")  # as `attrgetter` takes them
            attributes |= dict.fromkeys((p for p in parts if p.isidentifier()), False)
    called = frozenset(name for name, calls in attributes.items() if calls)
    return tuple(globals), tuple(attributes), called
