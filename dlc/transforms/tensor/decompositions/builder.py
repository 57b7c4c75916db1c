"""
Builds Tensor IR in the place of one operation of a frontend's dialect.

Subscripts and conditions are index expressions over the dimensions of what is built: `dims(2)` are
`d0` and `d1`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NoReturn, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, f64, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint

from dlc.diagnostics import OpError
from dlc.dialects import flow, tensor_ir
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.size import ReshapeOp, symbols_around
from dlc.dialects.size_index import SizeIndexOp, size_expr, sizes_in
from dlc.dialects.sized_types import sized_tensor
from dlc.ir.affine_forms import to_map
from dlc.ir.expr import Expr
from dlc.ir.provenance import numbered, set_ops, set_value
from dlc.ir.reshaping import dimension, dimension_values, fixed, reshaped
from dlc.ir.sizes import Bounds, NeedsNumber, Size
from dlc.target import DEFAULT_TARGET, Target, get_target, target_of
from dlc.transforms.tensor.decompositions.scalar import (
    Body,
    Number,
    Scalar,
    compute_type,
    is_narrow,
    is_unsigned,
    number,
    storage_type,
)
from dlc.transforms.tensor.decompositions.types import promote

Exprs: TypeAlias = Sequence[Expr]


class Refused(Exception):
    """Says why an operation of a known name is not supported in the form that was found."""


def refuse(reason: str) -> NoReturn:
    raise Refused(reason)


def dims(rank: int) -> list[Expr]:
    """`d0`, `d1`, … of a result of that rank."""
    return [dimension(d) for d in range(rank)]


def dim_map(rank: int, exprs: Exprs, sizes: Sequence[SSAValue] = ()) -> AffineMap:
    """The affine map of expressions over `rank` dimensions, then sizes."""
    return to_map(exprs, [*dimension_values(rank), *sizes])


class TensorBuilder:
    """
    Builds Tensor IR in front of an operation, number `position` of the program, at its location;
    what is made says that it comes from it, by the `name` that users know. Values that are not
    named otherwise are named after the operation's first result.
    """

    def __init__(self, op: Operation, position: int, name: str) -> None:
        self.place = op
        self.position = position
        self.name = name
        self.builder = Builder(InsertPoint.before(op))
        self.hint = op.results[0].name_hint
        self._wide: dict[SSAValue, SSAValue] = {}
        self._created: set[Operation] = set()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return shape_of(self.place.results[0])

    @property
    def element(self) -> Attribute:
        """The element type of the first result."""
        return element_of(self.place.results[0])

    def replace(self, values: Sequence[SSAValue]) -> None:
        """Puts `values` in the place of the operation's results; new ones take their names."""
        for index, (old, new) in enumerate(zip(self.place.results, values, strict=True)):
            if new.type != old.type:
                raise OpError(
                    self.place, f"expected a decomposition to {old.type}, found {new.type}"
                )
            hint = new.name_hint
            if new.owner in self._created:
                hint = old.name_hint
                set_value(new, numbered(self.position, index))
            old.replace_all_uses_with(new)
            new.name_hint = hint
        self.place.detach()
        self.place.erase()

    def insert(self, op: Operation, hint: str | None = None) -> SSAValue:
        for inner in op.walk():
            inner.location = self.place.location
        set_ops(op, [f"{self.position} {self.name}"])
        self.builder.insert(op)
        self._created.add(op)
        for result in op.results:
            result.name_hint = hint or self.hint
        return op.results[0]

    def constant(self, value: Number, shape: Sequence[int], element: Attribute) -> SSAValue:
        op = tensor_ir.ConstantOp.create(
            properties={"value": number(value, element)},
            result_types=[sized_tensor(element, shape)],
        )
        return self.insert(op, "constant")

    def iota(self, axis: int, shape: Sequence[int]) -> SSAValue:
        return self.insert(tensor_ir.IotaOp(axis, shape, i64), "index")

    def elementwise(
        self,
        function: Callable[..., Scalar],
        *inputs: SSAValue,
        element: Attribute | None = None,
        shape: Sequence[int] | None = None,
        hint: str | None = None,
    ) -> SSAValue:
        """
        `function` of the elements of `inputs`, which are broadcast to `shape` (that of the result)
        and converted to `element` (what the function gives).
        """
        shape = self.shape if shape is None else shape
        sources = [self.broadcast(v, shape) for v in inputs]
        distinct = list(dict.fromkeys(sources))
        block = Block(arg_types=[storage_type(element_of(v)) for v in distinct])
        for argument, value in zip(block.args, distinct, strict=True):
            argument.name_hint = value.name_hint
        body = Body(block)
        scalars = [Scalar(body, block.args[distinct.index(v)], element_of(v)) for v in sources]
        result = function(*scalars)
        if result.value.name_hint is None:
            result.value.name_hint = hint or self.hint
        if element is not None:
            result = result.to(element)
        element = result.element
        if not distinct:
            refuse("expected at least one tensor operand")
        if result.value.name_hint is None:
            result.value.name_hint = hint or self.hint
        block.add_op(tensor_ir.YieldOp(result.value))
        op = tensor_ir.ElementwiseOp(distinct, sized_tensor(element, shape), Region(block))
        return self.insert(op, hint)

    def pointwise(
        self,
        function: Callable[..., Scalar],
        *inputs: SSAValue | Number,
        within: Attribute | None = None,
    ) -> SSAValue:
        """
        `function` of operands (tensors or numbers) converted to the type `within` (that of the
        result) and calculated in the type that stands for it; then the operation's result. A
        number is not rounded to a half first unless `within` says so, nor is a tensor of f64
        without dimensions, which stands for one.
        """
        exact = within is None and is_narrow(self.element)
        within = within or self.element
        calculated = compute_type(within)
        given = [v for v in inputs if isinstance(v, SSAValue)]
        if not given:
            refuse("expected at least one tensor operand")

        def converted(x: Scalar, source: SSAValue) -> Scalar:
            if not (exact and element_of(source) == f64 and not shape_of(source)):
                x = x.to(within, explicit=is_narrow(within))
            return x.to(calculated)

        def body(*scalars: Scalar) -> Scalar:
            rest = iter(scalars)
            block = scalars[0].body
            return function(
                *(
                    converted(next(rest), v)
                    if isinstance(v, SSAValue)
                    else block.constant(v if exact else _held(v, within), calculated)
                    for v in inputs
                )
            )

        return self.elementwise(body, *given, element=self.element)

    def pointwise_wide(self, function: Callable[..., Scalar], *inputs: SSAValue) -> SSAValue:
        """
        `function` of tensors, each converted to the type that the result is calculated in; then
        the operation's result, which is rounded once.
        """
        calculated = compute_type(self.element)
        return self.elementwise(
            lambda *scalars: function(*(x.to(calculated) for x in scalars)),
            *inputs,
            element=self.element,
        )

    def compare(self, function: Callable[..., Scalar], *inputs: SSAValue | Number) -> SSAValue:
        """`function` of operands in the type that they promote to, numbers rounded to it."""
        return self.pointwise(function, *inputs, within=promote(inputs))

    def cast(self, value: SSAValue, element: Attribute, hint: str | None = None) -> SSAValue:
        """
        The tensor with its elements converted. Of an operand that is a cast of the program's; what
        the decomposition has made is rounded where it reaches memory.
        """
        made = value.owner in self._created
        if made and hint is not None:
            value.name_hint = hint
        return self._converted(value, element, hint, explicit=not made)

    def _converted(
        self, value: SSAValue, element: Attribute, hint: str | None = None, *, explicit: bool
    ) -> SSAValue:
        if element_of(value) == element:
            return value
        return self.elementwise(
            lambda x: x.to(element, explicit=explicit),
            value,
            shape=shape_of(value),
            hint=hint or value.name_hint,
        )

    def wide(self, value: SSAValue) -> SSAValue:
        """The tensor in the type that its elements are calculated in."""
        if value not in self._wide:
            calculated = compute_type(element_of(value))
            self._wide[value] = self._converted(value, calculated, explicit=False)
        return self._wide[value]

    def reduce(self, monoid: str, axes: Sequence[int], *inputs: SSAValue, hint: str) -> SSAValue:
        """Folds over `axes`, which the result no longer has; no axes leave the tensor alone."""
        if not axes:
            return inputs[0]
        return self.insert(tensor_ir.ReduceOp(monoid, list(axes), inputs), hint)

    def loop(
        self,
        count: int,
        inits: Sequence[SSAValue],
        scanned: Sequence[SSAValue],
        step: Callable[[Sequence[SSAValue], Sequence[SSAValue]], tuple[list[SSAValue], ...]],
    ) -> list[SSAValue]:
        """
        `flow.for`: `step` builds the body, of what is carried and of the elements of what is
        scanned; it gives what is carried on, and elements of what is stacked. The results are
        those carried last, and the stacks.
        """
        types = [*(v.type for v in inits), *(flow.piece_of(v.type) for v in scanned)]
        block = Block(arg_types=types)
        for argument, value in zip(block.args, (*inits, *scanned), strict=True):
            argument.name_hint = value.name_hint
        outside, wide = self.builder, dict(self._wide)
        self.builder = Builder(InsertPoint.at_end(block))
        carried, pieces = step(block.args[: len(inits)], block.args[len(inits) :])
        block.add_op(flow.YieldOp([*carried, *pieces]))
        self.builder, self._wide = outside, wide
        op = flow.ForOp(count, inits, scanned, Region(block))
        self.insert(op)
        return list(op.results)

    def index_map(
        self,
        sources: Sequence[SSAValue],
        subscripts: Sequence[Exprs],
        shape: Sequence[int],
        conditions: Sequence[Exprs] | None = None,
        fill: Number | None = None,
        hint: str | None = None,
    ) -> SSAValue:
        """`tensor_ir.index_map`, or its source where it changes nothing."""
        rank = len(shape)
        plain = conditions is None or not conditions[0]
        if plain and shape_of(sources[0]) == tuple(shape) and list(subscripts[0]) == dims(rank):
            return sources[0]
        names = sizes_in(e for part in (*subscripts, *(conditions or ())) for e in part)
        sizes = [self._sizes[name] for name in names]
        maps = [dim_map(rank, s, sizes) for s in subscripts]
        where = None if conditions is None else [dim_map(rank, c, sizes) for c in conditions]
        scalar = None if fill is None else number(fill, element_of(sources[0]))
        op = tensor_ir.IndexMapOp(sources, maps, shape, where, scalar, names)
        return self.insert(op, hint)

    def at(self, number: Size | int) -> Expr:
        """A subscript that is the same everywhere; NeedsNumber for a product of sizes."""
        if isinstance(number, int):
            return fixed(number)
        any_of = next(iter(self._sizes.values())).owner
        assert isinstance(any_of, Operation)
        return size_expr(number, any_of)

    def is_negative(self, number: Size | int) -> bool:
        """True for what is below 0; NeedsNumber where that depends on the numbers of sizes."""
        low, high = self.bounds(number)
        if low < 0 <= high:
            raise NeedsNumber(Size.of(number))
        return high < 0

    def bounds(self, number: Size | int) -> Bounds:
        """Between which a size of the program lies, as far as it says."""
        known = {name: symbol.bounds for name, symbol in symbols_around(self.place).items()}
        return Size.of(number).bounds(known)

    def likely(self, number: Size | int) -> int:
        """A number, or that which a size of the program is likely to be: for what is faster."""
        symbols = symbols_around(self.place)
        return Size.of(number).evaluate({name: s.likely for name, s in symbols.items()})

    @cached_property
    def target(self) -> Target:
        """The chip that the program is compiled for."""
        around = self.place
        while (outer := around.parent_op()) is not None:
            around = outer
        return target_of(around) if isinstance(around, ModuleOp) else get_target(DEFAULT_TARGET)

    @cached_property
    def _sizes(self) -> dict[str, SSAValue]:
        """Stand for the sizes of the program."""
        ops = {name: SizeIndexOp(s) for name, s in symbols_around(self.place).items()}
        _ = Block(ops.values())
        return {name: op.result for name, op in ops.items()}

    def move(
        self,
        value: SSAValue,
        subscripts: Exprs,
        shape: Sequence[int],
        where: Exprs = (),
        fill: Number | None = None,
    ) -> SSAValue:
        """An index map of one source, named after it."""
        return self.index_map(
            [value], [subscripts], shape, [where] if where else None, fill, value.name_hint
        )

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """
        The tensor repeated to `shape` by PyTorch's rules: from the right, along extents of 1.
        Refused for shapes that do not match.
        """
        source = shape_of(value)
        if source == tuple(shape):
            return value
        first = len(shape) - len(source)
        fits = (have in (1, want) for have, want in zip(source, shape[max(first, 0) :]))
        if first < 0 or not all(fits):
            refuse(f"a tensor of shape {list(source)} cannot be broadcast to {list(shape)}")
        return self.move(
            value,
            [
                dimension(first + d) if extent == shape[first + d] else fixed(0)
                for d, extent in enumerate(source)
            ],
            shape,
        )

    def spread(self, value: SSAValue, axes: Sequence[int], shape: Sequence[int]) -> SSAValue:
        """A tensor that lacks `axes` of `shape`, repeated along them."""
        kept = [d for d in range(len(shape)) if d not in axes]
        return self.move(value, [dimension(d) for d in kept], shape)

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The elements in row-major order under another shape."""
        try:
            return self.move(value, reshaped(shape_of(value), shape), shape)
        except NeedsNumber:
            return self.insert(ReshapeOp(value, shape), value.name_hint)


def _byte(value: Number) -> int:
    """A program's number as an unsigned byte: what is negative wraps, as it does in PyTorch."""
    return int(value) % 256


def _held(value: Number | Size, element: Attribute) -> Number | Size:
    """A program's number as a type holds it; a size as it is."""
    if isinstance(value, Size):
        return value
    return _byte(value) if is_unsigned(element) else number(value, element).value.data
