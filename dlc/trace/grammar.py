"""The words that panes colour, read off the definitions of the dialects that they show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from xdsl.dialects import get_all_dialects
from xdsl.ir import TypeAttribute
from xdsl.irdl import IRDLOperation

from dlc.plugins import DIALECTS, resolve
from dlc.trace.model import Grammar, Pane

KEYWORD = re.compile(r"`(\w+)`")
"""A literal word of a declarative assembly format."""


def grammar_of(panes: Iterable[Pane]) -> Grammar:
    """The grammar of all dialects of which operations or attributes are named in some panes."""
    named = {
        name
        for pane in panes
        for line in pane.lines
        for name in re.findall(r"(?<![\w$%.])[#!]?([a-z_]\w*)\.", line)
    }
    known = {name: partial(resolve, DIALECTS, name) for name in DIALECTS}
    dialects = [load() for name, load in ({**get_all_dialects()} | known).items() if name in named]
    operations = [op for dialect in dialects for op in dialect.operations]
    attributes = [attribute for dialect in dialects for attribute in dialect.attributes]
    formats = [
        op.get_irdl_definition().assembly_format or ""
        for op in operations
        if issubclass(op, IRDLOperation)
    ]
    return Grammar(
        sorted(op.name for op in operations),
        sorted(f"{'!' if issubclass(a, TypeAttribute) else '#'}{a.name}" for a in attributes),
        sorted({word for text in formats for word in KEYWORD.findall(text)}),
    )
