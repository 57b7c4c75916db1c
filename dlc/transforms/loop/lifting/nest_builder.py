"""The loop nest of one operation on tensors, with what it reads computed where it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint

from dlc.dialects import loop, tensor_ir
from dlc.dialects.axes import new_body
from dlc.dialects.layouts import strides_of
from dlc.dialects.size import ValueOp
from dlc.dialects.size_index import SizeIndexOp, size_expr
from dlc.dialects.sized_types import sizes_of
from dlc.ir.affine_forms import from_affine
from dlc.ir.bounds import sure, within
from dlc.ir.evaluate import scalar
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size, Symbol, several
from dlc.transforms.loop.lifting.in_memory import (
    DISSOLVED,
    Layouts,
)

_FREE_AXES = ("a", "b", "h", "i", "j")
_REDUCE_AXES = ("k", "l", "m", "n")


class NestBuilder:
    """Builds the body of the kernel of one tensor operation, reading tensors on demand."""

    def __init__(self, op: Operation, layouts: Layouts, symbols: Mapping[str, Symbol]) -> None:
        self.op = op
        self.layouts = layouts
        self.symbols = symbols
        self.named: set[str] = set()
        """The sizes that the kernel says what they are."""
        self.block = Block()
        self.inputs: dict[SSAValue, SSAValue] = {}
        """The memref of each tensor that is read."""

    def build(self) -> tuple[list[SSAValue], Region]:
        """The tensors that the kernel reads, and its body."""
        op = self.op
        for result in op.results:
            self._name_sizes(result)
        if isinstance(op, tensor_ir.ScatterAddOp):
            return self._scatter(op)
        outer = Builder(InsertPoint.at_end(self.block))
        shape = tensor_ir.shape_of(op.results[0])
        strides = [strides_of(self.layouts.memref(r)) for r in op.results]
        # Points that lie on each other in memory, of what is returned expanded, are one.
        one = [not any(s[d] for s in strides) and several(n) for d, n in enumerate(shape)]
        looped = [d for d in range(len(shape)) if not one[d]]
        goes = isinstance(op, tensor_ir.ScanOp | tensor_ir.SortOp)
        scanned = [op.axis.value.data] if goes else []
        points = list(shape)
        if isinstance(op, tensor_ir.SortOp):
            points = list(tensor_ir.shape_of(op.inputs[0]))
            looped = sorted({*looped, *scanned})
        free = [d for d in looped if d not in scanned]
        builder, axes = outer, [Expr() for _ in shape]
        names = dict(enumerate(_free_names(len(shape)))) | dict.fromkeys(scanned, "k")
        for dimensions in (free, scanned):
            if dimensions:
                body = new_body(len(dimensions), [names[d] for d in dimensions])
                nest = loop.ForOp([points[d] for d in dimensions], body)
                builder.insert(nest)
                builder = Builder(InsertPoint.before(nest.yielded))
                for d, axis in zip(dimensions, nest.axes, strict=True):
                    # An axis stands for itself in subscripts, also where it has a single point.
                    axes[d] = Expr(((axis, 1),))
        values = self._compute(builder, axes)
        for value, result, steps in zip(values, op.results, strides, strict=True):
            index = len(self.block.args)
            ref = self.block.insert_arg(self.layouts.memref(result), index)
            ref.name_hint = result.name_hint or "out"
            first = [Expr() - axes[d] for d in looped if not steps[d] and several(shape[d])]
            first += [axes[d] * -1 + (shape[d] - 1) for d in scanned if points[d] != shape[d]]
            builder.insert(loop.StoreOp(value, ref, axes, first))
        return list(self.inputs), Region(self.block)

    def _scatter(self, op: tensor_ir.ScatterAddOp) -> tuple[list[SSAValue], Region]:
        """Goes over what is added, not over the result."""
        for tensor in op.operands:
            self._name_sizes(tensor)
        shape = tensor_ir.shape_of(op.source)
        builder = Builder(InsertPoint.at_end(self.block))
        axes: list[Expr] = []
        if shape:
            nest = loop.ForOp(shape, new_body(len(shape), _free_names(len(shape))))
            builder.insert(nest)
            builder = Builder(InsertPoint.before(nest.yielded))
            axes = [Expr(((axis, 1),)) for axis in nest.axes]
        value = self.read(builder, op.source, axes, ())
        indices = self._indices(builder, op.indices, axes)
        subscripts = _compose(op.map.data.results, [*axes, *indices])
        ref = self.block.insert_arg(self.layouts.memref(op.result), len(self.block.args))
        ref.name_hint = op.result.name_hint or "out"
        builder.insert(loop.AtomicAddOp(value, ref, subscripts, indices))
        return list(self.inputs), Region(self.block)

    def _indices(self, b: Builder, tensors: Sequence[SSAValue], axes: Sequence[Expr]) -> list[Expr]:
        """Elements of tensors as index values, named after them."""
        found: list[Expr] = []
        for tensor in tensors:
            element = self.read(b, tensor, axes, ())
            cast = b.insert(arith.IndexCastOp(element, IndexType()))
            cast.result.name_hint = tensor.name_hint
            found.append(Expr.of(cast.result))
        return found

    def _compute(self, b: Builder, axes: list[Expr]) -> list[SSAValue]:
        """Builds one element of each result of the operation."""
        match self.op:
            case tensor_ir.ElementwiseOp():
                return [self._elementwise(b, self.op, axes)]
            case tensor_ir.ReduceOp():
                return self._reduce(b, self.op, axes)
            case tensor_ir.ScanOp(monoid=monoid, axis=axis):
                values = self._read_all(b, self.op.inputs, axes)
                place = axes[axis.value.data]
                return self._along(b, loop.ScanOp(monoid.data, values, place))
            case tensor_ir.SortOp(axis=axis, bitonic=bitonic, count=count):
                values = self._read_all(b, self.op.inputs, axes)
                place = axes[axis.value.data]
                points = tensor_ir.shape_of(self.op.inputs[0])[axis.value.data]
                first: int | None = 1 << (count.value.data - 1).bit_length()
                if bitonic is not None or first == points:
                    first = None
                sort = loop.SortOp(values, place, bitonic=bitonic is not None, first=first)
                return self._along(b, sort)
            case tensor_ir.FoldOp():
                return [self._fold(b, self.op, axes)]
            case tensor_ir.GatherOp():
                operands = [*axes, *self._indices(b, self.op.indices, axes)]
                subscripts = _compose(self.op.map.data.results, operands)
                if isinstance(self.op.source.owner, DISSOLVED):
                    return [self.read(b, self.op.source, subscripts, ())]
                return [self._load(b, self.op.source, subscripts, (), None, in_bounds=True)]
            case _:
                return [self.read(b, self.op.results[0], axes, ())]

    def _elementwise(self, b: Builder, op: tensor_ir.ElementwiseOp, axes: list[Expr]) -> SSAValue:
        elements: dict[SSAValue, SSAValue] = {}
        for argument, tensor in zip(op.body.block.args, op.inputs, strict=True):
            elements[argument] = self.read(b, tensor, axes, ())
        for inner in op.body.block.ops:
            if isinstance(inner, tensor_ir.YieldOp):
                return elements.get(inner.value, inner.value)
            if isinstance(inner, ValueOp):
                elements[inner.result] = self._size_value(b, inner)
            else:
                b.insert(inner.clone(elements))
        raise AssertionError("an elementwise body ends in a yield")

    def _size_value(self, b: Builder, op: ValueOp) -> SSAValue:
        """A size as a number of a type. Errors of `size_expr`."""
        self._name(op.size.data)
        first = self.block.first_op
        assert first is not None
        return loop.size_as_number(b, op.size.data, first, op.result.type)

    def _reduce(self, b: Builder, op: tensor_ir.ReduceOp, axes: list[Expr]) -> list[SSAValue]:
        shape = tensor_ir.shape_of(op.inputs[0])
        folded = [int(a) for a in op.axes.get_values()]
        for tensor in op.inputs:
            self._name_sizes(tensor)
        body = new_body(len(folded), _reduce_names(len(folded)))
        inner = Builder(InsertPoint.at_end(body.block))
        types = [r.type.element_type for r in op.results if isinstance(r.type, TensorType)]
        reduce = loop.ReduceOp(op.monoid.data, [shape[a] for a in folded], types, body)
        b.insert(reduce)
        own = {a: Expr(((v, 1),)) for a, v in zip(folded, reduce.axes, strict=True)}
        free = iter(axes)
        subscripts = [own[d] if d in own else next(free) for d in range(len(shape))]
        values = [self.read(inner, tensor, subscripts, ()) for tensor in op.inputs]
        inner.insert(loop.YieldOp(values))
        for old, new in zip(op.results, reduce.results, strict=True):
            new.name_hint = old.name_hint
        return list(reduce.results)

    def _fold(self, b: Builder, op: tensor_ir.FoldOp, axes: list[Expr]) -> SSAValue:
        """A reduce over what one axis says the place of, up to a number of points."""
        self._name_sizes(op.source)
        extent = tensor_ir.shape_of(op.source)[op.axis]
        most = self._number(b, extent)
        none = b.insert(arith.ConstantOp(IntegerAttr(0, i64))).result
        first, last = (self.read(b, end, axes, ()) for end in op.ends)
        first, last = (
            b.insert(arith.MinSIOp(b.insert(arith.MaxSIOp(end, none)).result, most)).result
            for end in (first, last)
        )
        count = b.insert(arith.SubiOp(last, first)).result
        count = b.insert(arith.MaxSIOp(count, none)).result
        begin, points = (
            b.insert(arith.IndexCastOp(value, IndexType())).result for value in (first, count)
        )
        begin.name_hint, points.name_hint = "first", "points"
        body = new_body(1, _reduce_names(1))
        inner = Builder(InsertPoint.at_end(body.block))
        element = tensor_ir.element_of(op.result)
        reduce = loop.ReduceOp(op.monoid.data, [extent], [element], body)
        reduce.about = op.about
        b.insert(reduce)
        (axis,) = reduce.axes
        left = [Expr.of(points) - Expr.of(axis) - 1]
        subscripts = _compose(op.map.data.results, [*axes, Expr.of(begin) + Expr.of(axis)])
        if isinstance(op.source.owner, DISSOLVED):
            value = self.read(inner, op.source, subscripts, left)
        else:
            value = self._load(inner, op.source, subscripts, left, None, in_bounds=True)
        inner.insert(loop.YieldOp([value], left))
        reduce.results[0].name_hint = op.result.name_hint
        return reduce.results[0]

    def _number(self, b: Builder, extent: int) -> SSAValue:
        """An extent as an `i64`. Errors of `size_expr`."""
        if not isinstance(extent, Size):
            return b.insert(arith.ConstantOp(IntegerAttr(extent, i64))).result
        first = self.block.first_op
        assert first is not None
        return loop.size_as_number(b, extent, first, i64)

    def _read_all(
        self, b: Builder, tensors: Sequence[SSAValue], axes: Sequence[Expr]
    ) -> list[SSAValue]:
        return [self.read(b, tensor, axes, ()) for tensor in tensors]

    def _along(self, b: Builder, op: loop.ScanOp | loop.SortOp) -> list[SSAValue]:
        b.insert(op)
        for old, new in zip(self.op.results, op.results, strict=True):
            new.name_hint = old.name_hint
        return list(op.results)

    def read(
        self, b: Builder, tensor: SSAValue, at: Sequence[Expr], where: Sequence[Expr]
    ) -> SSAValue:
        """Builds the element of `tensor` at `at`, which need be right only where `where` holds."""
        match tensor.owner:
            case tensor_ir.ConstantOp(value=value):
                return b.insert(arith.ConstantOp(value)).result  # pyright: ignore[reportArgumentType]
            case tensor_ir.IotaOp(axis=axis, result=result):
                index = b.insert(loop.IndexOp(at[axis.value.data])).result
                assert isinstance(result.type, TensorType)
                return b.insert(arith.IndexCastOp(index, result.type.element_type)).result
            case tensor_ir.IndexMapOp():
                return self._read_map(b, tensor.owner, at, where)
            case _:
                return self._load(b, tensor, at, where, None)

    def _read_map(
        self,
        b: Builder,
        op: tensor_ir.IndexMapOp,
        at: Sequence[Expr],
        where: Sequence[Expr],
    ) -> SSAValue:
        """The first source whose condition holds is built last: it overrides the others."""
        value: SSAValue | None = None
        names = [Size.of(name) for name in op.named_sizes]
        for name in names:
            self._name(name)
        operands = [*at, *map(self._extent, names)]
        if op.fill is not None:
            value = b.insert(arith.ConstantOp(op.fill)).result  # pyright: ignore[reportArgumentType]
        elif op.conditions.data[-1].data.results:  # legal only where no element exists
            value = b.insert(arith.ConstantOp(scalar(0, tensor_ir.element_of(op.result)))).result
        for source, place, conditions in reversed(
            list(zip(op.sources, op.maps, op.conditions, strict=True))
        ):
            subscripts = _compose(place.data.results, operands)
            here = [c for c in _compose(conditions.data.results, operands) if not sure(c)]
            if not here:
                value = self.read(b, source, subscripts, where)
            elif isinstance(source.owner, DISSOLVED):
                inner = self.read(b, source, subscripts, [*where, *here])
                assert value is not None
                value = b.insert(loop.SelectOp(inner, here, value)).result
            else:
                value = self._load(b, source, subscripts, here, value)
        assert value is not None
        return value

    def _load(
        self,
        b: Builder,
        tensor: SSAValue,
        at: Sequence[Expr],
        where: Sequence[Expr],
        default: SSAValue | None,
        in_bounds: bool = False,
    ) -> SSAValue:
        """A load that stays in bounds: where neither `where` nor the ranges of the subscripts
        assure that, the bounds are added. `in_bounds` says that the program promises it."""
        ref = self._input(tensor)
        shape = tensor_ir.shape_of(tensor)
        extents = [Expr.of(n) if isinstance(n, int) else self._extent(n) for n in shape]
        guards = [
            c
            for subscript, extent in zip(at, extents, strict=True)
            if not in_bounds
            for c in within(subscript, extent, where)
        ]
        conditions = [*where, *guards]
        load = b.insert(loop.LoadOp(ref, at, conditions, default if conditions else None))
        load.result.name_hint = tensor.name_hint
        return load.result

    def _extent(self, size: Size) -> Expr:
        """A size as an index expression of the kernel."""
        first = self.block.first_op
        assert first is not None
        return size_expr(size, first)

    def _name_sizes(self, tensor: SSAValue) -> None:
        """Says at the beginning of the kernel what the sizes of a tensor are."""
        assert isinstance(tensor.type, TensorType)
        for size in (*sizes_of(tensor.type), *self.layouts.strides.get(tensor, ())):
            self._name(Size.of(size))

    def _name(self, size: Size) -> None:
        """Says at the beginning of the kernel what the names in a size are."""
        top = Builder(InsertPoint.at_start(self.block))
        for name in size.names:
            if name not in self.named:
                self.named.add(name)
                top.insert(SizeIndexOp(self.symbols[name]))

    def _input(self, tensor: SSAValue) -> SSAValue:
        if tensor not in self.inputs:
            self._name_sizes(tensor)
            ref = self.block.insert_arg(self.layouts.memref(tensor), len(self.inputs))
            ref.name_hint = tensor.name_hint
            self.inputs[tensor] = ref
        return self.inputs[tensor]


def _compose(exprs: Sequence[AffineExpr], operands: Sequence[Expr]) -> list[Expr]:
    """Affine expressions over numbered dimensions, with the dimensions replaced."""
    return [from_affine(e, operands) for e in exprs]


def _free_names(count: int) -> list[str]:
    """Names for the axes of a result, the last ones `%i` and `%j`."""
    if count == 1:
        return ["i"]
    extra = [f"d{n}" for n in range(count - len(_FREE_AXES))]
    return [*extra, *_FREE_AXES[-count:]]


def _reduce_names(count: int) -> list[str]:
    extra = [f"k{n}" for n in range(count - len(_REDUCE_AXES))]
    return [*_REDUCE_AXES[:count], *extra]
