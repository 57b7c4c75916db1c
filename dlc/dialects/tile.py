"""
The `tile` dialect: a kernel scheduled on a GPU (Tile IR).

A launch is one scalar program that runs at every point of its axes. What differs is where an axis
lives: `block` axes are walked by the grid, `thread` axes by the threads of a block, `serial` axes
by each thread one point after the other, `register` axes by each thread all points at once,
`fragment` axes, of a reduce, by the lanes of a warp together.

```
tile.launch block(%row in 32) thread(%t in 256) {
  %xs = tile.stage %x[%row, 0] [1, 2048] : memref<32x2048xf32> -> memref<2048xf32, #tile.shared>
  %part = tile.reduce add serial(%o in 2) register(%v in 4) -> f32 {
    %a = tile.load %xs[%o * 1024 + %t * 4 + %v] : memref<2048xf32, #tile.shared>
    %sq = arith.mulf %a, %a : f32
    tile.yield %sq : f32
  }
  %ss = tile.combine add %part across(%t) : f32
  …
}
```

A value varies along the axes that its definition mentions, directly or through operands. Effects
happen once per point of the axes in their subscripts and conditions, and of those that an atomic
add is said to go across. Barriers do not exist here.
Slabs in shared memory are in `dlc.dialects.staging`, the rings that fetch them ahead in
`dlc.dialects.ring_ops`, what lanes of warps hold in registers in `dlc.dialects.holding`, and what
runs at the points of register axes one after the other in `dlc.dialects.point_ops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    HasParent,
    MemoryReadEffect,
    MemoryWriteEffect,
    RecursivelySpeculatable,
    SingleBlockImplicitTerminator,
)
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import IndexOpBase, LoadOpBase, SelectOpBase, YieldOpBase
from dlc.dialects.axes import (
    BLOCK,
    FRAGMENT,
    REGISTER,
    SERIAL,
    THREAD,
    axes_properties,
)
from dlc.dialects.canonical import ArithConstants
from dlc.dialects.cluster_checks import verify_clusters
from dlc.dialects.directives import At
from dlc.dialects.fragment_checks import verify_fragments
from dlc.dialects.holding import HeldAttr, HoldOp, ShareOp
from dlc.dialects.indexed_op import IndexedOp, index_parts
from dlc.dialects.kernel_op import KernelOpBase
from dlc.dialects.launch_checks import (
    block_fold,
    thread_fold,
    verify_effects,
    verify_folds,
    verify_order,
    verify_resident,
    whole_folds,
)
from dlc.dialects.mma_layouts import MmaAttr
from dlc.dialects.nest_ops import ForOpBase, ReduceOpBase
from dlc.dialects.point_ops import AccumulatorOp, EachOp
from dlc.dialects.ring_ops import AcquireOp, FillOp, ReleaseOp, RingOp, SlabOp
from dlc.dialects.scan_ops import ScanOpBase, SortOpBase
from dlc.dialects.staging import ComputeOp, SharedAttr, StageOp
from dlc.dialects.tile_combine import CombineOp
from dlc.dialects.tile_stores import AtomicAddOp, StoreOp
from dlc.ir.expr import Expr
from dlc.ir.monoid import POWERS
from dlc.ir.variance import variance


@irdl_op_definition
class KernelOp(KernelOpBase):
    """`%y = tile.kernel @name(%x: memref = %a, …) -> (%y: memref, …) (schedule "…")? { … }`"""

    name = "tile.kernel"

    @property
    def launch(self) -> LaunchOp:
        """The kernel's launch."""
        return next(op for op in self.body.block.ops if isinstance(op, LaunchOp))

    def verify_(self) -> None:
        super().verify_()
        launches = [op for op in self.body.block.ops if isinstance(op, LaunchOp)]
        if len(launches) != 1:
            raise VerifyException(f"expected one tile.launch, found {len(launches)}")
        for op in self.launch.walk():
            if isinstance(op, AtomicAddOp) and op.ref not in self.zeroed_refs:
                raise VerifyException(
                    f"expected '{op.name}' to add to a zeroed output, found %{op.ref.name_hint}"
                )


@irdl_op_definition
class YieldOp(YieldOpBase):
    """
    `tile.yield %a, … (where (condition, …))? : type, …`: what a reduce folds, or the element that
    is computed.
    """

    name = "tile.yield"
    traits = lazy_traits_def(lambda: (HasParent(LaunchOp, ForOp, ReduceOp, ComputeOp, HoldOp),))


@irdl_op_definition
class LaunchOp(ForOpBase):
    """
    `tile.launch block(%b in 4) thread(%t in 256) serial(…) register(…) { … }`

    Blocks are numbered with the last block axis running fastest. With `last_first [1, 2]`, block
    axis 1 runs slowest, from its last point on, and in two waves, of which the second runs the
    other way round: 7, 6, 5, 4, 0, 1, 2, 3.

    With `resident 132`, no more blocks than that run, each of which does what the blocks n,
    n + 132, n + 264, … would do, one after the other.

    With `cluster 2`, so many blocks that follow each other run at the same time: those that differ
    along the last block axes alone. Rings that are the same in several of them may say so.

    With `in_turns`, the warpgroups of a block take turns at the products of its loop: one has the
    last of an iteration and the first of the next, while the others compute of their sums. What a
    kernel computes is the same.
    """

    name = "tile.launch"
    last_first = opt_prop_def(DenseArrayBase.constr(i64))
    resident = opt_prop_def(IntegerAttr.constr(i64))
    cluster = opt_prop_def(IntegerAttr.constr(i64))
    in_turns = opt_prop_def(UnitAttr)
    assembly_format = (
        "(`last_first` $last_first^)? (`resident` $resident^)? (`cluster` $cluster^)?"
        " (`in_turns` $in_turns^)?"
        " custom<Over>($extents, $kinds, $body) attr-dict"
    )
    KINDS: ClassVar = (BLOCK, THREAD, SERIAL, REGISTER)
    traits = traits_def(MemoryWriteEffect(), SingleBlockImplicitTerminator(YieldOp))

    @property
    def order(self) -> tuple[BlockArgument, int] | None:
        """The block axis that runs slowest, its last point first, and its waves, if it says so."""
        if self.last_first is None:
            return None
        number, waves = map(int, self.last_first.get_values())
        return self.axes_of(BLOCK)[number], waves

    def set_order(self, axis: BlockArgument, waves: int) -> None:
        """Says which block axis runs slowest, its last point first, in so many waves."""
        number = self.axes_of(BLOCK).index(axis)
        self.last_first = DenseArrayBase.from_list(i64, [number, waves])

    @property
    def cluster_size(self) -> int:
        """The number of blocks that run at the same time, beside those that fold what they hold."""
        return 1 if self.cluster is None else self.cluster.value.data

    @property
    def block_fold(self) -> CombineOp | None:
        """The fold of what blocks hold, if there is one."""
        return block_fold(self)

    @property
    def whole_folds(self) -> list[CombineOp]:
        """The folds of what the blocks of a cluster hold with which each of them goes on."""
        return whole_folds(self)

    @property
    def thread_fold(self) -> CombineOp | None:
        """The fold of what threads hold over which its points are dealt, if there is one."""
        return thread_fold(self)

    def verify_(self) -> None:
        super().verify_()
        if self.last_first is not None:
            verify_order(self, [int(number) for number in self.last_first.get_values()])
        if self.resident is not None:
            verify_resident(self, self.resident.value.data)
        along = variance(self)
        verify_folds(self, along)
        verify_clusters(self, self.cluster_size, along)
        apart = self.last_first is None and self.block_fold is None and not self.whole_folds
        if self.cluster is not None and not apart:
            raise VerifyException(
                "expected a cluster of blocks that are numbered as their axes say, and that fold "
                "nothing together"
            )
        verify_effects(self, along)


@irdl_op_definition
class ForOp(ForOpBase):
    """
    `tile.for serial(%o in 2) register(%v in 4) { … }`

    Its points are independent but for what goes through memory of a thread, in their order.
    """

    name = "tile.for"
    KINDS: ClassVar = (SERIAL, REGISTER)
    traits = traits_def(RecursivelySpeculatable(), SingleBlockImplicitTerminator(YieldOp))


@irdl_op_definition
class ReduceOp(ReduceOpBase):
    """
    `%r = tile.reduce add serial(%o in 2) register(%v in 4) -> f32 { … tile.yield %v : f32 }`

    A reduce that is only yielded straight into an enclosing reduce of the same monoid
    accumulates in place. One that is `skipping`, as in `tile.reduce add skipping serial(%o in 2)`,
    leaves out the iterations in which a condition of its yield is false: all threads of a block
    leave out the same. One of `expsum` that is `rising` yields a largest that is no less than the
    one that it has so far (`tile.so_far`): what it yields is added as it is.

    A `fragment` axis is walked by the lanes of a warp together, in their registers:
    `tile.reduce add by <m16n8k16, bf16>(%group, %member, %half, %pair) serial(%ki in 4)
    fragment(%kf in 16) -> f32` sums products of a factor that varies along the rows of a fragment,
    `%half * 8 + %group`, and one that varies along its columns, `%member * 2 + %pair`, where
    `%group * 4 + %member` is the lane, by `kernel.mma`: `%group` and `%member` are the last thread
    axes of the launch, `%half` and `%pair` its last register axes.

    One that is `split`, as in `tile.reduce add by <m16n8k8, tf32>(…) split serial(%ki in 4)
    fragment(%kf in 8) -> f32`, takes each factor apart into a sum of two of tf32, and adds three of
    their four products, all but that of both small ones. It has accumulators of its own, which are
    added to those of a reduce around it in f32: what tensor cores add does not grow long. One that
    is `apart` has such accumulators, too, and takes no factor apart; of threads, too, whose long
    sums are rounded less often so.

    One by a warpgroup that leaves `pending 1` need not have summed the products of its last
    execution when the next one begins: the slabs that they read stay as they are until its end.
    """

    name = "tile.reduce"
    skips = opt_prop_def(UnitAttr)
    rising = opt_prop_def(UnitAttr)
    mma = opt_prop_def(MmaAttr)
    lanes = var_operand_def(IndexType())
    split = opt_prop_def(UnitAttr)
    apart = opt_prop_def(UnitAttr)
    pending = opt_prop_def(IntegerAttr.constr(i64))
    assembly_format = (
        "custom<Name>($monoid) (`about` $about^)? (`skipping` $skips^)? (`rising` $rising^)?"
        " (`by` $mma^ `(` $lanes `)`)?"
        " (`split` $split^)? (`apart` $apart^)? (`pending` $pending^)?"
        " custom<Fold>($extents, $kinds, type($results_), $body) attr-dict"
    )
    KINDS: ClassVar = (SERIAL, REGISTER, FRAGMENT)
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp))

    def __init__(
        self,
        monoid: str,
        extents: Sequence[int],
        result_types: Sequence[Attribute],
        body: Region,
        kinds: Sequence[str] = (),
    ) -> None:
        properties = axes_properties(type(self), extents, kinds)
        IRDLOperation.__init__(
            self,
            operands=[[]],
            regions=[body],
            properties={"monoid": StringAttr(monoid), **properties},
            result_types=[list(result_types)],
        )

    @property
    def left_pending(self) -> int:
        """The executions whose products may be in flight after one; 0 if all are summed."""
        return 0 if self.pending is None else self.pending.value.data

    @property
    def has_own_sums(self) -> bool:
        """True if what it sums is added to the sums of a reduce around it at its end."""
        return self.split is not None or self.apart is not None

    def set_mma(
        self, mma: MmaAttr, lanes: Sequence[SSAValue], *, split: bool = False, apart: bool = False
    ) -> None:
        """Says how warps fold the fragment axis, and what numbers the places of a fragment."""
        self.mma, self.operands = mma, list(lanes)
        self.split, self.apart = (UnitAttr() if told else None for told in (split, apart))

    def verify_(self) -> None:
        super().verify_()
        verify_fragments(self, self.mma, self.lanes, split=self.split is not None)
        if self.apart is not None and self.split is not None:
            raise VerifyException("expected sums that are not `split` for what is `apart`")
        if self.rising is not None and self.monoid_name.data not in POWERS:
            names = " or ".join(POWERS)
            raise VerifyException(f"expected a rising {names}, found {self.monoid_name.data}")
        if self.pending is None:
            return
        if self.has_own_sums:
            raise VerifyException("expected no products `pending` of sums that are added at once")
        if self.mma is None or not self.mma.is_of_warpgroup or self.left_pending < 1:
            raise VerifyException(
                f"expected `pending` a count >= 1 of products by a warpgroup, found "
                f"{self.left_pending} by {self.mma or 'threads'}"
            )


@irdl_op_definition
class SoFarOp(IndexedOp):
    """
    `%m = tile.so_far [%r, %half] : f32`: the largest that the `rising` reduce around has so far.

    The subscripts are points of the register axes of the launch along which that varies, in their
    order: what a thread holds of a chunk has axes of its own.
    """

    name = "tile.so_far"
    result = result_def(AnyAttr())
    custom_directives = (At,)
    assembly_format = "custom<At>($indices, $map, $conditions) attr-dict `:` type($result)"
    traits = traits_def(MemoryReadEffect())

    def __init__(self, subscripts: Sequence[Expr], type: Attribute) -> None:
        indices, map, _ = index_parts(subscripts, ())
        super().__init__(operands=[indices], properties={"map": map}, result_types=[type])

    def reduce_around(self) -> ReduceOp | None:
        """The reduce whose largest it is."""
        around = self.parent_op()
        while around is not None and not (isinstance(around, ReduceOp) and around.rising):
            around = around.parent_op()
        return around

    def verify_(self) -> None:
        around = self.reduce_around()
        if around is None:
            raise VerifyException("expected a reduce around that is rising")
        if self.where:
            raise VerifyException("expected no conditions")
        if self.result.type != around.results[0].type:
            raise VerifyException(
                f"expected a result of type {around.results[0].type}, found {self.result.type}"
            )


@irdl_op_definition
class LoadOp(LoadOpBase):
    """`%v = tile.load %x[expr, …] (where (condition, …) else %default)? : memref`"""

    name = "tile.load"


@irdl_op_definition
class IndexOp(IndexOpBase):
    """`%i = tile.index expr`: an index expression as a value."""

    name = "tile.index"


@irdl_op_definition
class SelectOp(SelectOpBase):
    """`%v = tile.select %a where (condition, …) else %b : type`"""

    name = "tile.select"


@irdl_op_definition
class ScanOp(ScanOpBase):
    """
    `%p = tile.scan add %a along %ko * 1024 + %t * 4 + %kv (among(%row, %t))? : f32`: the fold of
    what a value is at all points of serial, thread and register axes up to this one.
    """

    name = "tile.scan"


@irdl_op_definition
class SortOp(SortOpBase):
    """
    `%s = tile.sort %a along %t * 4 + %kv (among(%row, %t))? : i64`: what a value is at all points
    of thread and register axes, or of a serial one, in rising order.
    """

    name = "tile.sort"


def tile_ops(func: Operation) -> Iterator[Operation]:
    """The operations of this dialect that a kernel still has."""
    return (op for op in func.walk() if op.dialect_name() == Tile.name)


Tile = Dialect(
    "tile",
    [
        KernelOp,
        LaunchOp,
        ForOp,
        ReduceOp,
        SoFarOp,
        YieldOp,
        LoadOp,
        StoreOp,
        AtomicAddOp,
        IndexOp,
        SelectOp,
        CombineOp,
        ScanOp,
        SortOp,
        StageOp,
        ComputeOp,
        HoldOp,
        ShareOp,
        RingOp,
        SlabOp,
        FillOp,
        AcquireOp,
        ReleaseOp,
        EachOp,
        AccumulatorOp,
    ],
    [SharedAttr, HeldAttr],
    [ArithConstants()],
)
