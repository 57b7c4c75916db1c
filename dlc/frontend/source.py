"""The places of a PyTorch program's operations in its source, and errors that quote it."""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import torch
from torch.fx.proxy import TracerBase
from xdsl.utils.exceptions import DiagnosticException

from dlc.diagnostics import with_hint
from dlc.frontend.carets import acting

if TYPE_CHECKING:
    from xdsl.dialects.builtin import FileLineColLoc, LocationAttr

TORCH = os.path.dirname(torch.__file__) + os.sep
MODULES = os.path.join(TORCH, "nn", "modules") + os.sep
HERE = os.path.dirname(__file__) + os.sep
DLC = os.path.dirname(os.path.dirname(__file__)) + os.sep
COMMANDS = os.path.join(DLC, "cli") + os.sep
STANDARD = os.path.dirname(os.__file__) + os.sep
ATEN = os.path.join(HERE, "aten") + os.sep
PASSED_THROUGH = tuple(
    f"{ATEN}{name}.py"
    for name in ("unchecked", "subscripts", "numbers_of_data", "copied", "optimizer_steps")
)
"""They stand between a program and the functions that it calls, or what stands in for these."""
AROUND = (ATEN + "failed_operations.py", os.path.join(HERE, "scripts", "script_trials.py"))
"""They stand between a tracer and the modules of a program, or watch what these call."""
GENERATED = ("<eval_with_key>", "<string>", "<frozen")
"""The first words of the names of files whose code FX or an import hook made."""
ON_DATA = (
    "keep all elements, as torch.where(mask, x, 0), torch.topk and x.max() in place of "
    'x.max().item() do, or use torch.compile(f, backend="dlc"), which leaves such parts to '
    "PyTorch"
)
"""What to do where sizes or numbers depend on data."""
GRADIENTS = (
    "the program computes gradients, expected a forward pass; leave backward() and the optimizer "
    'out, or train with torch.compile(model, backend="dlc")'
)
"""What is said of a program that trains."""
FRAME = re.compile(r'^ *File "(.+)", line (\d+), in ', re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A position in a source file: line and column count from 1; `text` is the whole line."""

    file: str
    line: int
    column: int
    text: str

    @staticmethod
    def of_line(file: str, line: int, shown_as: Mapping[str, str] | None = None) -> Place:
        """The first character of a line; `shown_as` maps file names to those to be shown."""
        text = linecache.getline(file, line).rstrip()
        column = len(text) - len(text.lstrip()) + 1
        return Place((shown_as or {}).get(file, file), line, column, text)

    @staticmethod
    def of_frame(frame: traceback.FrameSummary, shown_as: Mapping[str, str] | None = None) -> Place:
        """What a frame was computing: its operator, or the function that it called."""
        line = frame.lineno or 0
        place = Place.of_line(frame.filename, line, shown_as)
        if frame.colno is None or frame.end_lineno is None or frame.end_colno is None:
            return place
        texts = [linecache.getline(frame.filename, n) for n in range(line, frame.end_lineno + 1)]
        encoded = [text.encode() for text in texts]
        *before, last = encoded
        code = b"".join([*before, last[: frame.end_colno]])[frame.colno :]
        read = b"".join(encoded)[: frame.colno + acting(code)]
        row, column = read.count(b"\n"), len(read.rpartition(b"\n")[2].decode(errors="replace"))
        if row >= len(texts):  # the file has changed since it was read
            return place
        return Place(place.file, line + row, column + 1, texts[row].rstrip())

    @property
    def location(self) -> FileLineColLoc:
        from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

        return FileLineColLoc(StringAttr(self.file), IntAttr(self.line), IntAttr(self.column))


def location_of(place: Place | None) -> LocationAttr:
    from xdsl.dialects.builtin import UnknownLoc

    return UnknownLoc() if place is None else place.location


def quote(place: Place | None, message: str, kind: str = "error: ") -> str:
    """`file:line:col: error: message`, the source line and a caret under the column."""
    if place is None:
        return f"{kind}{message}"
    head = f"{place.file}:{place.line}:{place.column}: {kind}{message}"
    if not place.text:
        return head
    return f"{head}\n{place.text}\n{' ' * (place.column - 1)}^"


class ImportFailure(DiagnosticException):
    """A program that cannot be imported; the text is one sentence with the user's line."""

    def __init__(self, message: str, place: Place | None = None):
        super().__init__(quote(place, message))
        self.message = message
        self.place = place

    def set_place(self, place: Place) -> None:
        """Says where it is of one that did not know."""
        self.place = place
        self.args = (quote(place, self.message),)


@contextmanager
def placed_by(place_of: Callable[[str], Place] | None) -> Iterator[None]:
    """Failures within that do not know their place have the one of their sentence."""
    try:
        yield
    except ImportFailure as error:
        if error.place is None and place_of is not None:
            error.set_place(place_of(error.message))
        raise


class UnsupportedError(DiagnosticException):
    """All operations of a program that no IR of dlc can represent, with their lines, and a hint."""

    def __init__(self, found: Sequence[tuple[str, Place | None]]):
        if len(found) == 1:
            text = quote(found[0][1], found[0][0])
        else:
            heading = f"error: the program has {len(found)} operations that dlc cannot represent:"
            text = "\n".join([heading, *(quote(place, why, "") for why, place in found)])
        super().__init__(text)
        self.found = tuple(found)
        if any("depends on data" in why or "computed from data" in why for why, _ in found):
            with_hint(self, ON_DATA)


def place_of(stack_trace: str | None, shown_as: Mapping[str, str] | None = None) -> Place | None:
    """
    The innermost frame of a formatted stack trace (outermost first) that is the user's; if all are
    PyTorch's own, the user's line that called for a compilation; where that is a command's, the
    innermost of a module of `torch.nn`; None if there is none of these.
    """
    found = FRAME.finditer(stack_trace or "")
    frames = [traceback.FrameSummary(m[1], int(m[2]), "", lookup_line=False) for m in found]
    return _innermost(frames, shown_as)


def place_of_traceback(
    tb: TracebackType | None, shown_as: Mapping[str, str] | None = None
) -> Place | None:
    """The innermost frame of the user's in a traceback that starts in this package."""
    return _innermost(traceback.extract_tb(tb), shown_as)


def _innermost(
    frames: Sequence[traceback.FrameSummary], shown_as: Mapping[str, str] | None
) -> Place | None:
    inner = [frames[i] for i in _inside_program([frame.filename for frame in frames])]
    users = [frame for frame in inner if not frame.filename.startswith(TORCH)]
    found = users[-1] if users else _caller() or (inner[-1] if inner else None)
    return None if found is None else Place.of_frame(found, shown_as)


def _caller() -> traceback.FrameSummary | None:
    """Where the user called dlc, or a function that dlc has compiled."""
    frame = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(COMMANDS):
            return None
        if not file.startswith((DLC, TORCH, STANDARD, *GENERATED)):
            positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
            line, end_line, column, end_column = positions
            return traceback.FrameSummary(
                file, line or frame.f_lineno, frame.f_code.co_name,
                end_lineno=end_line, colno=column, end_colno=end_column,
            )  # fmt: skip
        frame = frame.f_back
    return None


def _inside_program(files: Sequence[str]) -> list[int]:
    """The frames below this package's own, of the user's code and of the modules of torch.nn."""
    passed = [file in PASSED_THROUGH for file in files]
    entered = passed.index(True) if True in passed else len(files)  # what follows stands in
    own = [i for i in range(entered) if files[i].startswith(HERE) and files[i] not in AROUND]
    return [
        i
        for i in range(own[-1] + 1 if own else 0, len(files))
        if not files[i].startswith((HERE, *GENERATED))
        and not _is_standard(files[i])
        and (files[i].startswith(MODULES) or not files[i].startswith(TORCH))
    ]


def _is_standard(file: str) -> bool:
    """Whether a file is of Python's library, as those of `copy` and `functools` are."""
    return file.startswith(STANDARD) and f"{os.sep}site-packages{os.sep}" not in file


@contextmanager
def all_frames_recorded() -> Iterator[None]:
    """
    Within this context FX records all frames of the program for a traced operation. By default it
    keeps those of functions called `forward` only, so one in a helper would get its caller's line.
    """
    name = "_filter_traceback_frames"
    saved = getattr(TracerBase, name, None)
    if saved is None:  # a PyTorch without the filter records what it records
        yield
        return

    def frames_of_program(
        tracer: TracerBase, frames: traceback.StackSummary
    ) -> traceback.StackSummary:
        kept = _inside_program([frame.filename for frame in frames])
        return traceback.StackSummary.from_list([frames[i] for i in kept])

    setattr(TracerBase, name, frames_of_program)
    try:
        yield
    finally:
        setattr(TracerBase, name, saved)
