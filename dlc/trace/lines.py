"""
Which line of a text an operation stands in, and which line of an earlier text it is made of.

An operation's location says where it comes from, and passes hand locations on to what they make.
`mark` writes the line of its own text into the location of each operation of a module: what later
passes make of it says so by its location, down to the next text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO

from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from dlc.dialects.kernel_op import KernelSignature
from dlc.error_report import file_line_col
from dlc.trace.model import Pane


class Lines(Printer):
    """A module as `dlc.pipeline.text_of` prints it, and the lines of its operations."""

    def __init__(self, module: ModuleOp) -> None:
        stream = StringIO()
        super().__init__(stream)
        self.spans: dict[Operation, tuple[int, int]] = {}
        """The first line of each operation that is printed, and its last."""
        self.print_op(module)
        self.text = f"{stream.getvalue()}\n"

    def print_op(self, op: Operation) -> None:
        first = self._current_line
        super().print_op(op)
        self.spans[op] = first, self._current_line

    @property
    def sections(self) -> dict[str, tuple[int, int]]:
        """The lines of each kernel."""
        found = {op: span for op, span in self.spans.items() if isinstance(op, KernelSignature)}
        return {op.name_: (first, last + 1) for op, (first, last) in found.items()}


def split(text: str, sections: Mapping[str, tuple[int, int]]) -> dict[str, list[str]]:
    """The lines of each section of a module's text."""
    lines = text.splitlines()
    parts = {name: lines[begin:end] for name, (begin, end) in sections.items()}
    inside = {number for begin, end in sections.values() for number in range(begin, end)}
    rest = [line for number, line in enumerate(lines) if number not in inside]
    return {"": rest, **parts}


def places_of(location: Attribute) -> Iterator[FileLineColLoc]:
    """All positions in files that a location is made of."""
    if isinstance(location, FusedLoc):
        for part in list[Attribute](getattr(location.locations, "data", ())):
            yield from places_of(part)
    elif (place := file_line_col(location)) is not None:
        yield place


def mark(module: ModuleOp, lines: Lines, ir: str) -> None:
    """Makes the location of each operation its line of `lines`, which the text of `ir` is."""
    file = StringAttr(_file(ir))
    for op in module.walk():
        if op in lines.spans:
            op.location = FileLineColLoc(file, IntAttr(lines.spans[op][0] + 1), IntAttr(1))


def origins(op: Operation, ir: str) -> list[int]:
    """The lines of the text of `ir` that an operation is made of."""
    places = (p for p in places_of(op.location) if p.filename.data == _file(ir))
    return sorted({place.line.data - 1 for place in places})


def _file(ir: str) -> str:
    return f"<{ir} IR of the trace>"


def pane(ir: str, lines: Lines, links: Mapping[Operation, Sequence[int]]) -> Pane:
    """The pane of a module whose operations have these links."""
    text = lines.text.splitlines()
    found: list[set[int]] = [set() for _ in text]
    for op, (first, last) in lines.spans.items():
        for line in {first, last}:
            found[line].update(links.get(op, ()))
    # A kernel's own line is everything in it; that of a module nothing.
    return Pane(ir, text, [sorted(some) for some in found], lines.sections)
