"""What a launch does to memory of the device: `tile.store`, `tile.atomic_add`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import AtomicAddOpBase, StoreOpBase, index_parts
from dlc.dialects.axes import BLOCK, REGISTER, AxesOp, launch_of
from dlc.dialects.warp_boxes import warp_boxes
from dlc.ir.expr import Expr


@irdl_op_definition
class StoreOp(StoreOpBase):
    """
    `tile.store %v, %y[expr, …] (where (condition, …))? (boxes 2)? : memref`

    With `boxes`, each warp writes its points to shared memory in boxes, of which it has room for so
    many, and the tensor memory accelerator stores those (`tma-copy{store=2}`).
    """

    name = "tile.store"
    boxes = opt_prop_def(IntegerAttr.constr(i64))
    assembly_format = (
        "$value `,` $ref `` custom<At>($indices, $map, $conditions) (`boxes` $boxes^)? attr-dict"
        " `:` custom<StoreTypes>(type($ref), type($value))"
    )

    def verify_(self) -> None:
        super().verify_()
        if self.boxes is None:
            return
        if self.boxes.value.data < 1:
            raise VerifyException(f"expected room for a box, found {self.boxes.value.data}")
        launch = around = self.parent_op()
        while launch is not None and not (isinstance(launch, AxesOp) and launch.is_launch):
            launch = launch.parent_op()
        if launch is None:
            return  # it is no Tile IR any more
        if launch is not around:
            raise VerifyException("expected a store by boxes in the launch, found it in a loop")
        if isinstance(reason := warp_boxes(self, launch.axes_of(REGISTER)), str):
            raise VerifyException(
                "expected points that are boxes of rows of a warp, as sums of tensor cores lie "
                f"(`register-tile{{mma=…}}`): {reason}"
            )


@irdl_op_definition
class AtomicAddOp(AtomicAddOpBase):
    """
    `tile.atomic_add %v, %y[expr, …] (where (condition, …))? (across(%b, …))? : memref`

    Adds, once per point of the axes in its subscripts and conditions and of those that it goes
    across, to a zeroed output. The latter are block axes of the launch: what the blocks hold along
    them are parts of one sum, as those of threads are to `tile.combine`. The value varies along no
    other axes: an element would get more than one value, and threads or registers of a block are
    folded before. At other axes, only the first point adds.
    """

    name = "tile.atomic_add"
    value = operand_def(AnyAttr())
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    axes = var_operand_def(IndexType())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$value `,` $ref `` custom<At>($indices, $map, $conditions) (`across` `(` $axes^ `)`)?"
        " attr-dict `:` custom<StoreTypes>(type($ref), type($value))"
    )

    def __init__(
        self,
        value: SSAValue,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        axes: Sequence[SSAValue],
        where: Sequence[Expr] = (),
    ) -> None:
        indices, map, conditions = index_parts(subscripts, where)
        IRDLOperation.__init__(
            self,
            operands=[value, ref, indices, axes],
            properties={"map": map, "conditions": conditions},
        )

    def verify_(self) -> None:
        super().verify_()
        for axis in self.axes:
            launch = launch_of(axis)
            if launch is None or launch.kind(axis) != BLOCK:
                raise VerifyException(f"expected block axes to add across, found %{axis.name_hint}")
            if launch.most(axis) < 2:
                raise VerifyException(
                    f"expected axes of at least 2 points to add across, found %{axis.name_hint}"
                )


def once_along(op: StoreOp | AtomicAddOp) -> tuple[SSAValue, ...]:
    """The index values at each of whose points an effect happens once."""
    return (*op.indices, *op.axes) if isinstance(op, AtomicAddOp) else tuple(op.indices)
