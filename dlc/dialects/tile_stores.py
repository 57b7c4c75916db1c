"""What a launch does to memory of the device: `tile.store`, `tile.atomic_add`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import AtomicAddOpBase, StoreOpBase, verify_exact
from dlc.dialects.axes import BLOCK, REGISTER, AxesOp, loops_around
from dlc.dialects.directives import Across, At
from dlc.dialects.indexed_op import Replace, verify_maps
from dlc.dialects.type_directives import StoreTypes
from dlc.dialects.warp_boxes import warp_boxes
from dlc.ir.affine_forms import to_maps
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
    `tile.atomic_add %v, %y[expr, …] (where (condition, …))? (across(expr, …))? (in_block i32)?
    : memref`

    Adds to a zeroed output, once per point of the axes in its subscripts and conditions and in what
    it goes across: there, points add to the same elements, as parts of one sum or where data say.
    The value varies along no other axes: an element would get more than one value. At other axes,
    only the first point adds.

    With `in_block`, a block adds up what its points give in a table of its own in shared memory,
    and adds that to the output once: of integers of 32 bits, or of a number that fits into them as
    often as the points of a block add it.
    """

    name = "tile.atomic_add"
    value = operand_def(AnyAttr())
    ref = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    points = opt_prop_def(AffineMapAttr)
    in_block = opt_prop_def(IntegerType)
    custom_directives = (At, Across, StoreTypes)
    assembly_format = (
        "$value `,` $ref `` custom<At>($indices, $map, $conditions)"
        " custom<Across>(ref($indices), $points) (`in_block` $in_block^)?"
        " attr-dict `:` custom<StoreTypes>(type($ref), type($value))"
    )

    def __init__(
        self,
        value: SSAValue,
        ref: SSAValue,
        subscripts: Sequence[Expr],
        across: Sequence[Expr],
        where: Sequence[Expr] = (),
    ) -> None:
        indices, properties = _index_properties(subscripts, where, across)
        IRDLOperation.__init__(self, operands=[value, ref, indices], properties=properties)

    @property
    def across(self) -> tuple[Expr, ...]:
        """What names the points that add to the same elements."""
        return self.exprs("points")

    def index_properties(
        self, subscripts: Sequence[Expr], where: Sequence[Expr]
    ) -> tuple[list[SSAValue], dict[str, Attribute | None]]:
        """What it goes across stays."""
        return _index_properties(subscripts, where, self.across)

    def substitute(self, replace: Replace, extra: Sequence[Expr] = ()) -> None:
        """Of what it goes across, too."""
        across = [e.substitute(replace) for e in self.across]
        super().substitute(replace, extra)
        self.set_across(across)

    def set_across(self, across: Sequence[Expr]) -> None:
        """Says what it goes across instead of what it does."""
        indices, properties = _index_properties(self.subscripts, self.where, across)
        self.operands = [self.value, self.ref, *indices]
        self.properties = {
            **{k: v for k, v in self.properties.items() if k not in properties},
            **{k: v for k, v in properties.items() if v is not None},
        }

    def verify_(self) -> None:
        super().verify_()
        verify_maps([self.points], len(self.indices))
        if self.in_block is None:
            return
        verify_exact(self.value.type)
        if self.in_block != i32:
            raise VerifyException(
                f"expected i32 to add in shared memory, which adds 32 bits at once, found "
                f"{self.in_block}"
            )
        most = points_of_block(self)
        if self.value.type != i32 and (most is None or abs(number_of(self.value)) * most >= 2**31):
            raise VerifyException(
                f"expected a sum in a block that fits into i32, found {self.value.type} of "
                f"{most or 'any number of'} points"
            )


def _index_properties(
    subscripts: Sequence[Expr], where: Sequence[Expr], across: Sequence[Expr]
) -> tuple[list[SSAValue], dict[str, Attribute | None]]:
    indices: list[SSAValue] = []
    across = [e for e in across if not e.is_constant]
    map, conditions, points = to_maps([subscripts, where, across], indices)
    return indices, {
        "map": map,
        "conditions": conditions if where else None,
        "points": points if across else None,
    }


def number_of(value: SSAValue) -> int | float:
    """The number that a value is; infinite for what is computed."""
    constant = value.owner
    if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
        return constant.value.value.data
    return inf


def points_of_block(op: Operation) -> int | None:
    """The points of a block at which an operation is executed, None if it is not known."""
    loops = [around for around in loops_around(op) if isinstance(around, AxesOp)]
    extents = [
        around.extent(axis)
        for around in loops
        for axis in around.axes
        if around.kind(axis) != BLOCK
    ]
    return prod(extents) if all(isinstance(n, int) for n in extents) else None
