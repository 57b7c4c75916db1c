"""
The operations of `arith` and `math` (`dlc.ir.scalar_ops`) on NumPy arrays, one element per thread.

A value that all threads share is a NumPy scalar, of type index a Python `int`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation

from dlc.dialects.layouts import static_shape
from dlc.ir.elements import find_element
from dlc.ir.scalar_ops import COMPARISONS, SCALARS, ScalarOp, compare_floats
from dlc.simulator.hazards import Hazard
from dlc.simulator.narrow_floats import bits_dtype, bits_of, is_held, rounded, values_of

Value: TypeAlias = Any
"""An array over the threads, a NumPy scalar or, of type index, an int."""
Function: TypeAlias = Callable[..., Value]


def dtype_of(type: Attribute, op: Operation) -> np.dtype[Any]:
    """The NumPy type of a value or element; what NumPy lacks is held in float32."""
    if isinstance(type, VectorType):
        return dtype_of(type.element_type, op)
    if isinstance(type, IndexType):
        return np.dtype(np.int64)
    if (row := find_element(type)) is None:
        raise Hazard("not checked", op, f"the interpreter has no values of type {type}")
    return np.dtype(row.numpy)


def constant_of(op: arith.ConstantOp) -> Value:
    """The value of a constant."""
    attribute = op.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        values = np.array(attribute.get_values(), dtype_of(attribute.type, op))
        return np.broadcast_to(values, (1, *static_shape(attribute.type)))
    assert isinstance(attribute, IntegerAttr | FloatAttr)
    number = attribute.value.data
    if isinstance(op.result.type, IndexType):
        return int(number)
    type = dtype_of(op.result.type, op)
    return np.bool_(number != 0) if type == np.bool_ else np.array(number).astype(type)[()]


def function_of(op: Operation) -> Function:
    """The function that an operation applies to its operands."""
    result = op.results[0].type
    if isinstance(op, arith.CmpfOp):
        return compare_floats(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data])
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return _compare_integers(name, op.lhs.type == IntegerType(1))
    if isinstance(op, arith.SelectOp):
        return blend
    if is_held(result) and not isinstance(op, (arith.TruncFOp, arith.BitcastOp)):
        sentence = f"arithmetic is done in f32 or f64, not in {result}"
        raise Hazard("not checked", op, sentence)
    if (row := SCALARS.get(op.name)) is not None:
        return _of_row(row, result)
    if (conversion := _CONVERSIONS.get(type(op))) is not None:
        return conversion(op, op.operands[0].type, dtype_of(result, op))
    raise Hazard("not checked", op, f"the interpreter does not know '{op.name}'")


def _of_row(row: ScalarOp, type: Attribute) -> Function:
    function = row.numpy
    if row.unsigned:
        function = _unsigned(function)
    if row.in_f64:
        function = _in_f64(function)
    return _of_indices(function) if isinstance(type, IndexType) else function


def _of_indices(function: Function) -> Function:
    """An operation on indices keeps an int an int."""

    def apply(*operands: Value) -> Value:
        value = function(*operands)
        return int(value) if np.ndim(value) == 0 else value

    return apply


def blend(condition: Value, a: Value, b: Value) -> Value:
    """`a` where a condition holds, else `b`."""
    if np.ndim(condition) == 0:
        return a if condition else b
    if np.ndim(a) > 1 or np.ndim(b) > 1:
        condition = condition[:, None]
    return np.where(condition, a, b)


def _compare_integers(name: str, boolean: bool) -> Function:
    compare = COMPARISONS[name[-2:]].numpy
    if name.startswith("u"):
        return lambda a, b: compare(_as_unsigned(a), _as_unsigned(b))
    if boolean:  # as a signed number, true is -1
        return lambda a, b: compare(
            -_as_unsigned(a).astype(np.int8), -_as_unsigned(b).astype(np.int8)
        )
    return compare


def _as_unsigned(x: Value) -> Value:
    x = np.int64(x) if isinstance(x, int) and not isinstance(x, bool) else np.asarray(x)[()]
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def _unsigned(function: Function) -> Function:
    def apply(a: Value, b: Value) -> Value:
        signed = np.asarray(a).dtype
        return function(_as_unsigned(a), _as_unsigned(b)).astype(signed)

    return apply


def _in_f64(function: Function) -> Function:
    def apply(*operands: Value) -> Value:
        type = operands[0].dtype
        return function(*(x.astype(np.float64) for x in operands)).astype(type)

    return apply


def _cast(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if is_held(result := op.results[0].type):
        return lambda x: rounded(x, result)[()]
    return lambda x: x.astype(target)


def _index_cast(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if isinstance(op.results[0].type, IndexType):
        return lambda x: int(x) if np.ndim(x) == 0 else x.astype(np.int64)
    return lambda x: np.asarray(x, np.int64).astype(target)[()]


def _signed(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if source == IntegerType(1):
        return lambda x: -(x.astype(target))
    return lambda x: x.astype(target)


def _from_unsigned(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    return lambda x: _as_unsigned(x).astype(target)


def _truncated(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    if target == np.bool_:
        return lambda x: (x & 1) != 0
    return lambda x: x.astype(target)


def _bitcast(op: Operation, source: Attribute, target: np.dtype[Any]) -> Function:
    """The bits of what NumPy lacks are those that it has in memory."""
    if is_held(result := op.results[0].type):
        bits = bits_dtype(result)
        return lambda x: values_of(np.asarray(x).view(bits), result)[()]
    if is_held(source):
        return lambda x: bits_of(x, source).view(target)[()]
    return lambda x: x.view(target)


_CONVERSIONS: dict[type[Operation], Callable[[Operation, Attribute, np.dtype[Any]], Function]] = {
    arith.ExtFOp: _cast,
    arith.TruncFOp: _cast,
    arith.FPToSIOp: _cast,
    arith.SIToFPOp: _signed,
    arith.ExtSIOp: _signed,
    arith.UIToFPOp: _from_unsigned,
    arith.ExtUIOp: _from_unsigned,
    arith.TruncIOp: _truncated,
    arith.IndexCastOp: _index_cast,
    arith.BitcastOp: _bitcast,
}


def divides(op: Operation) -> bool:
    """True if the second operand must not be 0."""
    return op.name in SCALARS and SCALARS[op.name].divides
