"""What the text of a script has computed of random tensors, and read of them, when it ran."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from dlc.frontend.scripts.parts import errors_in, place_at
from dlc.frontend.source import ImportFailure, Place, quote
from dlc.frontend.state.random import RandomTensors

Node: TypeAlias = ast.stmt | ast.expr
READ = (
    "random numbers are read here before the program, which is made for these numbers, not for "
    "others"
)
GIVEN = (
    "what this gives is changed in place when it is called again, and is not what it was then; "
    "return a copy"
)
EARLY = (
    "this runs before the program, whose functions and hooks have kept nothing so far; return what "
    "they keep"
)
ASSIGNED = (
    "text that runs here assigns '{}', which the program does not see; assign it in a statement of "
    "the script's own"
)
KEPT_NUMBERS = (
    "a module keeps what is computed here of the program's inputs, whatever they are; compute it "
    "in its forward"
)
UNSEEN = "what is computed here of tensors that are made at random is not seen; make them before it"


class Unseen(ImportFailure):
    """A text computes of random tensors in pieces that run before its program, and nothing else."""


class ScriptRuns:
    """Notes it of pieces of the text, and tells where it was."""

    def __init__(self, filename: str, random: RandomTensors) -> None:
        self.filename, self.random = filename, random
        self._out, self._err = sys.stdout, sys.stderr
        self.computed_at: list[tuple[int, Node]] = []
        """
        The pieces that have computed something of random tensors, and how many tensors had been
        computed by then.
        """
        self.read_at: list[Node] = []
        """Those that have read numbers of random tensors."""
        self.left_out: list[tuple[str, Node]] = []
        """Those that the program leaves out though they do something, and what is said of them."""

    @contextmanager
    def noting(self, node: Node) -> Iterator[None]:
        """Notes that `node` runs, if it computes something of random tensors or reads them."""
        count, reads = self.random.count, self.random.reads
        with errors_in(self.filename), self._told(), self.random:
            yield
        if self.random.count > count:
            self.computed_at.append((self.random.count, node))
        if self.random.reads > reads:
            self.read_at.append(node)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What is printed within is no result: it is told beside, unless the script catches it."""
        sys.stdout = self._err if sys.stdout is self._out else sys.stdout
        try:
            yield
        finally:
            put_back = any(sys.stdout is stream for stream in (self._err, sys.__stdout__))
            sys.stdout = self._out if put_back else sys.stdout

    def notes(self, inputs: Mapping[str, Any]) -> Iterator[str]:
        """What is to be said of a program, of such inputs, that is not all its text computes."""
        for name, value in inputs.items():
            if (place := self.place_of_computed(value)) is not None:
                why = f"'{name}' is an input: what is computed here is done before the program"
                yield quote(place, why, "note: ")
        for what, node in self.left_out:
            yield quote(place_at(self.filename, node), what, "note: ")
        shown = (place_at(self.filename, n) for n in self.read_at if not _only_prints(n))
        for place in dict.fromkeys(shown):
            yield quote(place, READ, "note: ")

    def place_of_computed(self, value: object) -> Place | None:
        """Where random tensors became a value, if something was computed of them there."""
        number = self.random.number(value)
        found = [] if number is None else [n for count, n in self.computed_at if count > number]
        return place_at(self.filename, found[0]) if found else None

    def unseen(self) -> Unseen | None:
        """What is said where nothing else was computed of random tensors than what ran."""
        if not self.computed_at:
            return None
        return Unseen(UNSEEN, place_at(self.filename, self.computed_at[-1][1]))


def _only_prints(node: Node) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
    return False
