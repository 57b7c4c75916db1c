"""The state of materializing one kernel: where code is inserted and what tile values became."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefLayoutAttr, NoneAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from dlc.dialects import kernel, tile
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
        self.meanings: dict[SSAValue, Expr] = {}
        """What axes of the slab that is computed stand for; of a register axis, where it begins."""
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
    def along_registers(
        self, axes: Sequence[BlockArgument], meanings: Mapping[SSAValue, Expr] | None = None
    ) -> Iterator[None]:
        """Emits where further register axes are in scope, and what some axes stand for is known."""
        outer = self.registers, self.meanings
        self.registers = [*axes, *self.registers]
        self.meanings = {**self.meanings, **(meanings or {})}
        yield
        self.registers, self.meanings = outer

    def over(self, axes: Sequence[BlockArgument], emit: Callable[[], None]) -> None:
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

    def index_value(self, value: SSAValue, at: Mapping[SSAValue, Expr] | None) -> Expr | SSAValue:
        """What an index value stands for; an axis of a slab for what the threads compute of it."""
        if value not in self.meanings:
            return super().index_value(value, at)
        begin = self.meanings[value]
        return begin + self.value(value) if value in self.registers else begin
