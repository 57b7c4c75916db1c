"""The state of lowering the register axes of one kernel: what its values became, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.ir.variance import Variance, variance
from dlc.transforms.kernel.lowering.kernel_builder import KernelBuilder

Memory = kernel.AllocLocalOp | tile.AccumulatorOp
"""What defines memory of a thread."""


@dataclass(frozen=True)
class LocalArray:
    """A value that varies along register axes: one element per point, outermost axis first."""

    ref: SSAValue
    axes: tuple[SSAValue, ...]
    parts: frozenset[SSAValue] = frozenset()
    """Those axes of which it has the points of one part."""


@dataclass(frozen=True)
class _Part:
    """Points of a register axis, so many from the first on."""

    first: Expr
    extent: int


class RegisterLowering(KernelBuilder):
    """Builds a kernel in which nothing of the tile dialect is left; see `lower_registers`."""

    def __init__(self, source: kernel.FuncOp) -> None:
        super().__init__(source, Block(arg_types=[ref.type for ref in source.refs]))
        self.func = kernel.FuncOp.create(  # first: its grid and block bound what is in it
            properties=dict(source.properties),
            attributes=dict(source.attributes),
            regions=[Region(self.body)],
        )
        self.func.location = source.location
        self._along: Variance = variance(source)
        self.scalars: dict[SSAValue, SSAValue] = {}
        """What values became that have one element at the current point."""
        self.arrays: dict[SSAValue, LocalArray] = {}
        """What values became that have an element at each point of register axes."""
        self.registers: list[BlockArgument] = []
        """The register axes along which values vary here, outermost first."""
        self._parts: dict[SSAValue, _Part] = {}
        self._in_part: dict[SSAValue, Expr] = {}
        """The current point of axes, counted from the first of their part."""
        self.unused_memory: list[Memory] = []
        """What has been passed and is defined before what uses it first."""
        self._loaded: dict[SSAValue, SSAValue] = {}
        """What has been read from arrays at the current point."""
        for ref, argument in zip(source.refs, self.body.args, strict=True):
            argument.name_hint = ref.name_hint
            self.scalars[ref] = argument

    # Memory.

    def local(self, element: Attribute, axes: Sequence[SSAValue], name: str | None) -> LocalArray:
        """Allocates an element per point of `axes`."""
        parts = self._parts
        shape = [parts[a].extent if a in parts else extent_of_register(a) for a in axes]
        ref = self.insert(kernel.AllocLocalOp(element, shape), name)
        return LocalArray(ref, tuple(axes), frozenset(a for a in axes if a in parts))

    def hoist(self, op: Operation) -> None:
        """Defines shared memory or a tensor map at the top of the kernel, after what is there."""
        new = op.clone({v: self.value(v) for v in op.operands})
        self.insert_at_top(new)
        self.scalars[op.results[0]] = new.results[0]

    def define(self, op: Memory) -> None:
        """Defines memory of a thread; accumulators are set."""
        if isinstance(op, kernel.AllocLocalOp):
            self.scalars[op.result] = self.insert(op.clone(), op.result.name_hint)
            return
        self._check_initial_values(op)
        pairs = list(zip(op.values, op.results, strict=True))
        arrays = [self.local(value.type, op.axes, ref.name_hint) for value, ref in pairs]
        self.scalars.update(zip(op.results, (array.ref for array in arrays), strict=True))
        same = {v: self.value(v) for v in op.values if v not in self.arrays}

        def element() -> None:
            for value, array in zip(op.values, arrays, strict=True):
                self.store(same[value] if value in same else self.value(value), array)

        self.over(op.axes, element)

    def _check_initial_values(self, op: tile.AccumulatorOp) -> None:
        """Fails unless an accumulator has an element for each value that it begins with."""
        for value in op.values:
            for axis in self.registers:
                if axis in self._along[value] and axis not in op.axes:
                    names = f"%{value.name_hint}", f"%{axis.name_hint}"
                    fail(
                        op,
                        f"an accumulator begins with {names[0]}, which varies along {names[1]}, "
                        "and has no element for each point of that axis",
                        f"name {names[1]} in `over(…)`",
                    )

    def define_memory(self, op: Operation) -> None:
        """Defines the memory of a thread that an op is the first to use."""
        if not self.unused_memory:
            return
        used = {value for inner in op.walk() for value in inner.operands}
        for memory in [m for m in self.unused_memory if not used.isdisjoint(m.results)]:
            self.unused_memory.remove(memory)
            self.define(memory)

    # Points of register axes.

    @contextmanager
    def along_registers(self, axes: Sequence[BlockArgument]) -> Iterator[None]:
        """Lowers where values vary along further register axes."""
        outer = self.registers
        self.registers = [*axes, *outer]
        yield
        self.registers = outer

    @contextmanager
    def at_point(self, axes: Sequence[SSAValue]) -> Iterator[None]:
        """Lowers at a point of register axes: nothing varies along them."""
        outer = self.registers
        self.registers = [a for a in outer if a not in axes]
        yield
        self.registers = outer

    def over(self, axes: Sequence[SSAValue], insert: Callable[[], None]) -> None:
        """Inserts unrolled loops over register axes; what `insert` does is in the innermost."""
        if not axes:
            insert()
            self._loaded = {}
            return
        first, *rest = axes
        with self._over(first):
            self.over(rest, insert)
        del self.scalars[first]

    @contextmanager
    def _over(self, axis: SSAValue) -> Iterator[None]:
        """Inserts into a loop over an axis, or the part of it that there is here."""
        name, part = axis.name_hint, self._parts.get(axis)
        if part is None:
            with self.loop(extent_of_register(axis), name, unroll=True) as self.scalars[axis]:
                yield
            return
        with ExitStack() as stack:
            at = Expr()
            if part.extent > 1:
                at = Expr.of(stack.enter_context(self.loop(part.extent, name, unroll=True)))
            self._in_part[axis] = at
            point = part.first + at
            here = point == at and part.extent > 1
            index = at.values()[0] if here else self.insert(kernel.IndexOp(point), name)
            self.scalars[axis] = index
            yield

    def in_part(self, axis: SSAValue) -> Expr:
        """The current point of an axis, counted from the first of the part that there is here."""
        return self._in_part[axis]

    @contextmanager
    def along_part(self, axis: SSAValue | None, first: Expr, extent: int) -> Iterator[None]:
        """Lowers where only so many points of a register axis are, from the first on."""
        if axis is None:
            yield
            return
        self._parts[axis] = _Part(first, extent)
        yield
        del self._parts[axis]

    def register_axes(self, op: Operation) -> tuple[BlockArgument, ...]:
        """The register axes along which an op's results or effects vary."""
        values = op.results or op.operands
        along = frozenset[SSAValue]().union(*(self._along[v] for v in values))
        return tuple(a for a in self.registers if a in along)

    def store(self, value: SSAValue, array: LocalArray) -> None:
        """Inserts a store of the current point's element."""
        self.builder.insert(kernel.StoreOp(value, array.ref, self._at(array)))

    def _at(self, array: LocalArray) -> list[Expr]:
        """The subscripts of the current point in an array."""
        parts = array.parts
        return [self._in_part[a] if a in parts else Expr.of(self.scalars[a]) for a in array.axes]

    def value(self, value: SSAValue) -> SSAValue:
        """What a value is at the current point of the register axes."""
        if value in self._loaded:
            return self._loaded[value]
        if value in self.arrays:
            array = self.arrays[value]
            element = self.insert(kernel.LoadOp(array.ref, self._at(array)), value.name_hint)
            self._loaded[value] = element
            return element
        if value not in self.scalars:
            owner = value.owner
            if isinstance(owner, arith.ConstantOp):
                return self.constant(owner.value)
            if isinstance(owner, tile.IndexOp):
                return self.insert(kernel.IndexOp(self.expr(owner.subscripts[0])), value.name_hint)
        return self.scalars[value]
