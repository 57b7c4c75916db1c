"""
What of a process outside of a text's variables code may ask or change: clocks, files, settings of
Python's own modules, of NumPy and of PyTorch. Each belongs to a domain, such as `os`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from dlc.frontend.state.code_names import names_in_code
from dlc.frontend.state.constants import CONTAINERS, MISSING
from dlc.frontend.state.dotted import attribute_of
from dlc.frontend.state.foreign import is_own

QUIET = frozenset(
    "abc argparse array builtins cmath collections contextlib copy dataclasses enum fractions "
    "functools heapq itertools json math numbers operator random re statistics string "
    "textwrap types typing".split()
)
"""Modules of Python's own that give the same again, or whose state is known otherwise."""
BUILTIN = {"open": "os", "input": "input", "id": "id"}
"""Functions of Python itself that do not, and their domains."""
FILES = frozenset(
    "posix nt posixpath ntpath genericpath io pathlib shutil glob tempfile fnmatch zipfile tarfile "
    "subprocess fileinput stat csv pickle".split()
)
"""Modules whose domain is that of `os`."""
CLOCKS = frozenset(("time", "datetime", "uuid", "secrets", "platform", "id"))
"""Domains in which a program changes nothing."""
PURE = frozenset("join basename dirname splitext split normpath isabs commonpath commonprefix "
                 "fspath PurePath intern getsizeof".split())  # fmt: skip
"""Functions of other modules that ask for nothing."""
OF_LOGGERS = frozenset(
    "setLevel level disabled disable getEffectiveLevel isEnabledFor addFilter removeFilter filters "
    "propagate basicConfig addHandler removeHandler handlers hasHandlers".split()
)
"""What is asked of loggers beside to log."""
SETTING = re.compile(
    r"(set|get)_(?!rng_state|attr|state|submodule|parameter|buffer|device).+|is_\w+_enabled|"
    r"are_\w+_enabled|\w+_sdp_enabled|enable_\w+|use_deterministic_algorithms|"
    r"(get|set)(err|errcall|bufsize)|seterr|geterr|allow_tf32|allow_bf16\w*|benchmark|deterministic"
)
"""The names of settings of PyTorch and NumPy; `autocast` and `errstate` put back what they set."""


def domains_of(values: Iterable[Any], attributes: Iterable[str] = ()) -> frozenset[str]:
    """
    The domains of some values, and of what functions, classes and modules of a user's among them
    name; the code at hand reads such attributes.
    """
    found: set[str] = set()
    seen: set[int] = set()
    pending: list[tuple[Any, frozenset[str]]] = [(v, frozenset(attributes)) for v in values]
    while pending:
        value, named = pending.pop()
        if (domain := _domain(value, named)) is not None:
            found.add(domain)
        if id(value) in seen:
            continue
        seen.add(id(value))
        function = value.__func__ if isinstance(value, MethodType) else value
        if isinstance(function, FunctionType):
            if is_own(function.__globals__.get("__name__", "__main__")):  # not of what it wraps
                globals_, inner, _ = names_in_code(function.__code__)
                around = function.__globals__
                found |= {BUILTIN[n] for n in globals_ if n in BUILTIN and n not in around}
                read = [around[n] for n in globals_ if n in around]
                read += [c.cell_contents for c in function.__closure__ or () if _is_full(c)]
                pending += ((v, frozenset(inner)) for v in read)
        else:
            pending += ((inner, named) for inner in _code_of(value))
            pending.append((getattr(value, "__self__", None), frozenset((*named, _name(value)))))
    return frozenset(found)


def domains_in(node: ast.AST, scope: Mapping[str, Any]) -> frozenset[str]:
    """The domains of a piece of text."""
    values, attributes, found = list[Any](), set[str](), set[str]()
    for names in _chains(node):
        attributes.update(names[1:])
        value = scope.get(names[0], MISSING)
        if value is MISSING:
            found.update({BUILTIN[names[0]]} if names[0] in BUILTIN else ())
            continue
        for name in names[1:]:
            if not isinstance(value, ModuleType):
                values.append(value)
            if (inner := attribute_of(value, name)) is MISSING:
                break
            if isinstance(inner, CONTAINERS) and isinstance(value, ModuleType):
                values.append(value)
            value = inner
        values.append(value)
    return frozenset(found) | domains_of(values, attributes)


def asks_outside(values: Iterable[Any]) -> bool:
    """True if some values, or what they name, ask or change something beside clocks."""
    return not domains_of(values) <= CLOCKS


def _chains(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """The dotted names in a piece of text, each as long as it is."""
    names: list[str] = []
    at = node
    while isinstance(at, ast.Attribute):
        names.append(at.attr)
        at = at.value
    if isinstance(at, ast.Name):
        yield (at.id, *reversed(names))
        return
    if names:
        yield from _chains(at)
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)


def _code_of(value: Any) -> Iterator[Any]:
    """What a value of a user's, that is no function, has of code."""
    if isinstance(value, type):
        if is_own(value.__module__):
            for inner in vars(value).values():
                inner = getattr(inner, "fget", None) or getattr(inner, "__func__", inner)
                if isinstance(inner, FunctionType):
                    yield inner
    elif isinstance(value, torch.nn.Module):
        yield from {type(module) for module in value.modules()}
    elif is_own(type(value).__module__):
        yield type(value)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _domain(value: Any, attributes: frozenset[str]) -> str | None:
    """The domain of one value, of which some attributes may be read."""
    if isinstance(value, str | int | float | torch.Tensor | np.ndarray | type(None)):
        return None
    kinds = () if isinstance(value, ModuleType | FunctionType | type) else type(value).__mro__
    own = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
    name = _name(value)
    for module in (own, *(kind.__module__ for kind in kinds)):
        root = str(module).partition(".")[0].lstrip("_")
        if root in ("torch", "numpy"):
            asked = {name} if name else attributes
            if any(map(SETTING.fullmatch, asked)) and _is_of_settings(value, module):
                return root
        elif root == "logging":
            if not OF_LOGGERS.isdisjoint(attributes | {name}):
                return root
        elif root in FILES or root == "os":
            return None if name in PURE else "os"
        elif str(module).partition(".")[0] in sys.stdlib_module_names and root not in QUIET:
            return None if name in PURE else root
    return None


def _name(value: Any) -> str:
    """The name of a function or a class, else nothing."""
    return "" if isinstance(value, ModuleType) else str(getattr(value, "__name__", ""))


def _is_of_settings(value: Any, module: Any) -> bool:
    """True for a module or function of PyTorch's or NumPy's, and for an object with flags."""
    return not isinstance(value, torch.nn.Module) and (
        isinstance(value, ModuleType) or callable(value) or str(module).startswith("torch.backends")
    )


def _module_of(value: Any) -> Any:
    found = getattr(value, "__module__", None)
    owner = getattr(value, "__self__", None)
    return found or (owner.__name__ if isinstance(owner, ModuleType) else type(value).__module__)
