"""The state of materializing one kernel: where code is inserted and what tile values became."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefLayoutAttr, NoneAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from dlc.dialects import kernel, tile
from dlc.dialects.access import LoadOpBase
from dlc.dialects.kernel_memory import is_local
from dlc.dialects.layouts import shape_of
from dlc.ir.expr import Expr
from dlc.ir.variance import Variance, variance
from dlc.transforms.kernel.materialization.kernel_builder import KernelBuilder


@dataclass(frozen=True)
class LocalArray:
    """A value that varies along register axes: one element per point, outermost axis first."""

    ref: SSAValue
    axes: tuple[BlockArgument, ...]


@dataclass(frozen=True)
class Accumulators:
    """What a reduce folds into: a local array for each value of its monoid."""

    arrays: tuple[LocalArray, ...]

    @property
    def axes(self) -> tuple[BlockArgument, ...]:
        return self.arrays[0].axes


def beside(op: Operation, sibling: Operation) -> Operation | None:
    """The op of `sibling`'s block that `op` stands in."""
    current: Operation | None = op
    while current is not None and current.parent is not sibling.parent:
        current = current.parent_op()
    return current


class Emitter(KernelBuilder):
    """Emits a kernel in which nothing of the tile dialect is left; see `materialize_tiles`."""

    def __init__(self, source: kernel.FuncOp) -> None:
        super().__init__(source, Block(arg_types=[ref.type for ref in source.refs]))
        self.along: Variance = variance(source)
        self.func = kernel.FuncOp.create(
            properties=dict(source.properties),
            attributes=dict(source.attributes),
            regions=[Region(self.body)],
        )
        self.func.location = source.location
        self.scalars: dict[SSAValue, SSAValue] = {}
        self.arrays: dict[SSAValue, LocalArray] = {}
        self.registers: list[BlockArgument] = []
        """The register axes in scope, outermost first."""
        self.extents: dict[SSAValue, int] = {}
        self.accumulators: dict[Operation, Accumulators] = {}
        """What each reduce in progress folds into."""
        self.unused_memory: list[kernel.AllocLocalOp] = []
        """What has been passed and is emitted before what uses it first."""
        self.loaded: dict[SSAValue, SSAValue] = {}
        """What has been read from arrays at the current point."""
        for ref, argument in zip(source.refs, self.body.args, strict=True):
            argument.name_hint = ref.name_hint
            self.scalars[ref] = argument

    def scratch(
        self,
        element: Attribute,
        shape: Sequence[int],
        name: str | None,
        layout: MemRefLayoutAttr | NoneAttr = NoneAttr(),
    ) -> SSAValue:
        """Allocates shared memory, at the top of the kernel."""
        alloc = kernel.AllocSharedOp(element, shape, layout)
        alloc.result.name_hint = name
        self.insert_at_top(alloc)
        return alloc.result

    def hoist(self, op: Operation) -> None:
        """Defines memory or a tensor map at the top of the kernel, after what is there."""
        new = op.clone({v: self.value(v) for v in op.operands})
        self.insert_at_top(new)
        self.scalars[op.results[0]] = new.results[0]

    @contextmanager
    def along_registers(self, axes: Sequence[BlockArgument]) -> Iterator[None]:
        """Emits where further register axes are in scope."""
        outer = self.registers
        self.registers = [*axes, *outer]
        yield
        self.registers = outer

    def define_memory(self, op: Operation) -> None:
        """Emits the memory of a thread that an op is the first to use."""
        if not self.unused_memory:
            return
        used = {value for inner in op.walk() for value in inner.operands}
        for memory in [m for m in self.unused_memory if m.result in used]:
            self.unused_memory.remove(memory)
            new = memory.clone()
            self.scalars[memory.result] = self.insert(new, memory.result.name_hint)

    def array_of(self, op: tile.LoadOp) -> LocalArray | None:
        """
        The local array that a load gives all elements of, one at each point of its register axes,
        and that nothing writes afterwards; None if it gives less or something else.
        """
        if not is_local(op.ref) or not op.subscripts:
            return None
        axes = tuple(a for a in op.indices if isinstance(a, BlockArgument) and a in self.registers)
        whole = tuple(self.extents[a] for a in axes) == shape_of(op.ref) and not op.where
        if not whole or op.subscripts != tuple(map(Expr.of, axes)):
            return None
        for use in op.ref.uses:
            other = None if isinstance(use.operation, LoadOpBase) else beside(use.operation, op)
            if other is not None and op.is_before_in_block(other):
                return None
        return LocalArray(self.scalars[op.ref], axes)

    @contextmanager
    def at_point(self, axes: Sequence[SSAValue]) -> Iterator[None]:
        """Emits at a point of register axes: nothing varies along them."""
        outer = self.registers
        self.registers = [a for a in outer if a not in axes]
        yield
        self.registers = outer

    def over(self, axes: Sequence[SSAValue], emit: Callable[[], None]) -> None:
        """Emits unrolled loops over register axes, `emit` in the innermost."""
        if not axes:
            emit()
            self.loaded = {}
            return
        first, *rest = axes
        with self.loop(self.extents[first], first.name_hint, unroll=True) as index:
            self.scalars[first] = index
            self.over(rest, emit)
            del self.scalars[first]

    def register_axes(self, op: Operation) -> tuple[BlockArgument, ...]:
        """The register axes in scope along which an op's results or effects vary."""
        values = op.results or op.operands
        along = frozenset[SSAValue]().union(*(self.along[v] for v in values))
        return tuple(a for a in self.registers if a in along)

    def local(
        self, element: Attribute, axes: Sequence[BlockArgument], name: str | None
    ) -> LocalArray:
        """Allocates an element per point of `axes`."""
        shape = [self.extents[a] for a in axes]
        return LocalArray(self.insert(kernel.AllocLocalOp(element, shape), name), tuple(axes))

    def at(self, array: LocalArray) -> list[Expr]:
        """The subscripts of the current point in an array."""
        return [Expr.of(self.scalars[a]) for a in array.axes]

    def value(self, value: SSAValue) -> SSAValue:
        """What a tile value is at the current point of the register axes."""
        if value in self.loaded:
            return self.loaded[value]
        if value in self.arrays:
            array = self.arrays[value]
            element = self.insert(kernel.LoadOp(array.ref, self.at(array)), value.name_hint)
            self.loaded[value] = element
            return element
        if value not in self.scalars:
            owner = value.owner
            if isinstance(owner, arith.ConstantOp):
                return self.constant(owner.value)
            if isinstance(owner, tile.IndexOp):
                return self.insert(kernel.IndexOp(self.expr(owner.subscripts[0])), value.name_hint)
        return self.scalars[value]
