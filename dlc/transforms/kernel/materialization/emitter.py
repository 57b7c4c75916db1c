"""The state of materializing one kernel: where code is inserted and what tile values became."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from dlc.analysis.tile.rings import pending_groups
from dlc.dialects import kernel, tile
from dlc.dialects.layouts import static_shape
from dlc.ir.expr import Expr
from dlc.ir.variance import Variance, variance


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


@dataclass(frozen=True)
class Pipeline:
    """The rings that one loop works through and the tensor memory accelerator fills."""

    loop: tile.ReduceOp
    rings: tuple[tile.RingOp, ...]
    full: SSAValue
    """An mbarrier for each slot; its phase ends when the chunk has arrived in all rings."""
    empty: SSAValue | None
    """
    An mbarrier for each slot; its phase ends when all warps have released the chunk. None where no
    slot is filled a second time.
    """


class Emitter:
    """Emits a kernel in which nothing of the tile dialect is left; see `materialize_tiles`."""

    def __init__(self, source: kernel.FuncOp) -> None:
        self.source = source
        threads = [op for op in source.body.block.ops if isinstance(op, kernel.ThreadIdOp)]
        self.along: Variance = variance(source, [op.result for op in threads])
        self.body = Block(arg_types=[ref.type for ref in source.refs])
        self.func = kernel.FuncOp.create(
            properties=dict(source.properties),
            attributes=dict(source.attributes),
            regions=[Region(self.body)],
        )
        self.func.location = source.location
        self.builder = Builder(InsertPoint.at_end(self.body))
        self.scalars: dict[SSAValue, SSAValue] = {}
        self.arrays: dict[SSAValue, LocalArray] = {}
        self.registers: list[BlockArgument] = []
        """The register axes in scope, outermost first."""
        self.extents: dict[SSAValue, int] = {}
        self.accumulators: dict[Operation, Accumulators] = {}
        """What each reduce in progress folds into."""
        self._thread_ids = threads
        self.slots: dict[SSAValue, tuple[SSAValue, Expr]] = {}
        """Acquired slots: a ring's buffer, and the slot's number in it."""
        self.pending = pending_groups(source)
        self.pipelines: dict[tile.RingOp, Pipeline] = {}
        self.tensor_maps: dict[tile.RingOp, SSAValue] = {}
        self.meanings: dict[SSAValue, Expr] = {}
        """What axes of the slab that is computed stand for; of a register axis, where it begins."""
        self.loaded: dict[SSAValue, SSAValue] = {}
        """What has been read from arrays at the current point."""
        self._constants: dict[Attribute, SSAValue] = {}
        self._slot_numbers: dict[tuple[Block | None, Expr, int], Expr] = {}
        self._header: Operation | None = None
        for ref, argument in zip(source.refs, self.body.args, strict=True):
            argument.name_hint = ref.name_hint
            self.scalars[ref] = argument

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return self.source.block_size

    @property
    def thread_id(self) -> Expr:
        """The number of the thread, in the kernel that is emitted."""
        return Expr.of(self.scalars[self._thread_ids[0].result]) if self._thread_ids else Expr()

    def insert(self, op: Operation, name: str | None = None) -> SSAValue:
        """Inserts an op with one result and names it."""
        self.builder.insert(op)
        if name is not None:
            op.results[0].name_hint = name
        return op.results[0]

    def insert_at_top(self, op: Operation) -> None:
        """Inserts a definition that the whole kernel sees, after those that are there."""
        if self._header is not None:
            self.body.insert_op_after(op, self._header)
        elif (first := self.body.first_op) is not None:
            self.body.insert_op_before(op, first)
        else:
            self.body.add_op(op)
        self._header = op

    def constant(self, value: Attribute) -> SSAValue:
        """A constant, defined once at the top of the kernel."""
        if value not in self._constants:
            op = arith.ConstantOp(value)  # pyright: ignore[reportArgumentType]
            self.insert_at_top(op)
            self._constants[value] = op.result
        return self._constants[value]

    def index_constant(self, value: int) -> SSAValue:
        return self.constant(IntegerAttr(value, IndexType()))

    def scratch(self, element: Attribute, shape: Sequence[int], name: str | None) -> SSAValue:
        """Allocates shared memory, at the top of the kernel."""
        alloc = kernel.AllocSharedOp(element, shape)
        alloc.result.name_hint = name
        self.insert_at_top(alloc)
        return alloc.result

    def allocate_shared(self, result: SSAValue) -> SSAValue:
        """The shared buffer of a stage or ring, with its layout."""
        type = result.type
        assert isinstance(type, MemRefType)
        alloc = kernel.AllocSharedOp(type.element_type, static_shape(type), type.layout)
        alloc.result.name_hint = result.name_hint
        self.insert_at_top(alloc)
        self.scalars[result] = alloc.result
        return alloc.result

    def slot(self, chunk: Expr, depth: int) -> Expr:
        """The slot of a chunk in a ring, as a value of its own."""
        number = chunk % depth
        if number.is_constant or number == chunk:
            return number
        key = (self.builder.insertion_point.block, number, depth)
        if key not in self._slot_numbers:
            value = self.insert(kernel.IndexOp(number), "slot")
            self._slot_numbers[key] = Expr.of(value)
        return self._slot_numbers[key]

    def buffer(self, ref: SSAValue) -> tuple[SSAValue, list[Expr]]:
        """The memref that a tile memref became, and the subscripts in front of its own."""
        if ref in self.slots:
            buffer, slot = self.slots[ref]
            return buffer, [slot]
        return self.scalars[ref], []

    @contextmanager
    def loop(self, extent: int, name: str | None, *, unroll: bool) -> Iterator[SSAValue]:
        """Emits a loop from 0 up to `extent`; what is emitted inside becomes its body."""
        block = Block(arg_types=[IndexType()])
        block.args[0].name_hint = name
        loop = scf.ForOp(
            self.index_constant(0), self.index_constant(extent), self.index_constant(1), [],
            Region(block),
        )  # fmt: skip
        if unroll:
            loop.attributes["unroll"] = UnitAttr()
        self.builder.insert(loop)
        with self.inside(block):
            yield block.args[0]

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Emits into `block`, which is then closed by an empty yield."""
        outer, self.builder = self.builder, Builder(InsertPoint.at_end(block))
        yield
        self.builder.insert(scf.YieldOp())
        self.builder = outer

    @contextmanager
    def only_if(self, where: Sequence[Expr]) -> Iterator[None]:
        """Emits into an `scf.if` on the conditions, or in place if there are none."""
        if not where:
            yield
            return
        test = self.insert(kernel.TestOp(where))
        block = Block()
        self.builder.insert(scf.IfOp(test, [], Region(block)))
        with self.inside(block):
            yield

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

    def expr(self, expr: Expr, at: Mapping[SSAValue, Expr] | None = None) -> Expr:
        """An index expression over what its tile values became, some of them as `at` says."""

        def replace(value: SSAValue) -> Expr | SSAValue:
            if at is not None and value in at:
                return at[value]
            if value in self.meanings:
                begin = self.meanings[value]
                return begin + self.value(value) if value in self.registers else begin
            owner = value.owner
            if isinstance(owner, tile.IndexOp):
                return self.expr(owner.subscripts[0], at)
            return self.value(value)

        return expr.substitute(replace)

    def exprs(self, exprs: Sequence[Expr], at: Mapping[SSAValue, Expr] | None = None) -> list[Expr]:
        return [self.expr(e, at) for e in exprs]
