"""
The host program that `@main` of a Kernel IR module is, and its steps.

Before `plan-buffers`, launches make tensors: each is an allocation, dropped after its last use.
After it, `@main` says itself what is allocated (`dlc/dialects/host.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from dlc.backend.bound_program import (
    Allocate,
    BoundProgram,
    Carry,
    Drop,
    For,
    If,
    Launch,
    Layout,
    Select,
    Slice,
    Step,
    View,
    While,
    Zero,
)
from dlc.backend.dtypes import torch_dtype
from dlc.backend.kernel_image import KernelImage
from dlc.diagnostics import fail
from dlc.dialects import flow, host, host_flow, kernel
from dlc.dialects.access import StoreOpBase
from dlc.dialects.layouts import shape_of, span_bytes, strides_of
from dlc.dialects.main_function import attributes_of, bounds_in, kind_in, main_of
from dlc.dialects.size import ReshapeOp, in_memory, symbols_around
from dlc.dialects.sized_types import sized_memref
from dlc.dialects.views import offset_bytes
from dlc.ir.provenance import ops_of


def layout_of(memref: Attribute) -> Layout:
    """A buffer as kernels see it."""
    assert isinstance(memref, MemRefType)
    return Layout(shape_of(memref), strides_of(memref), torch_dtype(memref.element_type))


@dataclass(frozen=True)
class HostProgram:
    """`@main` of a Kernel IR module as it is written."""

    main: func.FuncOp

    @staticmethod
    def of(module: ModuleOp) -> HostProgram:
        return HostProgram(main_of(module))

    def bind(self, image: Callable[[kernel.FuncOp], KernelImage] = KernelImage.of) -> BoundProgram:
        """
        The program as steps, with what each kernel is as `image`. OpError for sizes that are no
        numbers, and where `@main` does anything but launch kernels on memory.
        """
        main = self.main
        if names := symbols_around(main):
            fail(main, f"expected numbers for the sizes {', '.join(names)}", "--sizes states them")
        reader = _Reader(main, image)
        steps = tuple(reader.steps(main.body.block))
        planned = not any(isinstance(op, kernel.LaunchOp) for op in main.walk())
        hints = tuple(value.name_hint for value in reader.numbers)
        arguments = (reader.arguments.get(a) for a in main.body.block.args)
        bounds = tuple(bounds_in(attributes, main) for attributes in attributes_of(main))
        kinds = tuple(map(kind_in, attributes_of(main)))
        return BoundProgram(tuple(arguments), bounds, steps, reader.results, hints, planned, kinds)


def _check_written(func: kernel.FuncOp) -> None:
    """OpError for a kernel with an output that it writes nowhere, whose memory holds anything."""
    for ref in func.output_refs if func.grid_size else ():
        writes = any(_writes(use.operation) for use in ref.uses)
        held = ref in func.zeroed_refs or ref in func.updated_refs
        if not writes and not held and 0 not in shape_of(ref.type):
            fail(
                func,
                f"expected @{func.name_} to write its output %{ref.name_hint}, found no store to "
                "it: its elements would be whatever lies in memory",
                "dlc check says of each element whether it is written",
            )


def _writes(op: Operation) -> bool:
    """True for a store, and for a map of what the tensor memory accelerator stores to."""
    if isinstance(op, kernel.TensorMapOp):
        return any(isinstance(use.operation, kernel.TmaStoreOp) for use in op.result.uses)
    return isinstance(op, StoreOpBase)


class _Reader:
    """Numbers the values of `@main` and turns its operations to steps."""

    def __init__(self, main: func.FuncOp, image: Callable[[kernel.FuncOp], KernelImage]) -> None:
        self.image = image
        self.numbers: dict[SSAValue, int] = {a: n for n, a in enumerate(main.body.block.args)}
        self.arguments: dict[SSAValue, Layout] = {
            a: layout_of(a.type) for a in self.numbers if isinstance(a.type, MemRefType)
        }
        self.results: tuple[int, ...] = ()
        end = main.body.block.last_op
        self.returned = end.operands if isinstance(end, func.ReturnOp) else ()
        self.last_use = {in_memory(v): op for op in main.body.block.ops for v in op.operands}

    def steps(self, block: Block) -> Iterator[Step]:
        for op in block.ops:
            match op:
                case kernel.LaunchOp():
                    yield from self._tensors(op)
                case host.LaunchOp(callee=kernel.FuncOp() as callee):
                    yield self._launch(op, callee)
                case ReshapeOp():
                    self.numbers[op.result] = self.numbers[op.source]
                case memref.AllocOp():
                    yield Allocate(*self._new(op.memref), layout_of(op.memref.type))
                case host.SliceOp():
                    memory = self.numbers[op.memory]
                    layout = layout_of(op.result.type)
                    yield Slice(*self._new(op.result), memory, op.begin, layout)
                case host.ZeroOp():
                    yield self._zero(op)
                case host.BufferViewOp():
                    memory, layout = self.numbers[op.memory], layout_of(op.result.type)
                    yield View(*self._new(op.result), memory, op.offset, layout)
                case kernel.ViewOp():
                    yield self._view(op)
                case kernel.WholeOp():
                    yield Drop((self.numbers[op.view],))
                    self.numbers[op.result] = self.numbers[op.viewed.source]
                case host_flow.SelectOp():
                    yield self._select(op)
                case host_flow.ForOp():
                    (counter,) = self._all_new([op.counter])
                    carry, (body,) = self._loop(op)
                    yield For(op.trips, counter, carry, body)
                case host_flow.WhileOp():
                    carry, (before, body) = self._loop(op)
                    yield While(carry, before, self.numbers[op.flag], body)
                case host_flow.IfOp():
                    bodies = [tuple(self.steps(r.block)) for r in op.regions]
                    yield If(self.numbers[op.flag], *bodies)
                case host_flow.YieldOp():
                    pass
                case func.ReturnOp():
                    self.results = self._all(op.arguments)
                case _ if isinstance(op, flow.FLOW):
                    fail(
                        op,
                        f"expected control flow on buffers, found '{op.name}'",
                        "give it memory first: dlc-opt FILE -p plan-buffers",
                    )
                case _:
                    fail(
                        op,
                        f"expected launches and memory in @main, found '{op.name}'",
                        "take the module to Kernel IR first: dlc compile FILE --ir kernel",
                    )

    def _all(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return tuple(self.numbers[v] for v in values)

    def _all_new(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return tuple(self._new(value)[0] for value in values)

    def _select(self, op: host_flow.SelectOp) -> Select:
        whole, index = self._all([op.memory, op.index])
        return Select(*self._new(op.result), whole, index, op.step, layout_of(op.result.type))

    def _loop(self, op: host_flow.LoopOp) -> tuple[Carry, list[tuple[Step, ...]]]:
        names = tuple(self._all_new(names) for names in op.names)
        bodies = [tuple(self.steps(region.block)) for region in op.regions]
        results = self._all_new(op.last)
        return Carry(self._all(op.inits), names, self._all(op.next), results), bodies

    def _launch(self, op: host.LaunchOp | kernel.LaunchOp, callee: kernel.FuncOp) -> Launch:
        _check_written(callee)
        inputs, outputs = self._all(op.inputs), self._all(op.outputs)
        image = self.image(callee)
        once = isinstance(op, host.LaunchOp) and op.is_once
        return Launch(image, image.grid_size, inputs, outputs, tuple(ops_of(op)), once)

    def _new(self, value: SSAValue) -> tuple[int, str]:
        """A number and a name for a buffer."""
        number = self.numbers[value] = len(self.numbers)
        return number, value.name_hint or f"buffer_{number}"

    def _zero(self, op: host.ZeroOp) -> Zero:
        buffer = op.buffer
        assert isinstance(buffer.type, MemRefType)
        number, size = self.numbers[buffer], span_bytes(buffer.type)
        if isinstance(piece := buffer.owner, host.SliceOp):
            return Zero(number, self.numbers[piece.memory], piece.begin, size)
        return Zero(number, number, 0, size, op.counts)

    def _view(self, op: kernel.ViewOp) -> View:
        """A box of a tensor, which lies row by row where kernels share the views of it."""
        whole = default_memref(op.source.type)
        memory = self.numbers[op.source]
        layout = Layout(shape_of(op.result), strides_of(whole), torch_dtype(whole.element_type))
        return View(*self._new(op.result), memory, offset_bytes(op.begin, whole), layout)

    def _tensors(self, op: kernel.LaunchOp) -> Iterator[Step]:
        """A launch that makes tensors, each an allocation."""
        callee = op.callee
        assert callee is not None
        for value, ref in zip(op.inputs, callee.input_refs, strict=True):
            if isinstance(argument := in_memory(value), BlockArgument):
                type = ref.type if argument is value else default_memref(argument.type)
                self.arguments.setdefault(argument, layout_of(type))
        for value, ref in zip(op.outputs, callee.output_refs, strict=True):
            assert isinstance(ref.type, MemRefType)
            if (updated := callee.updated_refs.get(ref)) is not None:
                self.numbers[value] = self.numbers[op.inputs[callee.input_refs.index(updated)]]
                continue
            number, name = self._new(value)
            type = self._returned_as(value, ref.type)
            assert isinstance(type, MemRefType)
            yield Allocate(number, name, layout_of(type))
            if ref in callee.zeroed_refs:
                yield Zero(number, number, 0, span_bytes(type))
        yield self._launch(op, callee)
        unused = [v for v in op.outputs if v not in self.last_use]
        updated = callee.updated_of(op.inputs)
        inputs = dict.fromkeys(map(in_memory, op.inputs))
        ended = [v for v in inputs if self.last_use[v] is op and v not in updated]
        if dead := self._all([*ended, *unused]):
            yield Drop(dead)

    def _returned_as(self, value: SSAValue, type: Attribute) -> Attribute:
        """The type of a tensor as `@main` returns it, if that is under another shape."""
        for returned in self.returned:
            if returned is not value and in_memory(returned) is value:
                return default_memref(returned.type)
        return type


def default_memref(tensor: Attribute) -> MemRefType:
    """How a tensor lies in memory row by row."""
    assert isinstance(tensor, TensorType)
    return sized_memref(tensor.element_type, shape_of(tensor))
