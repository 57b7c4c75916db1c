"""What SSA values become: expressions written at their only use, or constants of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue

from dlc.backend.cuda.print.c_scalar import ACCUMULATIONS, COMMUTATIVE, is_conditional, value_type
from dlc.backend.cuda.print.c_text import Level, Names, Text, broken_lines
from dlc.dialects import kernel
from dlc.dialects.kernel_memory import is_local

_MAX_DEPTH = 3
_MAX_OPERAND = 64
_MAX_STORED = 90

Memory = frozenset[SSAValue | None]
"""The memory that an expression reads; None stands for the other lanes of the warp."""


class Values:
    """
    The lines written so far, and how values read in what follows.

    A value that is *pending* has an expression but no line yet: it is written where it is used, or
    as a constant of its own before anything changes the memory that it reads.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.lines: list[str] = []
        self.indent = 0
        self.names = Names(taken)
        self.text: dict[SSAValue, Text] = {}
        self._pending: dict[SSAValue, Memory] = {}
        self._uses_left: dict[SSAValue, int] = {}
        self._reads: Memory = frozenset()

    def line(self, text: str) -> None:
        """Writes one line, or several where it is too long."""
        self.lines += broken_lines(text, "  " * self.indent)

    def users(self, value: SSAValue) -> list[Operation]:
        """The operations that use a value, once for each operand."""
        return [use.operation for use in value.uses]

    def name(self, value: SSAValue, default: str) -> str:
        """Gives a value a name of its own."""
        name = self.names.new(value.name_hint or default)
        self.text[value] = Text(name)
        return name

    def use(self, value: SSAValue) -> Text:
        """How a value reads as an operand of what is being written."""
        text = self.text[value]
        if value in self._pending:
            self._reads |= self._pending[value]
            self._uses_left[value] -= 1
            if self._uses_left[value] <= 0:
                del self._pending[value]
        return text

    def named(self, value: SSAValue) -> Text:
        """The same where the text is repeated: a pending value is written as a constant first."""
        if value in self._pending:
            self.write(value)
        return self.text[value]

    def reads_memory(self, value: SSAValue) -> bool:
        """Does the value's text have to be evaluated before memory changes?"""
        return bool(self._pending.get(value))

    def taken(self) -> Memory:
        """What the operands used since the last call read."""
        reads, self._reads = self._reads, frozenset()
        return reads

    def define(
        self, value: SSAValue, text: Text, reads: Memory = frozenset(), *, inline: bool = False
    ) -> None:
        """Gives a value its text: to be written at its use if that is `inline` or reads well."""
        users = self.users(value)
        self.text[value] = text
        self._pending[value] = reads
        self._uses_left[value] = len(users)
        assert isinstance(value.owner, Operation)
        local = all(user.parent is value.owner.parent for user in users)
        if text.level == Level.ATOM and text.depth == 0 and (local or not reads):
            if not reads:
                del self._pending[value]
            return
        once = local and len(users) == 1
        if not inline and not (once and _reads_well(value, users[0], text, reads)):
            self.write(value)

    def write(self, value: SSAValue) -> None:
        """Writes a value, pending or the name of a variable, as a constant of its own."""
        text = self.text[value]
        self._pending.pop(value, None)
        owner = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        assert owner is not None
        type = value_type(value, owner)
        defaults = {"bool": "p", "int": "i", "long long": "i"}
        self.line(f"const {type} {self.name(value, defaults.get(type, 'v'))} = {text};")

    def flush(self, written: SSAValue) -> None:
        """Writes the pending values that read memory which is about to be written."""
        self._write_where(lambda reads: None in reads or written in reads)

    def flush_all(self) -> None:
        """Writes the pending values that read any memory that can change."""
        self._write_where(bool)

    def flush_visible(self) -> None:
        """Writes the pending values that read what other threads can change."""
        self._write_where(lambda reads: any(r is None or not is_local(r) for r in reads))

    def flush_lanes(self) -> None:
        """Writes pending shuffles: all lanes of a warp have to reach them in the same order."""
        self._write_where(lambda reads: None in reads)

    def _write_where(self, test: Callable[[Memory], bool]) -> None:
        for value, reads in list(self._pending.items()):
            if test(reads):
                self.write(value)

    def folded(self, value: SSAValue, place: Text) -> str | None:
        """
        `place += x;` for a value that is about to be assigned to `place`, used nowhere else, and
        the sum of what the place holds and something; likewise for other operators. Else None.
        """
        update = value.owner
        if not isinstance(update, Operation) or value not in self._pending:
            return None
        operator = ACCUMULATIONS.get(type(update))
        if operator is None or len(self.users(value)) > 1:
            return None
        if value_type(value, update) in ("signed char", "short"):
            return None
        lhs, rhs = update.operands
        if isinstance(update, COMMUTATIVE) and self.text[lhs].text != place.text:
            lhs, rhs = rhs, lhs
        if self.text[lhs].text != place.text or self.text[rhs].text == place.text:
            return None
        self.use(value)
        return f"{place} {operator}= {self.text[rhs]};"


def _reads_well(value: SSAValue, user: Operation, text: Text, reads: Memory) -> bool:
    """Is a value readable, and evaluated by all lanes that define it, within its only user?"""
    stored = isinstance(user, scf.YieldOp) or (isinstance(user, kernel.StoreOp) and not user.where)
    if None in reads and not stored:
        shuffled = isinstance(value.owner, kernel.ShuffleOp)
        return shuffled and user.dialect_name() == "arith" and not is_conditional(user)
    if text.level == Level.TERNARY and not stored:
        return False
    if isinstance(value.type, IndexType):
        return False
    if stored or isinstance(user, scf.IfOp):
        return len(text.text) <= _MAX_STORED
    return text.depth <= _MAX_DEPTH and len(text.text) <= _MAX_OPERAND
