"""Numbers in the place of names of sizes, in whatever operations stand in any dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute
from xdsl.rewriter import Rewriter

from dlc.diagnostics import fail
from dlc.dialects import kernel
from dlc.dialects.axes import AxesOp
from dlc.dialects.directives import sizes_map
from dlc.dialects.kernel_func import FuncOp
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.kernel_op import KernelKind
from dlc.dialects.kernel_parts import PartOp
from dlc.dialects.layouts import shape_of, strides_of
from dlc.dialects.ring_ops import RingOp
from dlc.dialects.size import SizeAttr, number_attribute, numbers_attribute
from dlc.dialects.size_index import SizeIndexOp
from dlc.dialects.sized_types import SizedStridesAttr, SizesAttr, sized_memref, sized_tensor
from dlc.dialects.tensor_ir import IndexMapOp
from dlc.ir.affine_forms import from_affine, to_map
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size


@contextmanager
def at_hints(kernel: KernelKind) -> Iterator[KernelKind]:
    """
    A kernel as it is at the sizes that are likely: a copy for as long as the context lasts, or
    itself where it has no sizes.
    """
    found = [op for op in kernel.body.block.ops if isinstance(op, SizeIndexOp)]
    if not found:
        yield kernel
        return
    copy = bound_kernel(kernel, {op.size.data: op.symbol.likely for op in found})
    try:
        yield copy
    finally:
        copy.erase()


def bound_kernel(kernel: KernelKind, sizes: Mapping[str, int]) -> KernelKind:
    """A copy of a kernel for numbers of sizes. OpError for one that it is not made for."""
    copy, bind = kernel.clone(), Binding(sizes)
    for op in [*copy.walk()]:
        bind.operation(op)
    return copy


class Binding:
    """
    Puts numbers in the place of names in types and attributes. Values that are made of other names
    are for Torch IR, in which no subscripts mention sizes.
    """

    def __init__(self, values: Mapping[str, Size | int]) -> None:
        self.values = values
        self.numbers = {name: n for name, n in values.items() if isinstance(n, int)}
        self.known: dict[Attribute, Attribute | None] = {}
        """None for what stays as it is, and is not exchanged for what equals it: False is no 0."""

    def operation(self, op: Operation) -> None:
        """
        Binds all that is said of an operation and the arguments of its blocks. OpError for an
        extent that becomes negative, or that is divided by 0.
        """
        try:
            self._bind(op)
        except ValueError as error:
            fail(op, str(error))
        except ZeroDivisionError:
            fail(op, "expected no division by 0")

    def _bind(self, op: Operation) -> None:
        if isinstance(op, SizeIndexOp) and (number := self.numbers.get(op.size.data)) is not None:
            bind_index(op, number)
            return
        if isinstance(op, PartOp):
            bind_part(op, self.numbers)
            return
        if isinstance(op, IndexMapOp) and op.sizes is not None:
            bind_index_map(op, self.numbers)
        for said in (op.properties, op.attributes):
            for name, attribute in said.items():
                if isinstance(attribute, SizesAttr) and _counts_points(op, name):
                    bound: Attribute = sizes_map(tuple(n.bind(self.values) for n in attribute.data))
                else:
                    bound = self(attribute)
                if bound is not attribute:
                    said[name] = bound
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(a for block in blocks for a in block.args)):
            if (type := self(value.type)) is not value.type:
                Rewriter.replace_value_with_new_type(value, type)

    def __call__(self, attribute: Attribute) -> Attribute:
        """The attribute itself where it has no names. Errors as of `type` and `Size.bind`."""
        if attribute not in self.known:
            bound = self.bound(attribute)
            self.known[attribute] = None if bound is attribute else bound
        known = self.known[attribute]
        return attribute if known is None else known

    def bound(self, attribute: Attribute) -> Attribute:
        match attribute:
            case SizeAttr(data=size):
                return number_attribute(size.bind(self.values))
            case SizesAttr(data=sizes):
                return numbers_attribute([size.bind(self.values) for size in sizes])
            case TensorType() | MemRefType():
                strided = isinstance(attribute, MemRefType) and _is_strided(attribute)
                known = attribute.has_static_shape() and not strided
                return attribute if known else self.type(attribute)
            case ArrayAttr(data=items):
                bound = [self(item) for item in items]
                return attribute if _same(bound, items) else ArrayAttr(bound)
            case DictionaryAttr(data=entries):
                bound = [self(entry) for entry in entries.values()]
                same = _same(bound, [*entries.values()])
                return attribute if same else DictionaryAttr(dict(zip(entries, bound, strict=True)))
            case ParametrizedAttribute():
                bound = [self(parameter) for parameter in attribute.parameters]
                same = _same(bound, attribute.parameters)
                return attribute if same else type(attribute).new(bound)
            case _:
                return attribute

    def type(self, type: TensorType | MemRefType) -> TensorType | MemRefType:
        """A type with sizes, bound; ValueError for an extent that becomes negative."""
        extents = [Size.of(size).bind(self.values) for size in shape_of(type)]
        for size, bound in zip(shape_of(type), extents, strict=True):
            if bound.number is not None and bound.number < 0:
                raise ValueError(f"expected no negative extent, found {size} = {bound}")
        if isinstance(type, TensorType):
            return sized_tensor(type.element_type, extents)
        if _is_strided(type):
            strides = [Size.of(stride).bind(self.values) for stride in strides_of(type)]
            return sized_memref(type.element_type, extents, strides)
        shape = tuple(size if size.number is None else size.number for size in extents)
        return memref_type(type.element_type, shape)  # pyright: ignore[reportArgumentType]


def _is_strided(type: MemRefType) -> bool:
    return isinstance(type.layout, SizedStridesAttr)


def bind_index(op: SizeIndexOp, number: int) -> None:
    """Makes a constant of a size; OpError for a number that it cannot be."""
    low, high = op.symbol.bounds
    if not low <= number <= high:
        fail(op, f"expected {op.symbol}, found {number}")
    constant = arith.ConstantOp(IntegerAttr(number, IndexType()))
    constant.location, constant.result.name_hint = op.location, op.result.name_hint
    Rewriter.replace_op(op, constant)


def bind_index_map(op: IndexMapOp, values: Mapping[str, int]) -> None:
    """Binds names in subscripts and conditions."""
    names = op.named_sizes
    left = [name for name in names if name not in values]
    count = op.maps.data[0].data.num_dims - len(names)
    kept = Block(arg_types=[IndexType()] * (count + len(left))).args
    known = {**dict(zip(left, kept[count:], strict=True)), **values}
    operands = [*map(Expr.of, kept[:count]), *(Expr.of(known[name]) for name in names)]

    def bound(map: AffineMapAttr) -> AffineMapAttr:
        return AffineMapAttr(to_map([from_affine(e, operands) for e in map.data.results], [*kept]))

    op.maps = ArrayAttr([bound(map) for map in op.maps])
    op.conditions = ArrayAttr([bound(map) for map in op.conditions])
    op.sizes = ArrayAttr([StringAttr(name) for name in left]) if left else None


def bind_part(op: PartOp, values: Mapping[str, int]) -> None:
    """Binds names in what a running number is divided by, by an index expression where it can."""
    for name, said in op.properties.items():
        if isinstance(said, SizeAttr):
            op.properties[name] = SizeAttr(said.data.bind(values))
    if (by := op.by.data.number) is not None:
        index = kernel.IndexOp(op.at(by))
        index.location, index.result.name_hint = op.location, op.result.name_hint
        Rewriter.replace_op(op, index)


_COUNTS = {AxesOp: "extents", FuncOp: "grid", RingOp: "count"}


def _counts_points(op: Operation, name: str) -> bool:
    """True for a property that says how many points, blocks or chunks there are."""
    return any(isinstance(op, kind) and name == said for kind, said in _COUNTS.items())


def _same(bound: Sequence[Attribute], before: Sequence[Attribute]) -> bool:
    return all(new is old for new, old in zip(bound, before, strict=True))
