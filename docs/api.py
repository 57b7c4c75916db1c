"""The page of the Python API, from docstrings: what `dlc.__all__` names, and its public methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import dlc


def page() -> str:
    """The text of the page."""
    return "\n\n".join(filter(None, _parts())) + "\n"


def _parts() -> Iterator[str]:
    yield "# Python API"
    yield inspect.cleandoc(dlc.__doc__ or "")
    for name in dlc.__all__:
        found = getattr(dlc, name)
        yield f"## dlc.{name}"
        if not inspect.isclass(found):
            yield from _function(name, found)
            continue
        yield inspect.getdoc(found) or ""
        for member, value in vars(found).items():
            if not member.startswith("_"):
                yield from _member(name, member, value)


def _member(of: str, name: str, value: Any) -> Iterator[str]:
    """A method or property that says what it does."""
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    function = getattr(value, "fget", None) or getattr(value, "func", None) or value
    if not inspect.isfunction(function) or not (said := inspect.getdoc(function)):
        return
    yield f"### {of}.{name}"
    if function is value:
        yield from _function(name, value)
    else:
        yield said


def _function(name: str, function: Any) -> Iterator[str]:
    parameters = inspect.signature(function)
    text = f"{name}{parameters}"
    text = text if len(text) < 90 else _lines_of(name, parameters)
    yield "```python\n" + text.replace("'", "") + "\n```"
    yield inspect.getdoc(function) or ""


def _lines_of(name: str, signature: inspect.Signature) -> str:
    """A signature with a parameter a line."""
    star, shown = False, []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        shown.append(str(parameter))
    inside = "".join(f"    {text},\n" for text in shown)
    returned = signature.return_annotation
    arrow = "" if returned is signature.empty else f" -> {returned}"
    return f"{name}(\n{inside}){arrow}"
