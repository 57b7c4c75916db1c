"""Where a kernel is lowered: what is inserted next, with the constants that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import LocationAttr, UnitAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from dlc.dialects import kernel, tile
from dlc.ir.attributes import INDEX, index_attr
from dlc.ir.expr import Expr


class KernelBuilder:
    """Inserts loops, conditions and what stands in them, and constants at the top of `body`."""

    def __init__(self, source: kernel.FuncOp, body: Block) -> None:
        self.source = source
        self.body = body
        self.place: LocationAttr = source.location
        """Where what is inserted next comes from, if it does not say so itself."""
        self.builder = self._builder_at(InsertPoint.at_end(body))
        self._constants: dict[Attribute, SSAValue] = {}
        self._header: Operation | None = None

    def _builder_at(self, point: InsertPoint) -> Builder:
        """Inserts at a point what comes from `place`."""
        return Builder(point, operation_insertion_handler=[self._take_place])

    def _take_place(self, op: Operation) -> None:
        if isinstance(op.location, UnknownLoc):
            op.location = self.place

    def value(self, value: SSAValue) -> SSAValue:
        """What a value of `source` is in what is inserted."""
        return value

    def index_value(self, value: SSAValue, at: Mapping[SSAValue, Expr] | None) -> Expr | SSAValue:
        """What an index value stands for; a `tile.index` for its expression."""
        owner = value.owner
        if isinstance(owner, tile.IndexOp):
            return self.expr(owner.subscripts[0], at)
        return self.value(value)

    def expr(self, expr: Expr, at: Mapping[SSAValue, Expr] | None = None) -> Expr:
        """An index expression over what its values became, some of them as `at` says."""

        def replace(value: SSAValue) -> Expr | SSAValue:
            return at[value] if at is not None and value in at else self.index_value(value, at)

        return expr.substitute(replace)

    def exprs(self, exprs: Sequence[Expr], at: Mapping[SSAValue, Expr] | None = None) -> list[Expr]:
        return [self.expr(e, at) for e in exprs]

    def before(self, op: Operation) -> None:
        """What is inserted next stands in front of an op, and comes from it."""
        self.place = op.location
        self.builder = self._builder_at(InsertPoint.before(op))

    def insert(self, op: Operation, name: str | None = None) -> SSAValue:
        """Inserts an op with one result and names it."""
        self.builder.insert(op)
        if name is not None:
            op.results[0].name_hint = name
        return op.results[0]

    def insert_at_top(self, op: Operation) -> None:
        """Inserts a definition that the whole body sees, after those that are there."""
        if self._header is not None:
            self.body.insert_op_after(op, self._header)
        elif (first := self.body.first_op) is not None:
            self.body.insert_op_before(op, first)
        else:
            self.body.add_op(op)
        self._header = op

    def constant(self, value: Attribute) -> SSAValue:
        """A constant, defined once at the top of the body."""
        if value not in self._constants:
            op = arith.ConstantOp(value)  # pyright: ignore[reportArgumentType]
            self.insert_at_top(op)
            self._constants[value] = op.result
        return self._constants[value]

    def constant_here(self, value: Attribute) -> SSAValue:
        """A constant where it is used."""
        return self.insert(arith.ConstantOp(value))  # pyright: ignore[reportArgumentType]

    def index_constant(self, value: int) -> SSAValue:
        return self.constant(index_attr(value))

    def index_of(self, expr: Expr | int) -> SSAValue:
        """A value for an index expression over what is inserted, a constant if it is one."""
        expr = Expr.of(expr)
        if expr.is_constant:
            return self.index_constant(expr.constant)
        match expr.terms:
            case ((SSAValue() as value, 1),) if not expr.constant:
                return value
            case _:
                return self.insert(kernel.IndexOp(expr))

    @contextmanager
    def loop(self, extent: Expr | int, name: str | None, *, unroll: bool) -> Iterator[SSAValue]:
        """Inserts a loop from 0 up to `extent`; what is inserted inside becomes its body."""
        bounds = self.index_constant(0), self.index_of(extent), self.index_constant(1)
        with self.loop_between(bounds, name, unroll=unroll) as index:
            yield index

    @contextmanager
    def loop_between(
        self,
        bounds: tuple[SSAValue, SSAValue, SSAValue],
        name: str | None,
        *,
        unroll: bool,
        about: Attribute | None = None,
    ) -> Iterator[SSAValue]:
        """
        Inserts a loop of which `bounds` are the first index, the end and the step; `about` says
        how many turns are likely.
        """
        block = Block(arg_types=[INDEX])
        block.args[0].name_hint = name
        loop = scf.ForOp(*bounds, [], Region(block))
        if unroll:
            loop.attributes["unroll"] = UnitAttr()
        if about is not None:
            loop.attributes["about"] = about
        self.builder.insert(loop)
        with self.inside(block):
            yield block.args[0]

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Inserts into `block`, which is then closed by an empty yield."""
        outer, self.builder = self.builder, self._builder_at(InsertPoint.at_end(block))
        yield
        self.builder.insert(scf.YieldOp())
        self.builder = outer

    @contextmanager
    def in_loop(self, loop: tile.ForOp) -> Iterator[None]:
        """Inserts into the body of a loop over axes, in front of its yield."""
        outer, self.builder = self.builder, self._builder_at(InsertPoint.before(loop.yielded))
        yield
        self.builder = outer

    @contextmanager
    def each(self, axes: Sequence[SSAValue]) -> Iterator[None]:
        """Inserts into a `tile.each` over register axes, or in place if there are none."""
        if not axes:
            yield
            return
        block = Block()
        self.builder.insert(tile.EachOp(axes, Region(block)))
        outer, self.builder = self.builder, self._builder_at(InsertPoint.at_end(block))
        yield
        self.builder = outer

    @contextmanager
    def branch(self, test: SSAValue) -> Iterator[None]:
        """Inserts into an `scf.if` on a condition."""
        block = Block()
        self.builder.insert(scf.IfOp(test, [], Region(block)))
        with self.inside(block):
            yield

    @contextmanager
    def either(self, test: SSAValue) -> Iterator[Callable[[], None]]:
        """Inserts into an `scf.if` on a condition, and from the call of what it gives into its
        else."""
        then, otherwise = Block(), Block()
        self.builder.insert(scf.IfOp(test, [], Region(then), Region(otherwise)))

        def other() -> None:
            self.builder.insert(scf.YieldOp())
            self.builder = self._builder_at(InsertPoint.at_end(otherwise))

        with self.inside(then):
            yield other

    @contextmanager
    def only_if(self, where: Sequence[Expr]) -> Iterator[None]:
        """Inserts into an `scf.if` on the conditions, or in place if there are none."""
        if not where:
            yield
            return
        with self.branch(self.insert(kernel.TestOp(where))):
            yield
