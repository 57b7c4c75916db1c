"""Pieces of a script's text: what is known of an expression, its errors, and new pieces."""

from __future__ import annotations

import argparse
import ast
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from dlc.diagnostics import with_hint
from dlc.frontend.source import ImportFailure, Place
from dlc.frontend.state.error_hints import closest_name


def place_in(filename: str, line: int, column: int) -> Place:
    """A position in a text; line and column count from 1."""
    return Place(filename, line, column, linecache.getline(filename, line).rstrip())


def place_at(filename: str, node: ast.stmt | ast.expr) -> Place:
    """Where a piece of a text begins."""
    return place_in(filename, node.lineno, node.col_offset + 1)


@contextmanager
def errors_in(filename: str) -> Iterator[None]:
    """Turns what the user's text raises into one sentence with its line and column."""
    try:
        yield
    except ImportFailure:
        raise
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any(frame.filename == argparse.__file__ for frame in frames):
            raise  # it has told what it was asked, or what was wrong
        raise ended(error.code, _place_in_frames(filename, frames)) from error
    except Exception as error:
        place = place_of_error(filename, error)
        first = (str(error).splitlines() or ["no message"])[0]
        if wanted := re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", first):
            first = (
                f"a tensor of {int(wanted[1]) / 2**30:.1f} GiB does not fit into memory, in which "
                "the program's text runs once; make it smaller"
            )
        failure = ImportFailure(f"{type(error).__name__}: {first}", place)
        for note in getattr(error, "__notes__", ()):
            failure.add_note(note)
        raise with_hint(failure, closest_name(error)) from error


def ended(code: object, place: Place | None) -> ImportFailure:
    """What is said where a script ends itself instead of computing something."""
    how = "" if code in (None, 0) else f" with {code!r}"
    return ImportFailure(f"the script ends itself here{how}, before it has computed tensors", place)


def read_too_early(name: str, place: Place | None = None) -> ImportFailure:
    """What is said where a method reads a variable that the program computes."""
    return ImportFailure(
        f"a method reads '{name}', which the program computes; give it as an argument, or keep it "
        "in an attribute",
        place,
    )


def place_of_error(filename: str, error: BaseException) -> Place | None:
    """The innermost place in a text where an error came from."""
    return _place_in_frames(filename, traceback.extract_tb(error.__traceback__))


def place_of_frame(frame: FrameType) -> Place:
    """What a frame is computing now."""
    line, end, at, end_at = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    summary = traceback.FrameSummary(
        frame.f_code.co_filename, line or frame.f_lineno, frame.f_code.co_name,
        end_lineno=end, colno=at, end_colno=end_at,
    )  # fmt: skip
    return Place.of_frame(summary)


def _place_in_frames(filename: str, frames: Sequence[traceback.FrameSummary]) -> Place | None:
    """The innermost place in a text."""
    found = [f for f in frames if f.filename == filename and f.lineno is not None]
    return Place.of_frame(found[-1]) if found else None


@dataclass
class Part:
    """
    A sub-expression. `code` computes it. Where its `value` is `known` before the program runs,
    `code` is a constant or a name for that very value, and `build` gives the code that computes it
    within the program. `fresh` says that the value was just created at random.
    """

    code: ast.expr
    known: bool = False
    value: Any = None
    fresh: bool = False
    name: str | None = None
    """The variable that holds the value, with the path to it: `mlp`, `mlp_gate`."""
    build: Callable[[], ast.expr] | None = None
    inside_module: bool = False
    """True if the value was found in a module, as an attribute or an item."""
    base: Any = None
    """What the value is an attribute or an item of."""
    now: ast.expr | None = None
    """Code that computes it before the program runs, where no input and no module goes in."""
    sized: bool = False
    """True if it is known, but depends on sizes that may change."""


Child = tuple[Callable[[ast.expr], Any], Part]
"""A part, and what wraps its code where it stands: `*` or the keyword of an argument."""


def names_in(node: ast.AST) -> set[str]:
    """All variables that a piece of text mentions."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def rename(node: ast.AST, name: str, new: str) -> None:
    """Renames a variable wherever a piece of text mentions it; parameters are other variables."""
    if isinstance(node, ast.Name) and node.id == name:
        node.id = new
    if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
        node.names = [new if n == name else n for n in node.names]
    inner = ast.iter_child_nodes(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        if any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(node.args)):
            inner = iter([*node.args.defaults, *filter(None, node.args.kw_defaults)])
    for child in inner:
        rename(child, name, new)


def replaced(node: ast.expr, codes: Mapping[ast.expr, ast.expr]) -> ast.expr:
    """A copy of an expression in which some of its parts have other code."""

    def copied(value: Any) -> Any:
        if isinstance(value, ast.expr) and value in codes:
            return codes[value]
        return [codes.get(item, item) for item in value] if isinstance(value, list) else value

    fields = {name: copied(value) for name, value in ast.iter_fields(node)}
    return ast.copy_location(type(node)(**fields), node)


def assignment(name: str, value: ast.expr) -> ast.Assign:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def load(name: str) -> ast.Name:
    """A variable's value."""
    return ast.Name(name, ast.Load())


def attribute(owner: str, name: str) -> ast.Attribute:
    """An attribute of a variable's value."""
    return ast.Attribute(load(owner), name, ast.Load())


def with_one_item(node: ast.With) -> ast.With:
    """`with a: with b: ...` of `with a, b: ...`."""
    if len(node.items) == 1:
        return node
    inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
    return ast.copy_location(ast.With(node.items[:1], [inner]), node)


def calls_of_context(node: ast.With, name: str) -> tuple[ast.stmt, ast.stmt]:
    """What Python calls where `with name as v: ...` begins, and where it ends."""
    enter = ast.Call(attribute(name, "__enter__"), [], [])
    nothing: list[ast.expr] = [ast.Constant(None) for _ in range(3)]
    leave = ast.Expr(ast.Call(attribute(name, "__exit__"), nothing, []))
    target = node.items[0].optional_vars
    enters = ast.Expr(enter) if target is None else ast.Assign([target], enter)
    for statement in (enters, leave):
        ast.fix_missing_locations(ast.copy_location(statement, node))
    return enters, leave
