"""
The host program that `@main` of a Kernel IR module is, and the list of steps that it is once it is
bound to sizes. Execution, export and the count of bytes all go by these steps.

Before `plan-buffers`, launches make tensors: each is an allocation, dropped after its last use.
After it, `@main` says itself what is allocated (`dlc/dialects/host.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    ComplexType,
    DenseArrayBase,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from dlc.backend import BackendError
from dlc.diagnostics import fail
from dlc.dialects import flow, host, host_flow, kernel
from dlc.dialects.access import StoreOpBase
from dlc.dialects.layouts import shape_of, span_bytes, strides_of
from dlc.dialects.user_outputs import is_complex
from dlc.ir.elements import find_element


def torch_dtype(type: Attribute) -> torch.dtype:
    """The dtype whose memory holds such elements; BackendError if torch has none."""
    if isinstance(type, ComplexType):
        return torch_dtype(type.element_type).to_complex()
    if (row := find_element(type)) is None:
        raise BackendError(f"expected elements that torch can hold, found {type}")
    return getattr(torch, row.torch)


def user_dtype(type: Attribute, attributes: Mapping[str, Attribute]) -> torch.dtype:
    """
    The dtype of the user's tensor for an argument or a result of `@main`: below Torch IR unsigned
    bytes are `i8`, and complex numbers pairs of reals, with a mark.
    """
    if attributes.get("dlc.dtype") == StringAttr("u8"):
        return torch.uint8
    assert isinstance(type, TensorType | MemRefType)
    dtype = torch_dtype(type.element_type)
    return dtype.to_complex() if is_complex(attributes) else dtype


def user_shape(type: Attribute, dtype: torch.dtype) -> tuple[int, ...]:
    """The shape of that tensor, which is of this dtype."""
    return shape_of(type)[:-1] if dtype.is_complex else shape_of(type)


@dataclass(frozen=True)
class Layout:
    """A tensor as kernels see it; strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(memref: Attribute) -> Layout:
        assert isinstance(memref, MemRefType)
        shape = shape_of(memref)
        return Layout(shape, strides_of(memref), torch_dtype(memref.element_type))

    @property
    def bytes(self) -> int:
        """From the first element to the end of the last."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return (1 + sum((n - 1) * s for n, s in steps)) * self.dtype.itemsize

    def allocate(self, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)

    def fits(self, tensor: torch.Tensor) -> bool:
        """True if a tensor has this shape, these strides and elements of this size."""
        if tensor.shape != self.shape or tensor.element_size() != self.dtype.itemsize:
            return False
        strides = zip(self.shape, self.strides, tensor.stride(), strict=True)
        return 0 in self.shape or all(n == 1 or own == other for n, own, other in strides)

    def __str__(self) -> str:
        return f"{list(self.shape)} of {self.dtype} with strides {list(self.strides)}"


@dataclass(frozen=True)
class Allocate:
    """New memory for the buffer `number`."""

    number: int
    name: str
    layout: Layout


@dataclass(frozen=True)
class Slice:
    """The buffer `number` lies in the allocation `memory`, from the byte `offset` on."""

    number: int
    name: str
    memory: int
    offset: int
    layout: Layout


@dataclass(frozen=True)
class Zero:
    """Fills `size` bytes of a buffer with zeros: those of `memory` from the byte `offset` on."""

    number: int
    memory: int
    offset: int
    size: int


@dataclass(frozen=True)
class Launch:
    """Runs so many blocks of a kernel on buffers."""

    func: kernel.FuncOp
    grid: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    op: host.LaunchOp | kernel.LaunchOp


@dataclass(frozen=True)
class Drop:
    """Nothing uses these buffers any more."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Select:
    """The buffer `number` is the element of `whole` that `index` says, `step` bytes each."""

    number: int
    name: str
    whole: int
    index: int
    step: int
    layout: Layout


@dataclass(frozen=True)
class Carry:
    """What loops carry: buffers under other numbers, inside and as results."""

    inits: tuple[int, ...]
    names: tuple[tuple[int, ...], ...]
    """The numbers in each body."""
    next: tuple[int, ...]
    """The buffers that the last body goes on with."""
    results: tuple[int, ...]


@dataclass(frozen=True)
class For:
    """Takes the steps of a body `count` times; the number `counter` is that of the turn."""

    count: int
    counter: int
    carry: Carry
    body: tuple[Step, ...]


@dataclass(frozen=True)
class While:
    """Takes the steps of `before`, and while the buffer `flag` then says so, those of the body."""

    carry: Carry
    before: tuple[Step, ...]
    flag: int
    body: tuple[Step, ...]


@dataclass(frozen=True)
class If:
    """Takes the steps of one of two bodies, as the buffer `flag` says."""

    flag: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


Step: TypeAlias = Allocate | Slice | Select | Zero | Launch | Drop | For | While | If


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps and those of bodies, in the order of the text."""
    for step in steps:
        yield step
        for body in bodies_of(step):
            yield from flat(body)


def bodies_of(step: Step) -> Sequence[Sequence[Step]]:
    match step:
        case For():
            return [step.body]
        case While():
            return [step.before, step.body]
        case If():
            return [step.then, step.otherwise]
        case _:
            return []


@dataclass(frozen=True)
class BoundProgram:
    """`@main` as steps on numbered buffers, arguments first; every size is a number."""

    arguments: tuple[Layout | None, ...]
    """The layout of each argument; None if no kernel reads it."""
    bounds: tuple[tuple[int, int] | None, ...]
    """The least and the greatest element allowed in each argument that holds indices."""
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    hints: tuple[str | None, ...]
    """What the IR calls each buffer, by number."""

    @property
    def count(self) -> int:
        """The number of buffers."""
        return len(self.hints)

    @property
    def launches(self) -> list[Launch]:
        """In the order of the text, where each stands once."""
        return [step for step in flat(self.steps) if isinstance(step, Launch)]

    @property
    def updated(self) -> frozenset[int]:
        """The arguments that kernels write."""
        written = {n for launch in self.launches for n in launch.outputs}
        return frozenset(written.intersection(range(len(self.arguments))))

    @property
    def branches_on_data(self) -> bool:
        """True if what is launched depends on what was computed, so that the host waits for it."""
        return any(isinstance(step, While | If) for step in flat(self.steps))

    @property
    def funcs(self) -> list[kernel.FuncOp]:
        """The kernels, in the order of their first launches."""
        return list(dict.fromkeys(launch.func for launch in self.launches))


@dataclass(frozen=True)
class HostProgram:
    """`@main` of a Kernel IR module as it is written, whatever the sizes of its tensors are."""

    main: func.FuncOp

    @staticmethod
    def of(module: ModuleOp) -> HostProgram:
        return HostProgram(host.main_of(module))

    def bind(self, sizes: Mapping[str, int]) -> BoundProgram:
        """
        The program for these values of the sizes that tensors leave open, by name; as yet none
        leaves one open. OpError where `@main` does anything but launch kernels on memory.
        """
        main = self.main
        if sizes:
            fail(main, f"expected no values of sizes, found some of {', '.join(sizes)}")
        reader = _Reader(main)
        steps = tuple(reader.steps(main.body.block))
        hints = tuple(value.name_hint for value in reader.numbers)
        arguments = (reader.arguments.get(a) for a in main.body.block.args)
        bounds = tuple(bounds_in(attributes, main) for attributes in attributes_of(main))
        return BoundProgram(tuple(arguments), bounds, steps, reader.results, hints)


def attributes_of(main: func.FuncOp) -> Sequence[Mapping[str, Attribute]]:
    """The attributes of each argument of `@main`."""
    if main.arg_attrs is None:
        return [{}] * len(main.body.block.args)
    return [attributes.data for attributes in main.arg_attrs.data]


def attributes_of_results(main: func.FuncOp) -> Sequence[Mapping[str, Attribute]]:
    """The attributes of each result of `@main`."""
    if main.res_attrs is None:
        return [{}] * len(main.function_type.outputs.data)
    return [attributes.data for attributes in main.res_attrs.data]


def bounds_in(attributes: Mapping[str, Attribute], main: func.FuncOp) -> tuple[int, int] | None:
    """The least and the largest element that an argument of `@main` may have, if that is said."""
    stated = attributes.get("dlc.bounds")
    if stated is None:
        return None
    if not isinstance(stated, DenseArrayBase) or len(stated) != 2:
        fail(main, f"expected dlc.bounds to be the least and the largest index, found {stated}")
    low, high = stated.get_values()
    return int(low), int(high)


def _check_written(func: kernel.FuncOp) -> None:
    """OpError for a kernel with an output that it writes nowhere, whose memory holds anything."""
    for ref in func.output_refs if func.grid_size else ():
        writes = any(isinstance(use.operation, StoreOpBase) for use in ref.uses)
        held = ref in func.zeroed_refs or ref in func.updated_refs
        if not writes and not held and 0 not in shape_of(ref.type):
            fail(
                func,
                f"expected @{func.name_} to write its output %{ref.name_hint}, found no store to "
                "it: its elements would be whatever lies in memory",
                "dlc check says of each element whether it is written",
            )


class _Reader:
    """Numbers the values of `@main` and turns its operations to steps."""

    def __init__(self, main: func.FuncOp) -> None:
        self.numbers: dict[SSAValue, int] = {a: n for n, a in enumerate(main.body.block.args)}
        self.arguments: dict[SSAValue, Layout] = {
            a: Layout.of(a.type) for a in self.numbers if isinstance(a.type, MemRefType)
        }
        self.results: tuple[int, ...] = ()
        self.last_use = {v: op for op in main.body.block.ops for v in op.operands}

    def steps(self, block: Block) -> Iterator[Step]:
        for op in block.ops:
            match op:
                case kernel.LaunchOp():
                    yield from self._tensors(op)
                case host.LaunchOp(callee=kernel.FuncOp() as callee):
                    yield self._launch(op, callee)
                case memref.AllocOp():
                    yield Allocate(*self._new(op.memref), Layout.of(op.memref.type))
                case host.SliceOp():
                    memory = self.numbers[op.memory]
                    layout = Layout.of(op.result.type)
                    yield Slice(*self._new(op.result), memory, op.begin, layout)
                case host.ZeroOp():
                    yield self._zero(op.buffer)
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
        return Select(*self._new(op.result), whole, index, op.step, Layout.of(op.result.type))

    def _loop(self, op: host_flow.LoopOp) -> tuple[Carry, list[tuple[Step, ...]]]:
        names = tuple(self._all_new(names) for names in op.names)
        bodies = [tuple(self.steps(region.block)) for region in op.regions]
        results = self._all_new(op.last)
        return Carry(self._all(op.inits), names, self._all(op.next), results), bodies

    def _launch(self, op: host.LaunchOp | kernel.LaunchOp, callee: kernel.FuncOp) -> Launch:
        _check_written(callee)
        inputs, outputs = self._all(op.inputs), self._all(op.outputs)
        return Launch(callee, callee.grid_size, inputs, outputs, op)

    def _new(self, value: SSAValue) -> tuple[int, str]:
        """A number and a name for a buffer."""
        number = self.numbers[value] = len(self.numbers)
        return number, value.name_hint or f"buffer_{number}"

    def _zero(self, buffer: SSAValue) -> Zero:
        assert isinstance(buffer.type, MemRefType)
        number, size = self.numbers[buffer], span_bytes(buffer.type)
        if isinstance(piece := buffer.owner, host.SliceOp):
            return Zero(number, self.numbers[piece.memory], piece.begin, size)
        return Zero(number, number, 0, size)

    def _tensors(self, op: kernel.LaunchOp) -> Iterator[Step]:
        """A launch that makes tensors, each an allocation."""
        callee = op.callee
        assert callee is not None
        for value, ref in zip(op.inputs, callee.input_refs, strict=True):
            if not isinstance(value.owner, Operation):
                self.arguments.setdefault(value, Layout.of(ref.type))
        for value, ref in zip(op.outputs, callee.output_refs, strict=True):
            assert isinstance(ref.type, MemRefType)
            if (updated := callee.updated_refs.get(ref)) is not None:
                self.numbers[value] = self.numbers[op.inputs[callee.input_refs.index(updated)]]
                continue
            number, name = self._new(value)
            yield Allocate(number, name, Layout.of(ref.type))
            if ref in callee.zeroed_refs:
                yield Zero(number, number, 0, span_bytes(ref.type))
        yield self._launch(op, callee)
        unused = [v for v in op.outputs if v not in self.last_use]
        updated = callee.updated_of(op.inputs)
        ended = [v for v in dict.fromkeys(op.inputs) if self.last_use[v] is op and v not in updated]
        if dead := self._all([*ended, *unused]):
            yield Drop(dead)
