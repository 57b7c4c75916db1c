"""Launches and control flow on tensors become those on buffers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.lifetimes import Lifetimes
from dlc.dialects import flow, host, host_flow, kernel
from dlc.dialects.kernel_blocks import counters_of
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.layouts import shape_of, strides_of
from dlc.target import BUFFER_ALIGNMENT


@dataclass
class Buffering:
    """Puts the operations of the host dialect in the place of those on tensors."""

    lifetimes: Lifetimes
    types: Mapping[SSAValue, MemRefType]
    shared: Mapping[SSAValue, tuple[SSAValue, int]]
    """Places in memory that holds others, too, and where there; others are allocations."""
    once: Collection[Operation] = ()
    """The launches whose outputs are kept for the calls to come."""
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """The buffers that are there before what writes to them."""
    elements: dict[SSAValue, tuple[SSAValue, SSAValue]] = field(default_factory=dict)
    """What is written as an element of a buffer, at the counter of a loop."""

    def rewrite(self, block: Block) -> None:
        for op in list(block.ops):
            match op:
                case kernel.LaunchOp():
                    self._launch(op)
                case kernel.ViewOp():
                    self._view(op)
                case kernel.WholeOp():
                    self._whole(op)
                case flow.ForOp():
                    self._for(op)
                case flow.WhileOp():
                    self._while(op)
                case flow.IfOp():
                    self._if(op)
                case _:
                    pass

    def _type(self, value: SSAValue) -> MemRefType:
        return self.types.get(value) or default_type(value)

    def _make(self, place: SSAValue, before: Operation) -> SSAValue:
        """Memory for a place, as far as an operation knows."""
        if place in self.shared:
            made = host.SliceOp(*self.shared[place], self._type(place))
        else:
            made = allocation(self._type(place))
        made.location = before.location
        (buffer,) = made.results
        buffer.name_hint = place.name_hint
        Rewriter.insert_op(made, InsertPoint.before(before))
        return buffer

    def _output(self, value: SSAValue, launch: kernel.LaunchOp) -> SSAValue:
        """The buffer that a launch writes."""
        if value in self.elements:
            stack, counter = self.elements[value]
            part = host_flow.SelectOp(stack, counter, self._type(value))
            part.location, part.result.name_hint = launch.location, value.name_hint
            Rewriter.insert_op(part, InsertPoint.before(launch))
            return part.result
        return self.buffers.get(value) or self._make(value, launch)

    def _launch(self, launch: kernel.LaunchOp) -> None:
        """
        A launch that writes its outputs, of which some are filled with zeros before; the counts of
        blocks are zero where the program begins, and after each launch.
        """
        callee = launch.callee
        assert callee is not None
        inputs = dict(zip(callee.input_refs, launch.inputs, strict=True))
        updated = {o: inputs[i] for o, i in callee.updated_refs.items()}
        refs = zip(callee.output_refs, launch.outputs, strict=True)
        buffers = [updated.get(ref) or self._output(value, launch) for ref, value in refs]
        pairs, counters = zip(buffers, callee.output_refs, strict=True), counters_of(callee)
        before: list[Operation] = [
            host.ZeroOp(buffer)
            for buffer, ref in pairs
            if ref in callee.zeroed_refs and ref not in counters
        ]
        new = host.LaunchOp(callee.name_, launch.inputs, buffers)
        new.attributes |= launch.attributes
        if launch in self.once:
            new.attributes[host.ONCE] = UnitAttr()
        for made in (*before, new):
            made.location = launch.location
        Rewriter.replace_op(launch, [*before, new], buffers)

    def _view(self, op: kernel.ViewOp) -> None:
        """A box of a buffer, with the strides of that."""
        new = host.BufferViewOp(op.source, op.begin, self._type(op.result))
        new.location, new.result.name_hint = op.location, op.result.name_hint
        Rewriter.replace_op(op, new)

    def _whole(self, op: kernel.WholeOp) -> None:
        view = op.view.owner
        assert isinstance(view, host.BufferViewOp)
        Rewriter.replace_op(op, [], [view.memory])

    def _for(self, op: flow.ForOp) -> None:
        block, pieces = op.body.block, list(op.pieces)
        given = list(flow.yielded(op.body))[len(op.inits) :]
        inits = self._carry(op, [block])
        stacks = [self._make(stack, op) for stack in op.stacked]
        counter = block.insert_arg(IndexType(), 0)
        counter.name_hint = "i"
        for piece, source in zip(pieces, op.scanned, strict=True):
            assert isinstance(piece, BlockArgument)
            part = host_flow.SelectOp(source, counter, self._element(piece, source))
            part.location, part.result.name_hint = op.location, piece.name_hint
            Rewriter.insert_op(part, InsertPoint.at_start(block))
            piece.replace_all_uses_with(part.result)
            block.erase_arg(piece)
        for value, stack in zip(given, stacks, strict=True):
            self.elements[value] = stack, counter
        self.rewrite(block)
        self._end(block, 1)
        new = host_flow.ForOp(op.trips, inits, *_detach_regions(op))
        self._replace(op, new, [*new.last[::2], *stacks])

    def _while(self, op: flow.WhileOp) -> None:
        before, body = op.before.block, op.body.block
        inits = self._carry(op, [before, body])
        for block in (before, body):
            self.rewrite(block)
        end = before.last_op
        assert end is not None
        Rewriter.replace_op(end, host_flow.YieldOp([op.flag]), [])
        self._end(body, 0)
        new = host_flow.WhileOp(inits, *_detach_regions(op))
        self._replace(op, new, new.last[::2])

    def _if(self, op: flow.IfOp) -> None:
        buffers = [self._make(output, op) for output in op.outputs]
        for region in (op.then, op.otherwise):
            self.buffers |= zip(flow.yielded(region), buffers, strict=True)
            self.rewrite(region.block)
            end = region.block.last_op
            assert end is not None
            Rewriter.erase_op(end)
        self._replace(op, host_flow.IfOp(op.flag, *_detach_regions(op)), buffers)

    def _carry(self, op: flow.ForOp | flow.WhileOp, blocks: Sequence[Block]) -> list[SSAValue]:
        """
        The buffers that a loop carries: two for each value, beside each other, the one that the
        body reads and the one that it writes.
        """
        inits: list[SSAValue] = []
        given = list(flow.yielded(op.body))
        for number, (init, next) in enumerate(zip(op.inits, given, strict=False)):
            type = self._type(next)
            inits += (init, self._make(next, op))
            for block in blocks:
                current = block.args[2 * number]
                Rewriter.replace_value_with_new_type(current, type)
                spare = block.insert_arg(type, 2 * number + 1)
                spare.name_hint = next.name_hint
                self.buffers[next] = spare  # the last block, which writes it, comes last
        return inits

    def _end(self, block: Block, first: int) -> None:
        """Ends a body: what it wrote is read next, and what it read is written."""
        end, carried = block.last_op, block.args[first:]
        assert end is not None
        pairs = zip(carried[1::2], carried[::2], strict=True)
        Rewriter.replace_op(end, host_flow.YieldOp([v for pair in pairs for v in pair]), [])

    def _element(self, piece: SSAValue, source: SSAValue) -> MemRefType:
        if piece in self.types:
            return self.types[piece]
        assert isinstance(source.type, MemRefType)
        layout = StridedLayoutAttr(strides_of(source.type)[1:])
        return memref_type(source.type.element_type, shape_of(source)[1:], layout)

    def _replace(self, op: Operation, new: Operation, results: Sequence[SSAValue]) -> None:
        new.location = op.location
        Rewriter.replace_op(op, new, list(results))


def _detach_regions(op: Operation) -> list[Region]:
    return [op.detach_region(region) for region in list(op.regions)]


def default_type(value: SSAValue) -> MemRefType:
    """How a tensor lies in memory that no launch takes."""
    assert isinstance(value.type, TensorType)
    if isinstance(value.owner, flow.ForOp) and value in value.owner.stacked:
        return host_flow.stack_type(value.type)
    return memref_type(value.type.element_type, shape_of(value))


def allocation(type: MemRefType) -> memref.AllocOp:
    return memref.AllocOp([], [], type, IntegerAttr(BUFFER_ALIGNMENT, i64))
