"""
The part of the `tile` dialect that makes slabs in shared memory: stages, which are copies of parts
of inputs, and computed slabs. Those that are fetched ahead are in `dlc.dialects.ring_ops`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    MemRefType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    MemoryReadEffect,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import LoadOpBase, YieldOpBase
from dlc.dialects.axes import THREAD, AxesOp, Over, axes_properties
from dlc.dialects.directives import At
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_memory import memref_type
from dlc.dialects.layouts import shape_of, verify_layout
from dlc.dialects.nest_ops import ReduceOpBase
from dlc.dialects.type_directives import MemRef
from dlc.ir.attributes import i64_array
from dlc.ir.expr import Expr

Place = TypeVar("Place", int, Expr)
"""A number, or what gives one."""


@irdl_attr_definition
class SharedAttr(ParametrizedAttribute):
    """`#tile.shared`: memory shared by the threads of a block."""

    name = "tile.shared"


class SlabOpBase(IndexedOp, ABC):
    """
    Base of operations that name a slab: where it begins in `source`, its sizes, and the steps from
    an element that it has to the next.
    """

    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    sizes = prop_def(DenseArrayBase.constr(i64))
    steps = opt_prop_def(DenseArrayBase.constr(i64))
    """None if all are 1."""

    def __init__(
        self,
        source: SSAValue,
        base: Sequence[Expr],
        sizes: Sequence[int],
        steps: Sequence[int] = (),
        result_types: Sequence[Attribute] = (),
    ) -> None:
        indices, map, _ = index_parts(base, ())
        super().__init__(
            operands=[source, indices],
            properties={
                "map": map,
                "sizes": i64_array(tuple(sizes)),
                "steps": steps_attr(steps),
            },
            result_types=result_types,
        )

    @property
    def slab_sizes(self) -> tuple[int, ...]:
        """The sizes of the slab, one for each dimension of the source."""
        return tuple(int(n) for n in self.sizes.get_values())

    @property
    def slab_steps(self) -> tuple[int, ...]:
        """How far apart its elements are in the source, along each dimension."""
        if self.steps is None:
            return (1,) * len(self.slab_sizes)
        return tuple(int(n) for n in self.steps.get_values())

    @property
    def source_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.source.type, MemRefType)
        return self.source.type

    def verify_slab(self) -> None:
        self.verify_index(self.source_type.get_num_dims(), self.source_type)
        if self.conditions is not None:
            raise VerifyException("expected no conditions: elements beyond the source are 0")
        sizes = list(self.slab_sizes)
        if len(sizes) != self.source_type.get_num_dims() or any(n < 1 for n in sizes):
            raise VerifyException(
                f"expected a positive size for each dimension of {self.source_type}, found {sizes}"
            )
        steps = list(self.slab_steps)
        if len(steps) != len(sizes) or any(n < 1 for n in steps):
            raise VerifyException(
                f"expected a positive step for each dimension of {self.source_type}, found {steps}"
            )


def steps_attr(steps: Sequence[int]) -> DenseArrayBase[Any] | None:
    """Steps as a property, which there is none of where all are 1."""
    return i64_array(tuple(steps)) if any(n != 1 for n in steps) else None


def slab_type(source: MemRefType[Attribute], sizes: Sequence[int]) -> MemRefType[Attribute]:
    """The type of a staged slab: sizes of 1 are dropped."""
    shape = tuple(n for n in sizes if n != 1)
    return memref_type(source.element_type, shape, space=SharedAttr())


def verify_buffer(found: Attribute, expected: MemRefType[Attribute], what: str) -> None:
    """Checks a buffer's type; it may have any layout of shared memory."""
    assert isinstance(found, MemRefType)
    plain = memref_type(found.element_type, shape_of(found), space=found.memory_space)
    if plain != expected:
        raise VerifyException(f"expected {what} of type {expected}, found {found}")
    verify_layout(found)


@irdl_op_definition
class StageOp(SlabOpBase):
    """
    `%s = tile.stage %x[expr, …] [4, 1, 8] : memref -> memref<4x8xf32, #tile.shared>`

    A copy of the slab of `%x` that begins at the subscripts and has the given sizes, made together
    by all threads of the block. Dimensions of size 1 are dropped. Elements beyond `%x` are 0. With
    `step [1, 1, 2]` behind the sizes, every second element along the last dimension is copied.

    One that is `async`, as in `tile.stage async %x[…] …`, is copied by cp.async, which is waited
    for at once: all that a thread copies is on its way together, and passes no registers.
    """

    name = "tile.stage"
    asynchronous = opt_prop_def(UnitAttr)
    result = result_def(MemRefType)
    custom_directives = (At, MemRef)
    assembly_format = (
        "(`async` $asynchronous^)? $source `` custom<At>($indices, $map, $conditions) $sizes"
        " (`step` $steps^)? attr-dict"
        " `:` custom<MemRef>(type($source)) `->` custom<MemRef>(type($result))"
    )
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        source: SSAValue,
        base: Sequence[Expr],
        sizes: Sequence[int],
        steps: Sequence[int] = (),
    ) -> None:
        assert isinstance(source.type, MemRefType)
        super().__init__(source, base, sizes, steps, [slab_type(source.type, sizes)])

    @property
    def is_async(self) -> bool:
        """True if cp.async copies it."""
        return self.asynchronous is not None

    def verify_(self) -> None:
        self.verify_slab()
        verify_buffer(self.result.type, slab_type(self.source_type, self.slab_sizes), "a result")


@irdl_op_definition
class ComputeOp(AxesOp):
    """
    A slab of which the threads of the block together compute each element once.

    ```
    %h = tile.compute thread(%p in 128, %q in 16) {
      %g = tile.load %g_smem[%p, %q] : memref<128x16xf32, #tile.shared>
      %v = math.tanh %g : f32
      tile.yield %v where (%ko * 16 + %q < 2040) : f32
    } : memref<128x16xf32, #tile.shared>
    ```

    The axes are the dimensions of the slab; its elements are dealt over all threads like those of
    a copy. The element where a condition is false is 0. What is yielded may vary along block and
    serial axes around, not along what the threads hold of their own.

    An element may be a sum: `%s = tile.compute points [4, 8] thread(%p in 64, %q in 64) { … }` with
    a `tile.reduce` inside. A thread then holds so many points of each axis at once in registers,
    those at equal distances: with 16 × 8 threads `%r * 16 + %t` for rows and `%r * 8 + %t` for
    columns. Of an even number of rows of threads, thread n and its neighbour n ^ 1 have two rows
    and one column, n and n ^ 2 one row: what they read is read for both at once.
    """

    name = "tile.compute"
    result = result_def(MemRefType)
    points = opt_prop_def(DenseArrayBase.constr(i64))
    custom_directives = (Over, MemRef)
    assembly_format = (
        "(`points` $points^)? custom<Over>($extents, $kinds, $body) attr-dict"
        " `:` custom<MemRef>(type($result))"
    )
    traits = traits_def(RecursiveMemoryEffect())

    KINDS: ClassVar = (THREAD,)

    def __init__(
        self,
        extents: Sequence[int],
        element: Attribute,
        body: Region,
        points: Sequence[int] | None = None,
    ) -> None:
        held = None if points is None else i64_array(tuple(points))
        super().__init__(
            regions=[body],
            properties={
                "points": held,
                **axes_properties(type(self), extents, [THREAD] * len(extents)),
            },
            result_types=[MemRefType(element, extents, memory_space=SharedAttr())],
        )

    @property
    def points_held(self) -> tuple[int, ...] | None:
        """The points of each axis that a thread holds at once; None for a run of neighbours."""
        return None if self.points is None else tuple(int(n) for n in self.points.get_values())

    @property
    def numbered(self) -> tuple[int, ...]:
        """
        By what axes, the last one fastest, threads are numbered that hold points: those of the
        slab, but of an even number of rows of threads two are innermost.
        """
        assert self.points_held is not None
        threads = tuple(n // held for n, held in zip(self.sizes, self.points_held, strict=True))
        if len(threads) < 2 or threads[-2] % 2:
            return threads
        *others, rows, columns = threads
        return *others, rows // 2, columns, 2

    def first_point(self, at: Sequence[Place]) -> list[Place]:
        """The first of the points that a thread holds, by its place along `numbered`."""
        if len(at) == len(self.sizes):
            return list(at)
        *others, rows, column, row = at
        return [*others, rows * 2 + row, column]

    @property
    def result_type(self) -> MemRefType[Attribute]:
        assert isinstance(self.result.type, MemRefType)
        return self.result.type

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extents of the slab."""
        return shape_of(self.result_type)

    def verify_(self) -> None:
        self.verify_axes()
        element = self.result_type.element_type
        extents = list(self.all_extents)
        if 0 in extents:
            raise VerifyException(f"expected extents of at least 1, found {extents}")
        verify_buffer(
            self.result.type, MemRefType(element, extents, memory_space=SharedAttr()), "a result"
        )
        last = self.body.block.last_op
        found = [v.type for v in last.values] if isinstance(last, YieldOpBase) else []
        if found != [element]:
            raise VerifyException(
                f"expected a body that yields ({element}), found ({', '.join(map(str, found))})"
            )
        self._verify_points(extents)
        for op in self.body.walk():
            if not isinstance(op, LoadOpBase | ReduceOpBase) and not op.has_trait(Pure):
                raise VerifyException(
                    f"expected a body of loads, arithmetic and reduces, found '{op.name}'"
                )

    def _verify_points(self, extents: Sequence[int]) -> None:
        points = self.points_held
        if points is None:
            if any(isinstance(op, ReduceOpBase) for op in self.body.walk()):
                raise VerifyException("expected `points` of a slab whose elements are reduces")
            return
        if len(points) != len(extents) or any(
            n < 1 or extent % n for n, extent in zip(points, extents, strict=False)
        ):
            raise VerifyException(
                f"expected points that divide the extents {list(extents)}, found {list(points)}"
            )
