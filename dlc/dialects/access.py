"""
Operations that subscript, in a form shared by the loop, tile and kernel dialects.

An indexed operation holds the index values that it mentions as operands and its subscripts and
conditions as affine maps over them. `subscripts` and `where` give them as `Expr`s; `set_index`
replaces them. A condition is an expression that is >= 0 where the operation has its effect.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import (
    AffineMapAttr,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.canonical import CanonicalizedByDialect
from dlc.dialects.directives import At, Else, Value, Where
from dlc.dialects.type_directives import LoadTypes, SelectTypes, StoreTypes, Types
from dlc.ir.affine_forms import from_affine, to_maps
from dlc.ir.attributes import INDEX, index_attr
from dlc.ir.bounds import bounds, never, sure
from dlc.ir.expr import Expr, FloorDiv, Range, range_of, top_of
from dlc.ir.quick_operations import segment_sizes

Replace = Callable[[SSAValue], Expr | SSAValue | int | None]


class _Known(NamedTuple):
    """The results of a map over index operands, and all that they follow from."""

    exprs: tuple[Expr, ...]
    map: Attribute
    operands: Sequence[SSAValue]
    segments: Attribute | None
    ranges: list[_KnownRange]


class _KnownRange(NamedTuple):
    """
    An index operand and its range. That of an axis whose operation has extents that are numbers
    follows from these and its place, and is not asked for while they are the same.
    """

    value: SSAValue
    range: Range
    loop: Operation | None = None
    extents: Attribute | None = None
    number: int = 0

    @staticmethod
    def of(value: SSAValue, range: Range) -> _KnownRange:
        if isinstance(value, BlockArgument) and (loop := value.block.parent_op()) is not None:
            kept: tuple[Attribute, object] | None = vars(loop).get("kept_ranges")
            if kept is not None:  # by `AxesOp.axis_range`, where extents are numbers
                return _KnownRange(value, range, loop, kept[0], value.index)
        return _KnownRange(value, range)


class IndexedOp(IRDLOperation, ABC):
    """Base of all operations with subscripts (`map`) or conditions (`conditions`)."""

    indices = var_operand_def(IndexType())
    map = prop_def(AffineMapAttr)
    conditions = opt_prop_def(AffineMapAttr)
    traits = traits_def(CanonicalizedByDialect())

    IS_TEST: ClassVar[bool] = False
    """True for an operation that says whether its conditions hold: it has some."""

    @property
    def subscripts(self) -> tuple[Expr, ...]:
        """The subscripts, outermost dimension first."""
        return self.exprs("map")

    @property
    def where(self) -> tuple[Expr, ...]:
        """The conditions, each holding where it is >= 0."""
        return self.exprs("conditions")

    def exprs(self, name: str) -> tuple[Expr, ...]:
        """
        The results of the map over the indices that a property is; none without it. They are kept,
        and given again while they follow from the same map, operands and ranges of indices: no
        edit of the IR has to drop them.
        """
        properties = self.properties
        if (map := properties.get(name)) is None:
            return ()
        operands = self._operands  # a new tuple after every edit
        segments = properties.get("operandSegmentSizes")
        kept: dict[str, _Known] | None = vars(self).get("kept_exprs")
        if kept is None:
            kept = vars(self)["kept_exprs"] = {}
        elif (known := kept.get(name)) is not None:
            exprs, of, over, sizes, ranges = known
            if of is map and over is operands and sizes is segments and _are_known(ranges):
                return exprs
        assert isinstance(map, AffineMapAttr)
        indices = self.indices
        ranges = [range_of(value) for value in indices]
        values = [Expr.within(*of) for of in zip(indices, ranges, strict=True)]
        exprs = tuple([from_affine(e, values) for e in map.data.results])
        known_ranges = [_KnownRange.of(*of) for of in zip(indices, ranges, strict=True)]
        kept[name] = _Known(exprs, map, operands, segments, known_ranges)
        return exprs

    def set_index(self, subscripts: Sequence[Expr], where: Sequence[Expr]) -> None:
        """Replaces subscripts and conditions, and with them the index operands."""
        indices, properties = self.index_properties(subscripts, where)
        names = _operand_names(type(self))
        segments: list[Sequence[SSAValue]] = [_as_tuple(getattr(self, name)) for name in names]
        segments[names.index("indices")] = indices
        self.operands = [value for segment in segments for value in segment]
        if "operandSegmentSizes" in self.properties:
            sizes = tuple([len(segment) for segment in segments])
            self.properties["operandSegmentSizes"] = segment_sizes(sizes)
        for name, value in properties.items():
            if value is None:
                self.properties.pop(name, None)
            else:
                self.properties[name] = value

    def index_properties(
        self, subscripts: Sequence[Expr], where: Sequence[Expr]
    ) -> tuple[list[SSAValue], dict[str, Attribute | None]]:
        """The index operands, and the maps over them, that subscripts and conditions make."""
        indices, map, conditions = index_parts(subscripts, where)
        return indices, {"map": map, "conditions": conditions}

    def substitute(self, replace: Replace, extra: Sequence[Expr] = ()) -> None:
        """Replaces index values in subscripts and conditions; `extra` conditions are added."""
        subscripts = [e.substitute(replace) for e in self.subscripts]
        where = [e.substitute(replace) for e in self.where]
        self.set_index(subscripts, simplify_where([*where, *extra]))

    def verify_index(self, count: int, of: object) -> None:
        """Checks the maps against the operands and the number of subscripts."""
        if len(self.map.data.results) != count:
            raise VerifyException(
                f"expected {count} subscripts for {of}, found {len(self.map.data.results)}"
            )
        verify_maps([self.map, self.conditions], len(self.indices))


def _are_known(ranges: Sequence[_KnownRange]) -> bool:
    """True if index operands have the ranges that they had: asked more often than all else."""
    for value, range, loop, extents, number in ranges:
        if loop is not None and isinstance(value, BlockArgument):
            region = value.block.parent
            is_there = region is not None and region.parent is loop and value.index == number
            if is_there and loop.properties["extents"] is extents:
                continue
        if range_of(value) != range:
            return False
    return True


@cache
def _operand_names(kind: type[IRDLOperation]) -> list[str]:
    """The operands that a class of operations has, in order."""
    return [name for name, _ in kind.get_irdl_definition().operands]


def verify_maps(maps: Sequence[AffineMapAttr | None], indices: int) -> None:
    """Checks that maps, where there are any, are over so many index operands."""
    for map in maps:
        if map is not None and (map.data.num_dims != indices or map.data.num_symbols):
            raise VerifyException(
                f"expected affine maps over the {indices} index operands and no symbols, found "
                f"{map.data.num_dims} dimensions and {map.data.num_symbols} symbols"
            )


def simplify_where(conditions: Sequence[Expr]) -> list[Expr]:
    """Conditions without those that ranges make sure, and each once."""
    return list(dict.fromkeys(c for c in conditions if not sure(c)))


def index_parts(
    subscripts: Sequence[Expr], where: Sequence[Expr]
) -> tuple[list[SSAValue], AffineMapAttr, AffineMapAttr | None]:
    """The index operands, the subscript map and the condition map of an indexed operation."""
    indices: list[SSAValue] = []
    map, conditions = to_maps([subscripts, where], indices)
    return indices, map, conditions if where else None


def _as_tuple(operand: SSAValue | Sequence[SSAValue] | None) -> Sequence[SSAValue]:
    if operand is None:
        return ()
    return (operand,) if isinstance(operand, SSAValue) else operand


def element_type(ref: Attribute) -> Attribute:
    """The element type of a memref."""
    assert isinstance(ref, MemRefType)
    return ref.element_type


class LoadOpBase(IndexedOp, HasFolderInterface, ABC):
    """`d.load %ref[expr, …] (where (condition, …))? (else %default)? : memref (-> vector)?`"""

    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    default = opt_operand_def(AnyAttr())
    result = result_def(AnyAttr())

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (At, Else, LoadTypes)
    assembly_format = (
        "$ref `` custom<At>($indices, $map, $conditions) custom<Else>($default) attr-dict"
        " `:` custom<LoadTypes>(type($ref), type($result), type($default))"
    )
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        where: Sequence[Expr] = (),
        default: SSAValue | None = None,
        result_type: Attribute | None = None,
    ) -> None:
        indices, map, conditions = index_parts(subscripts, where)
        super().__init__(
            operands=[ref, indices, default],
            properties={"map": map, "conditions": conditions},
            result_types=[result_type or element_type(ref.type)],
        )

    def fold(self) -> Sequence[SSAValue] | None:
        """The default, where a condition never holds."""
        if self.default is None or self.default.type != self.result.type:
            return None
        return [self.default] if any(map(never, self.where)) else None

    def verify_(self) -> None:
        assert isinstance(self.ref.type, MemRefType)
        self.verify_index(self.ref.type.get_num_dims(), self.ref.type)
        element = element_type(self.ref.type)
        if _scalar(self.result.type) != element:
            raise VerifyException(
                f"expected a result of the element type {element}, found {self.result.type}"
            )
        if self.default is not None and self.default.type != element:
            raise VerifyException(
                f"expected a default of the element type {element}, found {self.default.type}"
            )


def _scalar(type: Attribute) -> Attribute:
    return type.element_type if isinstance(type, VectorType) else type


class StoreOpBase(IndexedOp, ABC):
    """`d.store %value, %ref[expr, …] (where (condition, …))? : memref (, vector)?`"""

    value = operand_def(AnyAttr())
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())

    custom_directives = (At, StoreTypes)
    assembly_format = (
        "$value `,` $ref `` custom<At>($indices, $map, $conditions) attr-dict"
        " `:` custom<StoreTypes>(type($ref), type($value))"
    )
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        where: Sequence[Expr] = (),
    ) -> None:
        indices, map, conditions = index_parts(subscripts, where)
        super().__init__(
            operands=[value, ref, indices],
            properties={"map": map, "conditions": conditions},
        )

    def verify_(self) -> None:
        assert isinstance(self.ref.type, MemRefType)
        self.verify_index(self.ref.type.get_num_dims(), self.ref.type)
        element = element_type(self.ref.type)
        if _scalar(self.value.type) != element:
            raise VerifyException(
                f"expected a value of the element type {element}, found {self.value.type}"
            )


class AtomicAddOpBase(StoreOpBase, ABC):
    """
    `d.atomic_add %value, %ref[expr, …] (where (condition, …))? : memref`

    Adds a value to an element, indivisibly: in any order with the atomic adds of other threads.
    """

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        super().verify_()
        if not has_atomic_add(self.value.type):
            raise VerifyException(f"expected a value of type {ATOMIC}, found {self.value.type}")


ATOMIC = "f32, f64, i32 or i64"


def has_atomic_add(type: Attribute) -> bool:
    """True if values of a type can be added atomically (CUDA C++ Programming Guide, atomicAdd)."""
    return is_exact(type) or isinstance(type, Float32Type | Float64Type)


def is_exact(type: Attribute) -> bool:
    """True if values of a type can be added atomically with the same sum in any order."""
    return isinstance(type, IntegerType) and type.bitwidth in (32, 64)


def verify_exact(type: Attribute) -> None:
    """VerifyException for a type of which a sum in any order is not always the same."""
    if not is_exact(type):
        raise VerifyException(
            f"expected i32 or i64 to add at places that are data, found {type}: blocks add in any "
            "order, in which sums of floats are rounded"
        )


class IndexOpBase(IndexedOp, HasFolderInterface, ABC):
    """`%i = d.index expr`: the value of an index expression."""

    result = result_def(IndexType())

    custom_directives = (Value,)
    assembly_format = "custom<Value>($indices, $map, $conditions) attr-dict"
    traits = traits_def(Pure())

    def __init__(self, expr: Expr) -> None:
        indices, map, _ = index_parts([expr], [])
        super().__init__(operands=[indices], properties={"map": map}, result_types=[INDEX])

    def index_range(self) -> tuple[float, float]:
        return bounds(self.subscripts[0])

    def index_top(self) -> Expr | None:
        """The last value of a quotient of what ends with a size."""
        match self.subscripts[0]:
            case Expr(terms=((FloorDiv(base=Expr(terms=((atom, 1),), constant=0)) as part, 1),)):
                top = None if not isinstance(atom, SSAValue) else top_of(atom)
                whole = self.subscripts[0].constant == 0
                return None if top is None or not whole else top // part.divisor
            case _:
                return None

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """A constant, or the value that the expression is; an axis is none."""
        expr = self.subscripts[0]
        if expr.is_constant:
            return [index_attr(expr.constant)]
        (value, factor), *others = expr.terms
        bare = not others and factor == 1 and expr.constant == 0
        return [value] if bare and isinstance(value, OpResult) else None

    def verify_(self) -> None:
        self.verify_index(1, "one index expression")
        if self.conditions is not None:
            raise VerifyException("expected no conditions")


class SelectOpBase(IndexedOp, HasFolderInterface, ABC):
    """`d.select %a (where (condition, …))? else %b : type`: `%a` where all conditions hold."""

    value = operand_def(AnyAttr())
    default = operand_def(AnyAttr())
    indices = var_operand_def(IndexType())
    result = result_def(AnyAttr())

    custom_directives = (Where, SelectTypes)
    assembly_format = (
        "$value custom<Where>($indices, $map, $conditions) `else` $default attr-dict"
        " `:` custom<SelectTypes>(type($value), type($default), type($result))"
    )
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, where: Sequence[Expr], default: SSAValue) -> None:
        indices, map, conditions = index_parts([], where)
        super().__init__(
            operands=[value, default, indices],
            properties={"map": map, "conditions": conditions},
            result_types=[value.type],
        )

    def fold(self) -> Sequence[SSAValue] | None:
        """The side that is known to be chosen."""
        where = self.where
        if any(map(never, where)):
            return [self.default]
        return [self.value] if self.value is self.default or all(map(sure, where)) else None

    def verify_(self) -> None:
        self.verify_index(0, "a select")
        if not self.value.type == self.default.type == self.result.type:
            raise VerifyException(
                "expected one type for both values and the result, found "
                f"{self.value.type}, {self.default.type} and {self.result.type}"
            )


class YieldOpBase(IndexedOp, ABC):
    """
    `d.yield %a, … (where (condition, …))? : type, …`

    In a reduce, where a condition is false the identity is folded instead of the yielded values.
    """

    values = var_operand_def(AnyAttr())
    indices = var_operand_def(IndexType())

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (Where, Types)
    assembly_format = (
        "$values custom<Where>($indices, $map, $conditions) attr-dict custom<Types>(type($values))"
    )
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, values: Sequence[SSAValue] = (), where: Sequence[Expr] = ()) -> None:
        indices, map, conditions = index_parts([], where)
        super().__init__(
            operands=[values, indices],
            properties={"map": map, "conditions": conditions},
        )

    def verify_(self) -> None:
        self.verify_index(0, "a yield")


def indexed_ops(op: Operation) -> list[IndexedOp]:
    """All operations with subscripts or conditions in `op`, itself included."""
    return [o for o in op.walk() if isinstance(o, IndexedOp)]
