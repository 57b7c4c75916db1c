"""
The part of the `tile` dialect that keeps what threads compute in their registers, and that gives it
to the other threads of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import YieldOpBase
from dlc.dialects.axes import REGISTER, AxesOp, Over, axes_properties
from dlc.dialects.directives import At
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.layouts import shape_of
from dlc.dialects.staging import SharedAttr, verify_buffer
from dlc.dialects.type_directives import MemRef
from dlc.ir.bounds import least, most
from dlc.ir.expr import Expr


@irdl_attr_definition
class HeldAttr(ParametrizedAttribute):
    """`#tile.held`: registers of the threads of a block."""

    name = "tile.held"


@irdl_op_definition
class HoldOp(AxesOp):
    """
    What each thread computes at the points of register axes, and keeps in its registers.

    ```
    %s = tile.hold across(%member) register(%half in 2, %keys in 8, %pair in 2) {
      %a = tile.load %scores[%trow * 16 + %half * 8 + %group, %keys * 8 + %member * 2 + %pair]
      tile.yield %a : f32
    } : memref<2x64xf32, #tile.held>
    ```
    The dimensions are the axes. With `across`, the last two axes and the thread axis number the
    elements of one dimension: in the example the 64 elements of a row are held by four lanes, as
    the sums of products of matrices are (`#kernel.mma`), `%keys * 8 + %member * 2 + %pair` by lane
    `%member`. A thread reads elements of its own, and reads all of a row only as a factor of
    products of matrices, which the lanes multiply together: a row that they hold so is a factor.
    `tile.share` lets others read it.
    The element where a condition of the yield is false is 0.
    """

    name = "tile.hold"
    across = var_operand_def(IndexType())
    result = result_def(MemRefType)
    custom_directives = (Over, MemRef)
    assembly_format = (
        "(`across` `(` $across^ `)`)? custom<Over>($extents, $kinds, $body) attr-dict"
        " `:` custom<MemRef>(type($result))"
    )
    traits = traits_def(RecursiveMemoryEffect())

    KINDS: ClassVar = (REGISTER,)

    def __init__(
        self, extents: Sequence[int], element: Attribute, body: Region, across: Sequence[SSAValue]
    ) -> None:
        shape = _shape(extents, across)
        super().__init__(
            operands=[across],
            regions=[body],
            properties=axes_properties(type(self), extents, [REGISTER] * len(extents)),
            result_types=[memref_type(element, shape, space=HeldAttr())],
        )

    @property
    def element_type(self) -> Attribute:
        assert isinstance(self.result.type, MemRefType)
        return self.result.type.element_type

    def place(self, element: Sequence[Expr]) -> list[Expr]:
        """Where a thread that has an element has it: points of the axes."""
        if not self.across:
            return [*element]
        run, threads = self.all_extents[-1], _threads(self.across)
        *outer, last = element
        return [*outer, last // (run * threads), last % run]

    def element(self, place: Sequence[Expr]) -> list[Expr]:
        """The element that a thread has at a point of the axes."""
        if not self.across:
            return [*place]
        *outer, number, inner = place
        (member,), run = self.across, self.all_extents[-1]
        first = number * (run * _threads(self.across)) + Expr.of(member) * run
        return [*outer, first + inner]

    def verify_(self) -> None:
        self.verify_axes()
        if len(self.across) > 1 or (self.across and len(self.axes) < 2):
            raise VerifyException(
                f"expected one thread axis beside at least 2 register axes, found "
                f"{len(self.across)} beside {len(self.axes)}"
            )
        last = self.body.block.last_op
        found = [v.type for v in last.values] if isinstance(last, YieldOpBase) else []
        type, shape = self.result.type, _shape(self.all_extents, self.across)
        assert isinstance(type, MemRefType)
        if found != [type.element_type]:
            raise VerifyException(
                f"expected a body that yields ({type.element_type}), found "
                f"({', '.join(map(str, found))})"
            )
        if type != memref_type(type.element_type, shape, space=HeldAttr()):
            sizes = "".join(f"{n}x" for n in shape)
            raise VerifyException(
                f"expected a result of type memref<{sizes}{type.element_type}, #tile.held>, "
                f"found {type}"
            )


@irdl_op_definition
class ShareOp(IndexedOp):
    """
    `%s = tile.share %p[expr] : memref<4x64xf32, #tile.held> -> memref<32x64xf32, #tile.shared>`

    A slab of the rows that the threads of a block hold: each writes the elements that it has, those
    of its first row to the row of the slab that the subscript is. The thread axes there number the
    threads that hold other rows; the slab is the same for all.
    """

    name = "tile.share"
    held = operand_def(MemRefType)
    result = result_def(MemRefType)
    custom_directives = (At, MemRef)
    assembly_format = (
        "$held `` custom<At>($indices, $map, $conditions) attr-dict"
        " `:` custom<MemRef>(type($held)) `->` custom<MemRef>(type($result))"
    )
    traits = traits_def(MemoryReadEffect())

    def __init__(self, held: SSAValue, first: Expr, rows: int) -> None:
        assert isinstance(held.type, MemRefType)
        indices, map, _ = index_parts([first], ())
        super().__init__(
            operands=[held, indices],
            properties={"map": map},
            result_types=[_slab(held.type, rows)],
        )

    @property
    def across(self) -> Sequence[SSAValue]:
        """What numbers the threads that hold other rows."""
        return self.indices

    @property
    def result_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.result.type, MemRefType)
        return self.result.type

    def verify_(self) -> None:
        held = self.held.type
        assert isinstance(held, MemRefType)
        if len(self.subscripts) != 1 or self.where:
            raise VerifyException("expected the first row of a thread, and no conditions")
        rows = (shape_of(self.result_type) or (0,))[0]
        if held.memory_space != HeldAttr() or not isinstance(self.held.owner, HoldOp):
            raise VerifyException(f"expected what threads hold, found {held}")
        first, (own, *_) = self.subscripts[0], shape_of(held)
        low, high = int(least(first)), int(most(first))
        if low < 0 or high + own > rows:
            raise VerifyException(
                f"expected rows of a slab of {rows}, found {low} to {high + own - 1}"
            )
        verify_buffer(self.result.type, _slab(held, rows), "a result")


def _slab(held: MemRefType[Attribute], rows: int) -> MemRefType[Attribute]:
    """The slab of so many rows, as those that a thread holds."""
    _, *row = shape_of(held)
    return memref_type(held.element_type, (rows, *row), space=SharedAttr())


def _shape(extents: Sequence[int], across: Sequence[SSAValue]) -> tuple[int, ...]:
    """The dimensions of what is held at so many points of axes."""
    if not across:
        return tuple(extents)
    return *extents[:-2], prod(extents[-2:]) * _threads(across)


def _threads(across: Sequence[SSAValue]) -> int:
    """How many threads hold parts of a row."""
    return prod(int(most(axis)) + 1 for axis in across)
