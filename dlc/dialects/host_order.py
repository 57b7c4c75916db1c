"""
The order of a host program: what each buffer holds when an operation reads it.

Operations take effect in the order of the text. `verify_order` walks them; each says by itself what
it reads and writes (`Ordered.take_effect`). A body is walked twice, as what it leaves is what it
finds the next time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.layouts import span_bytes
from dlc.dialects.user_outputs import mutated_by


class Ordered(IRDLOperation, ABC):
    """An operation of the host program that reads or writes buffers."""

    ANSWERS: ClassVar = True
    """True if the last of these in a program answers for its order."""

    @property
    def title(self) -> str:
        """The operation in an error."""
        return self.name

    @abstractmethod
    def take_effect(self, state: Contents) -> None:
        """Reads and writes; VerifyException where a buffer does not hold what it should."""

    def verify_program(self) -> None:
        """Verifies the order of the program that this operation is the last of."""
        later = self.next_op
        while later is not None and not (isinstance(later, Ordered) and later.ANSWERS):
            later = later.next_op
        if later is None and self.parent and not isinstance(self.parent_op(), Ordered):
            verify_order(self.parent)


class Carrying(Ordered, ABC):
    """A loop that carries buffers: its bodies and its results have them under names of theirs."""

    @property
    @abstractmethod
    def carried(self) -> Sequence[SSAValue]:
        """The buffers that it is given."""

    @abstractmethod
    def buffers_of(self, name: SSAValue) -> Sequence[SSAValue]:
        """Those of them that one of its results, or a name in a body, may be."""


class PartOp(IRDLOperation, ABC):
    """An operation whose result is a part of the memory that is its first operand."""

    @property
    @abstractmethod
    def byte_range(self) -> tuple[int, int] | None:
        """The first byte and the end; None if these are known only as the program runs."""


@dataclass(frozen=True)
class Extent:
    """The bytes `[begin, end)` of an argument, an allocation, or a buffer that a loop carries."""

    root: SSAValue
    begin: int
    end: int

    @staticmethod
    def of(buffer: SSAValue) -> Extent:
        """The bytes of a buffer, of a part that moves those of all of it."""
        assert isinstance(buffer.type, MemRefType)
        if isinstance(part := buffer.owner, PartOp):
            return Extent.of(part.operands[0])._within(part.byte_range)
        return Extent(buffer, 0, span_bytes(buffer.type))

    def _within(self, part: tuple[int, int] | None) -> Extent:
        if part is None:
            return self
        return Extent(self.root, self.begin + part[0], self.begin + part[1])

    def without(self, other: Extent) -> list[Extent]:
        """What certainly does not share bytes with another one."""
        if not self.meets(other):
            return [self]
        if self.root is not other.root:
            return []
        ends = (self.begin, other.begin), (other.end, self.end)
        return [Extent(self.root, begin, end) for begin, end in ends if begin < end]

    @property
    def loop(self) -> Carrying | None:
        """The loop that carries the buffer, if one does."""
        owner = self.root.owner
        found = owner if isinstance(owner, Operation) else owner.parent_op()
        return found if isinstance(found, Carrying) else None

    @property
    def source(self) -> Operation | Block:
        """What gives the memory."""
        if (loop := self.loop) is None:
            return self.root.owner
        return Extent.of(loop.buffers_of(self.root)[0]).source

    def meets(self, other: Extent) -> bool:
        """True if the two may share bytes."""
        if self.root is other.root:
            return self.begin < other.end and other.begin < self.end
        mine, its = self.loop, other.loop
        if mine is its and mine is not None and self.root.owner is other.root.owner:
            return False  # a loop carries buffers that share nothing
        if self.begin == self.end or other.begin == other.end:
            return False
        if mine is not None and (its is None or not mine.is_ancestor(its)):
            return any(Extent.of(v).meets(other) for v in mine.buffers_of(self.root))
        if its is not None:
            return any(Extent.of(v).meets(self) for v in its.buffers_of(other.root))
        return False


def verify_order(block: Block) -> None:
    """
    Raises `VerifyException` for a program that reads a buffer before it is written or after another
    one was written over it, that writes an argument, whose kernel writes what it reads or another
    of its outputs, or adds to what is not zero, and for one that returns a part of an allocation.
    """
    Contents().walk(block)


@dataclass
class Contents:
    """What the buffers hold at a place of the program."""

    holds: dict[SSAValue, Operation] = field(default_factory=dict)
    """The operation that wrote the contents of a buffer."""
    lost: dict[SSAValue, tuple[SSAValue, Operation]] = field(default_factory=dict)
    """The buffer that was written over another one, and the operation that did."""
    extents: dict[SSAValue, Extent] = field(default_factory=dict)
    zeros: list[Extent] = field(default_factory=list)
    """What is full of zeros."""

    def walk(self, block: Block) -> None:
        """Takes the effects of the operations of a block."""
        for op in block.ops:
            if isinstance(op, Ordered):
                op.take_effect(self)
            elif isinstance(op, func.ReturnOp):
                for value in op.arguments:
                    self._give(op, value)

    def extent(self, value: SSAValue) -> Extent:
        if value not in self.extents:
            self.extents[value] = Extent.of(value)
        return self.extents[value]

    def read(self, op: Operation, value: SSAValue) -> None:
        extent = self.extent(value)
        if extent.begin == extent.end or self._is_held(value):
            return
        if value not in self.lost:
            raise error(op, f"{name_of(value)} to be written before it is read", "no write of it")
        other, writer = self.lost[value]
        raise error(
            op,
            f"{name_of(value)} to hold what was written to it",
            f"{name_of(other)}, which {title(writer)} writes over it",
        )

    def _is_held(self, value: SSAValue) -> bool:
        if value in self.holds:
            return True
        if isinstance(part := value.owner, PartOp):
            return part.byte_range is None and self._is_held(part.operands[0])
        return isinstance(value, BlockArgument) and self.extent(value).loop is None

    def is_zero(self, value: SSAValue) -> bool:
        """True if a buffer is full of zeros."""
        own = self.extent(value)
        alike = (z for z in self.zeros if z.root is own.root)
        return any(z.begin <= own.begin and own.end <= z.end for z in alike)

    def write(
        self, op: Operation, value: SSAValue, *, in_place: bool = False, zeros: bool = False
    ) -> None:
        """
        Notes a write: to an argument only in place, where a result is written back to it. `zeros`
        says that what is full of zeros still is.
        """
        extent = self.extent(value)
        if not zeros:
            self._overwrite_zeros(extent)
        mutated = in_place and _is_mutated(extent.root)
        if not isinstance(extent.source, memref.AllocOp) and not mutated:
            raise error(op, "writes to allocations only", f"{name_of(value)}, which is none")
        around = _wholes(value)
        for other in [v for v in self.holds if self.extent(v).meets(extent)]:
            if other not in around:
                self._lose(other, value, op)
        self.holds[value] = op

    def _overwrite_zeros(self, by: Extent) -> None:
        self.zeros = [rest for zeros in self.zeros for rest in zeros.without(by)]

    def _lose(self, value: SSAValue, to: SSAValue, op: Operation) -> None:
        del self.holds[value]
        self.lost[value] = (to, op)

    def hand_over(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """A loop takes buffers, which from then on have other names; they share no memory."""
        for number, value in enumerate(values):
            extent = self.extent(value)
            self._overwrite_zeros(extent)
            if not isinstance(extent.source, memref.AllocOp):
                raise error(op, "to carry allocations only", f"{name_of(value)}, which is none")
            for other in values[:number]:
                if extent.meets(self.extent(other)):
                    raise error(op, f"buffers apart from {name_of(other)}", name_of(value))
            for other in [v for v in self.holds if self.extent(v).meets(extent)]:
                self._lose(other, value, op)

    def either(self, bodies: Sequence[Callable[[Contents], None]]) -> None:
        """One of several bodies runs: what all of them leave is there."""
        kept = self.holds, self.lost, self.extents, self.zeros
        states = [Contents({**kept[0]}, {**kept[1]}, kept[2], [*kept[3]]) for _ in bodies]
        for body, state in zip(bodies, states, strict=True):
            body(state)
        for state in states:
            self.lost |= state.lost
        first, *others = states
        held = {v: w for v, w in first.holds.items() if all(v in s.holds for s in others)}
        self.holds = held
        self.zeros = [z for z in first.zeros if all(z in s.zeros for s in others)]

    def _give(self, op: func.ReturnOp, value: SSAValue) -> None:
        if self.extent(value).loop or not isinstance(value.owner, Block | memref.AllocOp):
            raise error(op, "results that are allocations of their own", name_of(value))
        self.read(op, value)


def _is_mutated(value: SSAValue) -> bool:
    """True if a buffer is an argument of a program that a result is written back to."""
    main = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    if not isinstance(value, BlockArgument) or not isinstance(main, func.FuncOp):
        return False
    return value.index in mutated_by(main)


def _wholes(value: SSAValue) -> list[SSAValue]:
    """What a part that moves is a part of: it holds what is written to its parts."""
    found: list[SSAValue] = []
    while isinstance(part := value.owner, PartOp) and part.byte_range is None:
        found.append(value := part.operands[0])
    return found


def error(op: Operation, expected: str, found: str) -> VerifyException:
    return VerifyException(f"{title(op)}: expected {expected}, found {found}")


def title(op: Operation) -> str:
    return op.title if isinstance(op, Ordered) else op.name


def name_of(value: SSAValue) -> str:
    return f"%{value.name_hint or 'buffer'}"
