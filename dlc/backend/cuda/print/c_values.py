"""The text of SSA values: expressions written at their only use, or constants of their own."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.kernel.expression_parts import is_declaration, is_value, only_user
from dlc.backend.cuda.print.c_scalar import (
    ACCUMULATIONS,
    COMMUTATIVE,
    is_conditional,
    mentions_twice,
    value_type,
)
from dlc.backend.cuda.print.c_text import Level, Names, Text, broken_lines
from dlc.dialects import kernel

_MAX_DEPTH = 3
_MAX_OPERAND = 64
_MAX_STORED = 90


class Values:
    """
    The lines written so far, and how values read in what follows.

    A value is written at its only use if it stands there as a part of one expression that reads
    well; every other value is a constant of its own where it stands.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.lines: list[str] = []
        self.indent = 0
        self.names = Names(taken)
        self.text: dict[SSAValue, Text] = {}
        self._users: dict[Operation, Operation] = {}
        self._parts: set[SSAValue] = set()

    def line(self, text: str) -> None:
        """Writes one line, or several where it is too long."""
        self.lines += broken_lines(text, "  " * self.indent)

    def name(self, value: SSAValue, default: str) -> str:
        """Gives a value a name of its own."""
        name = self.names.new(value.name_hint or default)
        self.text[value] = Text(name)
        return name

    def enter(self, block: Block) -> None:
        """
        Finds the expressions of a block: operations that stand directly before their user, or
        before the scalar that their user declares.
        """
        expression: set[Operation] = set()
        for op in reversed(list(block.ops)):
            if is_declaration(op.next_op):
                continue
            user = only_user(op) if is_value(op) else None
            if user is None or user not in expression:
                expression = set()
            else:
                self._users[op] = user
            expression.add(op)

    def user_of(self, op: Operation) -> Operation | None:
        """The operation in whose expression an operation stands, if there is one."""
        return self._users.get(op)

    def define(self, op: Operation, text: Text, *, inline: bool = False) -> None:
        """
        Gives the result of an operation its text: written at its use if that is `inline` or reads
        well, or anywhere if it only repeats a name.
        """
        value = op.results[0]
        self.text[value] = text
        user = self._users.get(op)
        if inline or (user is not None and self._reads_well(op, user, text)):
            self._parts.add(value)
        elif not text.is_name or isinstance(op, kernel.LoadOp) or self._parts_of(op):
            self.write(value)

    def write(self, value: SSAValue) -> None:
        """Writes a value, or the name of a variable, as a constant of its own."""
        text = self.text[value]
        owner = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        assert owner is not None
        type = value_type(value, owner)
        defaults = {"bool": "p", "int": "i", "long long": "i"}
        self.line(f"const {type} {self.name(value, defaults.get(type, 'v'))} = {text};")

    def folded(self, value: SSAValue, place: Text) -> str | None:
        """
        `place += x;` for a value that is written where it is assigned to `place`, and is the sum
        of what the place holds and something; likewise for other operators. Else None.
        """
        update = value.owner
        if not isinstance(update, Operation) or value not in self._parts:
            return None
        operator = ACCUMULATIONS.get(type(update))
        if operator is None or value_type(value, update) in ("signed char", "short"):
            return None
        lhs, rhs = update.operands
        if isinstance(update, COMMUTATIVE) and self.text[lhs].text != place.text:
            lhs, rhs = rhs, lhs
        if self.text[lhs].text != place.text or self.text[rhs].text == place.text:
            return None
        return f"{place} {operator}= {self.text[rhs]};"

    def _parts_of(self, op: Operation) -> list[Operation]:
        """The operations that are written within the text of an operation."""
        return [v.owner for v in op.operands if v in self._parts and isinstance(v.owner, Operation)]

    def _reads_well(self, op: Operation, user: Operation, text: Text) -> bool:
        """True if a text is readable, and evaluated by all lanes that define it, in its user."""
        if isinstance(user, scf.YieldOp) and len(user.operands) > 1:
            return False  # all is evaluated before anything is assigned
        if isinstance(user, scf.YieldOp) or (isinstance(user, kernel.StoreOp) and not user.where):
            return len(text.text) <= _MAX_STORED
        if text.level == Level.TERNARY or (_repeats(user) and not text.is_name):
            return False
        if any(isinstance(part, kernel.ShuffleOp) for part in self._parts_of(op)):
            return False
        if isinstance(op, kernel.ShuffleOp):
            return user.dialect_name() == "arith" and not is_conditional(user)
        if isinstance(user, scf.IfOp):
            return len(text.text) <= _MAX_STORED
        return text.depth <= _MAX_DEPTH and len(text.text) <= _MAX_OPERAND


def _repeats(user: Operation) -> bool:
    """True if the text of an operation has an operand several times."""
    if isinstance(user, kernel.LoadOp):
        return isinstance(user.result.type, VectorType)  # as the default of every element
    return mentions_twice(user)
