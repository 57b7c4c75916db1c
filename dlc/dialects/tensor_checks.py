"""What the verifiers of tensor operations have in common."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.size import check_sizes


def shown(shape: tuple[int, ...]) -> str:
    """`4x8`, as in a type."""
    return "x".join(map(str, shape)) or "scalar"


def verify_scalar(value: Attribute, element: Attribute) -> None:
    """VerifyException unless an attribute is a scalar of a type."""
    if not isinstance(value, FloatAttr | IntegerAttr) or value.type != element:
        raise VerifyException(f"expected a scalar of type {element}, found {value}")


def verify_sizes(op: IRDLOperation) -> None:
    """VerifyException for sizes in an operation's types that do not go together."""
    for value in (*op.operands, *op.results):
        check_sizes(op, value.type)


def verify_axis(axis: IntegerAttr, tensor: SSAValue) -> None:
    """VerifyException for an axis that a tensor does not have."""
    rank = len(shape_of(tensor))
    if not 0 <= axis.value.data < rank:
        raise VerifyException(f"expected an axis from 0 to {rank - 1}, found {axis.value.data}")


def verify_map(map: AffineMap, rank: int, indices: int, tensor: SSAValue) -> None:
    """VerifyException unless a map of dimensions and indices gives subscripts of a tensor."""
    if map.num_dims != rank + indices:
        raise VerifyException(f"expected a map over {rank} dimensions and {indices} indices")
    if len(map.results) != len(shape_of(tensor)):
        raise VerifyException(
            f"expected {len(shape_of(tensor))} subscripts for {tensor.type}, found "
            f"{len(map.results)}"
        )


def verify_same_element(result: SSAValue, source: SSAValue) -> None:
    """VerifyException unless a result has its source's type of element."""
    if element_of(result) != element_of(source):
        raise VerifyException(
            f"expected a result of element type {element_of(source)}, found {element_of(result)}"
        )
