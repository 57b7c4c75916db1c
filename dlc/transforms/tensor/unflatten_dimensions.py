"""Dimensions that are products of sizes are as many dimensions as there are sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import dce

from dlc.dialects import flow, tensor_ir
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.size import ReshapeOp, in_memory
from dlc.dialects.sized_types import sized_tensor
from dlc.ir.affine_forms import to_map
from dlc.ir.reshaping import dimension_values, reshaped
from dlc.ir.sizes import NeedsNumber
from dlc.transforms.tensor.unflattening.parts_of_dimensions import (
    NATIVE,
    PartsOfDimensions,
    whole_dimensions,
)


@dataclass(frozen=True)
class UnflattenDimensionsPass(ModulePass):
    """
    What a program computes over joined sizes, as over `b * s` rows, is computed over each of them.

    *Legal always*: elements are the same in the same order, and an operation that computes with the
    number of a row gets the tensor as it was, in memory.
    *Faster because* what made the rows, what is computed of them and what takes them apart again
    can be one kernel, and no subscript is divided by a size.

    ```
    %f = size.reshape %x : tensor<?x?x64xf32, #size.of<b, s>> -> tensor<?x64xf32, #size.of<b * s>>
    %g = tensor_ir.elementwise (%a = %f) : tensor<?x64xf32, #size.of<b * s>> -> … { … }
    %y = size.reshape %g : tensor<?x64xf32, #size.of<b * s>> -> tensor<?x?x64xf32, #size.of<b, s>>
    ```
    becomes
    ```
    %y = tensor_ir.elementwise (%a = %x) : tensor<?x?x64xf32, #size.of<b, s>> -> … { … }
    ```

    A reshape that is left is of what `@main` takes or returns, or of what is read by the number of
    a row; programs of numbers have none.
    """

    name = "unflatten-dimensions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(inner, ReshapeOp) for inner in op.walk()):
            return
        for function in [f for f in op.ops if isinstance(f, func.FuncOp) and f.body.blocks]:
            blocks = flow.blocks_of(function.body.block)
            ops = [inner for block in blocks for inner in block.ops]
            unflattening = _Unflattening(PartsOfDimensions(ops))
            for block in blocks:
                for argument in block.args:
                    unflattening.take_apart(argument)
            for inner in ops:
                unflattening.rewrite(inner)
        dce(op)


@dataclass
class _Unflattening:
    """Rewrites operations, each after those that give what it takes."""

    parts: PartsOfDimensions

    def __post_init__(self) -> None:
        self.apart: dict[SSAValue, SSAValue] = {}
        """Tensors whose dimensions are taken apart, by what they are for the program."""
        self.whole: dict[SSAValue, SSAValue] = {}
        """The tensors of the program again, of those that are computed taken apart."""

    def rewrite(self, op: Operation) -> None:
        concerned = any(self._is_apart(v) for v in (*op.operands, *op.results))
        if not concerned and not isinstance(op, ReshapeOp):
            return
        if isinstance(op, ReshapeOp):
            source = self.apart.get(op.source, op.source)
            made = _under(source, self.parts.shape(op.result), InsertPoint.before(op), op)
            self._keep(op.result, made)
        elif isinstance(op, NATIVE) and not any(self.parts.of(*d) for d in whole_dimensions(op)):
            new = self._native(op)
            new.location = op.location
            new.attributes.update(op.attributes)
            Rewriter.insert_op(new, InsertPoint.before(op))
            for old, result in zip(op.results, new.results, strict=True):
                result.name_hint = old.name_hint
                self._keep(old, result)
        else:
            for number, operand in enumerate(op.operands):
                if operand in self.apart:
                    op.operands[number] = self._as_it_was(operand)
            for result in op.results:
                self.take_apart(result)

    def take_apart(self, value: SSAValue) -> None:
        """Takes apart what is given whole."""
        if self._is_apart(value):
            self.apart[value] = _under(value, self.parts.shape(value), _after(value), None)
            self.whole[value] = value

    def _is_apart(self, value: SSAValue) -> bool:
        return self.parts.shape(value) != shape_of(value)

    def _keep(self, old: SSAValue, new: SSAValue) -> None:
        """Notes what a value of the program is now; one of its shape takes its place."""
        if new.type == old.type:
            old.replace_all_uses_with(new)
        else:
            self.apart[old] = new

    def _as_it_was(self, value: SSAValue) -> SSAValue:
        if value not in self.whole:
            new = self.apart[value]
            self.whole[value] = _under(new, shape_of(value), _after(new), None)
        return self.whole[value]

    def _native(self, op: Operation) -> Operation:
        """The operation on tensors that are taken apart."""
        operands = [self.apart.get(v, v) for v in op.operands]
        results = [sized_tensor(element_of(r), self.parts.shape(r)) for r in op.results]
        match op:
            case tensor_ir.ConstantOp():
                return tensor_ir.ConstantOp(op.value, self.parts.shape(op.result))  # pyright: ignore[reportArgumentType]
            case tensor_ir.IotaOp(axis=axis, result=result):
                (place,) = self.parts.places(result)[axis.value.data]
                return tensor_ir.IotaOp(place, self.parts.shape(result), element_of(result))
            case tensor_ir.ElementwiseOp():
                body = op.detach_region(op.body)
                return tensor_ir.ElementwiseOp(operands, results[0], body)
            case tensor_ir.ReduceOp():
                places = self.parts.places(op.inputs[0])
                axes = [p for axis in op.axes.get_values() for p in places[int(axis)]]
                return tensor_ir.ReduceOp(op.monoid.data, axes, operands)
            case tensor_ir.ScanOp():
                (axis,) = self.parts.places(op.inputs[0])[op.axis.value.data]
                return tensor_ir.ScanOp(op.monoid.data, axis, operands)
            case tensor_ir.SortOp():
                (axis,) = self.parts.places(op.inputs[0])[op.axis.value.data]
                bitonic = op.bitonic is not None
                return tensor_ir.SortOp(axis, operands, op.count.value.data, bitonic=bitonic)
            case tensor_ir.IndexMapOp():
                return self._index_map(op, operands)
            case tensor_ir.GatherOp():
                move = self._moving(op.result, len(op.indices))
                map = self._map(op.map.data, op.source, op.result, move, len(op.indices))
                shape = self.parts.shape(op.result)
                return tensor_ir.GatherOp(operands[0], operands[1:], map, shape)
            case _:
                raise AssertionError(f"expected an operation on tensors, found {op.name}")

    def _index_map(
        self, op: tensor_ir.IndexMapOp, sources: Sequence[SSAValue]
    ) -> tensor_ir.IndexMapOp:
        count = len(op.named_sizes)
        move = self._moving(op.result, count)
        shape = self.parts.shape(op.result)
        pairs = zip(op.maps, op.sources, strict=True)
        maps = [self._map(map.data, source, op.result, move, count) for map, source in pairs]
        dims = len(shape) + count
        wheres = [AffineMap(dims, 0, tuple(map(move, w.data.results))) for w in op.conditions]
        return tensor_ir.IndexMapOp(sources, maps, shape, wheres, op.fill, op.named_sizes)  # pyright: ignore[reportArgumentType]

    def _moving(self, result: SSAValue, more: int) -> Callable[[AffineExpr], AffineExpr]:
        """Renumbers dimensions that stay, and what is numbered after them, in expressions."""
        places = self.parts.places(result)
        last = len(self.parts.shape(result))
        first = [where[0] for where in places] + [last + n for n in range(more)]
        dims = [AffineDimExpr(n) for n in first]
        return lambda expr: expr.replace_dims_and_symbols(dims, [])

    def _map(
        self,
        map: AffineMap,
        source: SSAValue,
        result: SSAValue,
        move: Callable[[AffineExpr], AffineExpr],
        more: int,
    ) -> AffineMap:
        places = self.parts.places(result)
        exprs: list[AffineExpr] = []
        for place, expr in enumerate(map.results):
            if self.parts.of(source, place) is None:
                exprs.append(move(expr))
            else:
                assert isinstance(expr, AffineDimExpr)
                exprs += [AffineDimExpr(n) for n in places[expr.position]]
        return AffineMap(len(self.parts.shape(result)) + more, 0, tuple(exprs))


def _after(value: SSAValue) -> InsertPoint:
    """The first place where a value is there."""
    if isinstance(value, BlockArgument):
        return InsertPoint.at_start(value.block)
    assert isinstance(value.owner, Operation)
    return InsertPoint.after(value.owner)


def _under(
    value: SSAValue, shape: Sequence[int], at: InsertPoint, origin: ReshapeOp | None
) -> SSAValue:
    """A tensor under another shape: by an index map, or where that divides by a size in memory."""
    value = in_memory(value)
    if shape_of(value) == tuple(shape):
        return value
    try:
        map = to_map(reshaped(shape_of(value), shape), [*dimension_values(len(shape))])
        new: Operation = tensor_ir.IndexMapOp([value], [map], shape)
    except NeedsNumber:
        new = ReshapeOp(value, shape)
    named = value.owner if isinstance(value.owner, Operation) else value.block.parent_op()  # pyright: ignore[reportAttributeAccessIssue]
    new.location = (origin or named or new).location
    if origin is not None:
        new.attributes.update(origin.attributes)
    new.results[0].name_hint = value.name_hint if origin is None else origin.result.name_hint
    Rewriter.insert_op(new, at)
    return new.results[0]
