"""Tensor operations that write where data say."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import verify_exact
from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.tensor_checks import shown, verify_map, verify_same_element, verify_sizes
from dlc.dialects.tensor_directives import Scattered, Tensors


@irdl_op_definition
class ScatterAddOp(IRDLOperation):
    """
    ```
    %y = tensor_ir.scatter_add (%i) %x (d0, d1) -> [i0, d1]
        : (tensor<9x8xi64>), tensor<9x8xi32> -> tensor<4x8xi32>
    ```

    Adds up each element of `%x`, an integer, in the result's element at subscripts that may mention
    `i0`, `i1`, …: the elements of the index tensors, which have the shape of `%x`. An element of
    the result that nothing is added to is 0. Where an index is below 0, nothing is added; others
    must be in range.
    """

    name = "tensor_ir.scatter_add"
    source = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    map = prop_def(AffineMapAttr)
    result = result_def(TensorType)
    custom_directives = (Scattered, Tensors)
    assembly_format = (
        "` ` `(` $indices `)` $source custom<Scattered>($map, ref($indices))"
        " `:` `(` custom<Tensors>(type($indices)) `)` `,` custom<Tensors>(type($source))"
        " `->` custom<Tensors>(type($result)) attr-dict"
    )
    traits = traits_def(Pure())

    def __init__(
        self, source: SSAValue, indices: Sequence[SSAValue], map: AffineMap, shape: Sequence[int]
    ) -> None:
        super().__init__(
            operands=[source, indices],
            properties={"map": AffineMapAttr(map)},
            result_types=[sized_tensor(element_of(source), shape)],
        )

    def verify_(self) -> None:
        verify_sizes(self)
        verify_exact(element_of(self.source))
        shape = shape_of(self.source)
        for index in self.indices:
            if shape_of(index) != shape or element_of(index) != i64:
                raise VerifyException(
                    f"expected indices of type i64 and shape {shown(shape)}, found {index.type}"
                )
        verify_map(self.map.data, len(shape), len(self.indices), self.result)
        verify_same_element(self.result, self.source)
