"""Checks a host program in the order of its text: what is read holds data, and still holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from dlc.analysis.layout import span_bytes
from dlc.dialects.host import LaunchOp, SliceOp, ZeroOp


@dataclass(frozen=True)
class Extent:
    """The bytes `[begin, end)` of an argument or an allocation."""

    root: SSAValue
    begin: int
    end: int

    @staticmethod
    def of(buffer: SSAValue) -> Extent:
        """Where a buffer lies."""
        assert isinstance(buffer.type, MemRefType)
        size = span_bytes(buffer.type)
        if isinstance(piece := buffer.owner, SliceOp):
            return Extent(piece.memory, piece.begin, piece.begin + size)
        return Extent(buffer, 0, size)

    def meets(self, other: Extent) -> bool:
        return self.root is other.root and self.begin < other.end and other.begin < self.end


def verify_order(block: Block) -> None:
    """
    Raises `VerifyException` for a program that reads a buffer before it is written or after another
    one was written over it, that writes an argument, whose kernel writes what it reads or another
    of its outputs, or adds to what is not zero, and for one that returns a part of an allocation.
    """
    state = _State()
    for op in block.ops:
        match op:
            case LaunchOp():
                state.launch(op)
            case ZeroOp():
                state.write(op, op.buffer)
            case func.ReturnOp():
                for value in op.arguments:
                    state.give(op, value)
            case _:
                pass


@dataclass
class _State:
    """What has been written so far."""

    holds: dict[SSAValue, Operation] = field(default_factory=dict)
    """Who wrote what a buffer holds."""
    lost: dict[SSAValue, tuple[SSAValue, Operation]] = field(default_factory=dict)
    """What was written over a buffer, and by whom."""
    extents: dict[SSAValue, Extent] = field(default_factory=dict)

    def extent(self, value: SSAValue) -> Extent:
        if value not in self.extents:
            self.extents[value] = Extent.of(value)
        return self.extents[value]

    def launch(self, op: LaunchOp) -> None:
        for value in op.inputs:
            self.read(op, value)
        for number, output in enumerate(op.outputs):
            for other in (*op.inputs, *op.outputs[:number]):
                if self.extent(output).meets(self.extent(other)):
                    expected = f"an output that shares no memory with {_name(other)}"
                    raise _error(op, expected, _name(output))
        callee = op.callee
        assert callee is not None
        zeroed = callee.zeroed_refs
        for output, ref in zip(op.outputs, callee.output_refs, strict=True):
            if ref in zeroed and not isinstance(self.holds.get(output), ZeroOp):
                raise _error(op, f"{_name(output)} to be zeroed before", "no host.zero of it")
        for output in op.outputs:
            self.write(op, output)

    def read(self, op: Operation, value: SSAValue) -> None:
        extent = self.extent(value)
        if isinstance(value, BlockArgument) or extent.begin == extent.end or value in self.holds:
            return
        if value not in self.lost:
            raise _error(op, f"{_name(value)} to be written before it is read", "no write of it")
        other, writer = self.lost[value]
        raise _error(
            op,
            f"{_name(value)} to hold what was written to it",
            f"{_name(other)}, which {_title(writer)} writes over it",
        )

    def write(self, op: LaunchOp | ZeroOp, value: SSAValue) -> None:
        extent = self.extent(value)
        if not isinstance(extent.root.owner, memref.AllocOp):
            raise _error(op, "writes to allocations only", f"{_name(value)}, which is none")
        for other in [v for v in self.holds if self.extent(v).meets(extent)]:
            del self.holds[other]
            self.lost[other] = (value, op)
        self.holds[value] = op

    def give(self, op: func.ReturnOp, value: SSAValue) -> None:
        if not isinstance(value, BlockArgument) and not isinstance(value.owner, memref.AllocOp):
            raise _error(op, "results that are allocations of their own", _name(value))
        self.read(op, value)


def _error(op: Operation, expected: str, found: str) -> VerifyException:
    return VerifyException(f"{_title(op)}: expected {expected}, found {found}")


def _title(op: Operation) -> str:
    return f"@{op.kernel_name}" if isinstance(op, LaunchOp) else op.name


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint or 'buffer'}"
