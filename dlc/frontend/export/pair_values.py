"""Values of Torch IR for complex tensors, which `@main` has as pairs of reals."""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType, TensorType
from xdsl.ir import Block, SSAValue

from dlc.dialects.layouts import shape_of
from dlc.dialects.sized_types import sized_tensor
from dlc.dialects.torch import AtenOp
from dlc.frontend.export.nodes import tensor_type


def main_type(value: object) -> TensorType:
    """The type that `@main` has for a (fake) tensor; Unrepresentable if there is none."""
    type = tensor_type(value)
    if not isinstance(type.element_type, ComplexType):
        return type
    return sized_tensor(type.element_type.element_type, [*shape_of(type), 2])


def converted(block: Block, value: SSAValue, overload: str, type: TensorType) -> SSAValue:
    """`value` seen by `view_as_complex` or `view_as_real`, named as it is."""
    op = AtenOp(overload, {"self": value}, {}, [type])
    op.results[0].name_hint = value.name_hint
    block.add_op(op)
    return op.results[0]
