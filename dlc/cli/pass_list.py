"""The passes that `dlc-opt` knows, as its help and its table tell them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent, fill
from typing import NamedTuple, get_type_hints

from xdsl.passes import ModulePass

from dlc import plugins
from dlc.passes import APART, steps
from dlc.plugin_sources import PluginError
from dlc.registry import describe, get_pass, pass_factories
from dlc.text import table

_WIDTH = 100


class Option(NamedTuple):
    """A field of a pass, and the text below it."""

    name: str
    type: str
    meaning: str
    bounds: str = ""
    """The bounds of its numbers, such as `2 to 4`; empty without any."""


def options_of(cls: type[ModulePass]) -> list[Option]:
    """The options of a pass, in order."""
    (node,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    found: list[Option] = []
    for field, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = ""
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = inspect.cleandoc(str(below.value.value)).replace("\n", " ")
            type = ast.unparse(field.annotation).replace(" | None", "")
            if "ClassVar" not in type:
                found.append(Option(field.target.id, type, text, _bounds(cls, field.target.id)))
    return found


def _bounds(cls: type[ModulePass], option: str) -> str:
    """What a scheduling step declares that an option may be."""
    domains = getattr(cls, "domains", {})
    return domains[option].bounds if option in domains else ""


def summary_of(cls: type[ModulePass]) -> str:
    """What a pass does, in the first sentence of its docstring."""
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")


def pass_names() -> list[str]:
    """dlc's passes and those of plug-ins: the pipeline in order, then those that stand apart."""
    placed = [step.pass_name for step in steps()]
    apart = [step.pass_name for step in APART]
    return [*placed, *apart, *(name for name in plugins.PASSES.foreign() if name not in placed)]


def _found(name: str) -> type[ModulePass] | str:
    """The class of a pass, or why a plug-in's has none."""
    try:
        return get_pass(name)
    except PluginError as error:
        return str(error)


def pass_help() -> str:
    """dlc's passes, each with its options and a sentence, and the names of xDSL's."""
    parts = [
        "dlc's passes, in the order of the pipeline; from tileify to mark-unroll they are the "
        "steps\nof schedules. --list-passes says what the options mean."
    ]
    for name in pass_names():
        if name == APART[0].pass_name:
            parts.append("Of no default compilation:")
        if isinstance(cls := _found(name), str):
            parts.append(f"  {name}\n{_indented(cls, 6)}")
            continue
        options = " ".join(option.name for option in options_of(cls))
        usage = f"  {name}{{{options}}}" if options else f"  {name}"
        parts.append(f"{usage}\n{_indented(summary_of(cls), 6)}")
    others = ", ".join(name for name in pass_factories() if name not in plugins.PASSES)
    names = _indented(others, 2)
    return "\n".join([*parts, "xDSL's passes:", names]) + "\n"


def _indented(text: str, by: int) -> str:
    """Lines of a text; names with hyphens stay whole."""
    indent = " " * by
    return fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def pass_table() -> str:
    """dlc's passes and their options."""
    return table(("pass", "option", "type", "meaning"), list(_rows()))


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for name in pass_names():
        if isinstance(cls := _found(name), str):
            yield name, "", "", cls
            continue
        types = get_type_hints(cls)
        yield name, "", "", summary_of(cls)
        for option in options_of(cls):
            type = describe(types[option.name])
            yield "", option.name, typed(type, option.bounds), option.meaning


def typed(type: str, bounds: str) -> str:
    """A type with the bounds of its values."""
    return f"{type}, {bounds}" if bounds else type
