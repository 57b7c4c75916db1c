"""Hazards of kernels, as errors that name operations, threads and iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Literal, TypeAlias

from xdsl.dialects import scf
from xdsl.ir import Operation
from xdsl.printer import Printer

from dlc.diagnostics import OpError
from dlc.error_report import file_line_col

Kind: TypeAlias = Literal[
    "race",
    "copy in flight",
    "copy never awaited",
    "product in flight",
    "product never awaited",
    "uninitialized",
    "out of bounds",
    "misaligned",
    "divergence",
    "deadlock",
    "mbarrier",
    "registers",
    "unwritten",
    "arithmetic",
    "not checked",
]


@dataclass(frozen=True)
class Access:
    """An execution of an operation by one thread."""

    op: Operation
    block: int
    thread: int
    iteration: tuple[int, ...]
    """The indices of the loops around the operation, outermost first."""

    def __str__(self) -> str:
        text = f"block {self.block}, thread {self.thread}"
        if steps := named_iteration(self.op, self.iteration):
            text += f", {steps}"
        return f"{text}: {line_of(self.op)}"


class Hazard(OpError):
    """
    A kernel does at `op` what it must not do. `accesses` are the executions that show it, that of
    `op` first. The kind `not checked` says that the interpreter cannot tell.
    """

    def __init__(
        self, kind: Kind, op: Operation, sentence: str, accesses: Sequence[Access] = ()
    ) -> None:
        self.kind: Kind = kind
        self.sentence = sentence
        self.accesses = tuple(accesses)
        super().__init__(op, "\n  ".join([f"{kind}: {sentence}", *map(str, accesses)]))


def enclosing_loops(op: Operation) -> Iterator[scf.ForOp]:
    """The loops around an operation, innermost first."""
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, scf.ForOp):
            yield parent
        op = parent


def named_iteration(op: Operation, iteration: Sequence[int]) -> str:
    """`%ko = 3, %ki = 0`: the iteration of the loops around an operation."""
    loops = reversed(list(enclosing_loops(op)))
    names = [loop.body.block.args[0].name_hint or "a loop's index" for loop in loops]
    # An operation that holds others runs at the iteration of those that it holds.
    return ", ".join(f"%{name} = {i}" for name, i in zip(names, iteration, strict=False))


def line_of(op: Operation) -> str:
    """The line of the operation in the text of its kernel, after its place if that is known."""
    root = op
    while (parent := root.parent_op()) is not None and root.name != "kernel.func":
        root = parent
    printer = _LinePrinter(op)
    printer.print_op(root)
    text = printer.text.getvalue()[printer.start :].partition("\n")[0]
    place = file_line_col(op.location)
    return text if place is None else f"{place.filename.data}:{place.line.data}: {text}"


class _LinePrinter(Printer):
    """Notes where the text of one operation begins."""

    def __init__(self, op: Operation) -> None:
        self.text = StringIO()
        super().__init__(stream=self.text)
        self.wanted = op
        self.start = 0

    def print_op(self, op: Operation) -> None:
        if op is self.wanted:
            self.start = self.text.tell()
        super().print_op(op)
