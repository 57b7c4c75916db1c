"""
Errors as sentences:

    k.mlir:3:8: error: 'arith.addf' after pass x: operand %b is used before it is defined
      %c = arith.addf %a, %b : f32
           ^^^^^^^^^^
    hint: ...

The place of an error is that of the parser, or the location of the operation it is about: the
exception's `op`, or else the operation that was being verified, rewritten or parsed when it was
raised.
"""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import FrameType

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    MultipleSpansParseError,
    ParseError,
)
from xdsl.utils.lexer import Lexer, Span

from dlc import plugins
from dlc.diagnostics import CONTEXT, HINT, TextError, UsageError
from dlc.escapes import printable

_MAX_WIDTH = 160
_REWRITTEN = {
    "match_and_rewrite": "op",
    "decompose": "op",
    "decompose_complex": "op",
    "rewrite_tile": "kernel",
}
"""What functions that rewrite an operation call it."""


def file_line_col(location: Attribute) -> FileLineColLoc | None:
    """The first position in a file that `location` is made of, or None."""
    match location:
        case FileLineColLoc():
            return location
        case NameLoc():
            return file_line_col(location.location)
        case CallSiteLoc():
            return file_line_col(location.callee) or file_line_col(location.caller)
        case FusedLoc():
            parts = list[Attribute](getattr(location.locations, "data", ()))
            return next(filter(None, map(file_line_col, parts)), None)
        case _:
            return None


def format_error(
    error: BaseException, sources: Mapping[str, str] | None = None, kind: str = "error"
) -> str:
    """
    `error`, or what is a message of another `kind`, as text without a final newline. `sources` has
    the contents of inputs by the name that their locations give; a file that is not in it is read
    from disk.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    op = _failing_op(error, frames)
    place = _place(error, op, frames)
    if isinstance(error, TextError):
        place = _place_in_text(error, place or _Place(""), sources or {})
    head, *rest = _message(error, op, frames).split("\n")
    at = f"{place}: " if place is not None and place.file else ""
    lines = [f"{at}{kind}: {head}"]
    if place is not None:
        lines += place.excerpt(sources or {})
    lines += rest
    if isinstance(error, MultipleSpansParseError):
        for span, text in error.refs:
            at = _span_place(span)
            lines += [f"{at}: note: {text or error.ref_text or 'here'}", *at.excerpt({})]
    notes: list[str] = getattr(error, "__notes__", [])
    lines += [note for note in notes if note.startswith(HINT)]
    return printable("\n".join(lines))


@dataclass(frozen=True)
class _Place:
    """`width` characters at a line and column counted from 1; 0 stands for unknown."""

    file: str
    line: int = 0
    column: int = 0
    width: int = 0
    text: str | None = None
    """The line, where the error itself has it."""
    text_column: int = 0
    """The column in `text`, where that is no line of the file."""

    def __str__(self) -> str:
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n > 0)])

    def excerpt(self, sources: Mapping[str, str]) -> list[str]:
        """The line and a line of carets below it, cut to a readable width."""
        text = self.text
        if text is None and self.file in sources:
            text = "".join(sources[self.file].split("\n")[self.line - 1 : self.line])
        elif text is None and self.line > 0:
            text = linecache.getline(self.file, self.line)
        text = re.sub(r"\s", " ", text or "").rstrip()  # every white space is one column
        column = self.text_column or self.column
        start = max(0, column - _MAX_WIDTH // 2) if len(text) > _MAX_WIDTH else 0
        shown = "".join(c if c.isprintable() else "?" for c in text[start : start + _MAX_WIDTH])
        shown = shown.rstrip()
        column -= 1 + start
        if not shown or column < 0:
            return [shown] if shown else []
        name = re.match(r'"?[\w$.%]+"?', shown[column:])
        width = self.width or (name.end() if name else 1)
        return [shown, " " * column + "^" * max(1, min(width, len(shown) - column))]


def _failing_op(error: BaseException, frames: list[FrameType]) -> Operation | None:
    """The operation that `error` is about."""
    for candidate in (getattr(error, "op", None), *error.args):
        if isinstance(candidate, Operation):
            return candidate
    for frame in reversed(frames):
        owner = frame.f_locals.get("self")
        name = frame.f_code.co_name
        if isinstance(owner, Operation) and name in ("verify", "verify_", "emit_error"):
            return owner
        rewritten = frame.f_locals.get(_REWRITTEN.get(name, ""))
        if isinstance(rewritten, Operation):
            return rewritten
    return None


def _place(error: BaseException, op: Operation | None, frames: list[FrameType]) -> _Place | None:
    if isinstance(error, ParseError):
        return _span_place(error.span)
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return _Place(error.filename)
    while op is not None:
        if (at := file_line_col(op.location)) is not None:
            return _Place(at.filename.data, at.line.data, at.column.data)
        op = op.parent_op()
    for frame in reversed(frames):
        span, reader = frame.f_locals.get("op_span"), frame.f_locals.get("self")
        if isinstance(span, Span):
            return _span_place(span)
        if isinstance(reader, Lexer):
            return _span_place(Span(reader.pos, reader.pos + 1, reader.input))
    return None


def _place_in_text(error: TextError, at: _Place, sources: Mapping[str, str]) -> _Place:
    """
    The place of an error in the file that its operation is at, if that has the text, or the part of
    it; else that of the operation, with the text for the line.
    """
    source = sources.get(at.file) or "".join(linecache.getlines(at.file))
    before = source.split("\n")[: max(at.line - 1, 0)]
    begin = sum(len(line) + 1 for line in before) + max(at.column - 1, 0)
    first, last = error.part
    for start, end in ((0, len(error.text)), error.part) if first < last else ():
        found = source.find(_escaped(error.text[start:end]), begin)
        if found >= 0:
            found += len(_escaped(error.text[start : error.start]))
            column = found - source.rfind("\n", 0, found)
            return _Place(at.file, source.count("\n", 0, found) + 1, column, error.width)
    return replace(at, width=error.width, text=error.text, text_column=error.start + 1)


def _escaped(text: str) -> str:
    """A text as an attribute's is written."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _span_place(span: Span[str] | Span[bytes]) -> _Place:
    at = span.get_location()
    content = span.input.content
    line = content[span.input.get_start_of_line(span.start) :].splitlines()[:1]
    text = line[0] if line and isinstance(line[0], str) else ""
    return _Place(at.file, at.line, at.col, max(1, span.len), text)


def _message(error: BaseException, op: Operation | None, frames: list[FrameType]) -> str:
    """The error and the pass that it is in; lines after the first go below the source line."""
    match error:
        case TextError():
            return str(error)
        case ParseError():
            text = _one_line(error.msg)
        case OSError() if error.strerror:
            return error.strerror.lower()
        case RecursionError():
            text = "the program is nested too deeply"
        case ArgSpecParseError() | DiagnosticException() if op is not None:
            text = _one_line(str(error))
        case ArgSpecParseError() | DiagnosticException() | UsageError() | ValueError():
            text = str(error).strip()
        case _ if type(error) in (Exception, NotImplementedError) and str(error):
            text = str(error).strip()
        case _:
            blamed = plugins.blamed(error)
            where = f"error in {blamed}" if blamed else "internal error"
            text = f"{where}: {type(error).__name__}: {error}\n{HINT}--debug shows where"
    notes: list[str] = getattr(error, "__notes__", [])
    contexts = [n.removeprefix(CONTEXT) for n in notes if n.startswith(CONTEXT)]
    if not contexts and (running := _running_pass(frames)) is not None:
        contexts.append(f"pass {running.name}")
    if op is not None and op.name not in text:
        contexts.append(f"'{op.name}'")
    return ": ".join([*contexts, text])


def _running_pass(frames: list[FrameType]) -> ModulePass | None:
    """The pass of the pipeline that was being applied."""
    for frame in frames:
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "apply" and isinstance(owner, ModulePass):
            return owner
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())
