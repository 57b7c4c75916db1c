"""What the loop, tile and kernel dialects share of loads, stores, indices and selects."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, OpResult, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.directives import At, Else, Value, Where
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.type_directives import LoadTypes, SelectTypes, StoreTypes, Types
from dlc.ir.attributes import INDEX, index_attr
from dlc.ir.bounds import bounds, never, sure
from dlc.ir.expr import Expr, FloorDiv, top_of


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
