"""What folds the values that threads hold, or blocks, into one: `tile.combine`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from xdsl.dialects.builtin import IndexType, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.axes import BLOCK, THREAD, AxesOp, launch_of
from dlc.dialects.directives import Name
from dlc.dialects.nest_ops import verify_monoid
from dlc.dialects.type_directives import SameType
from dlc.ir.bounds import least, most
from dlc.ir.monoid import MONOIDS, Monoid
from dlc.ir.quick_operations import segment_sizes
from dlc.target import MAX_CLUSTER


def _kind_in_launch(axis: SSAValue) -> str | None:
    """The kind of an axis of a launch."""
    launch = launch_of(axis)
    return launch.kind(axis) if launch is not None else None


@irdl_op_definition
class CombineOp(IRDLOperation):
    """
    `%r = tile.combine add %part across(%t) (among(%row, %t))? : f32`

    Folds the values that the points of thread axes hold, in the order of the axes; the result is
    the same at all of them. Where the axes are no longer a launch's but values that the threads
    compute of their number, `among` lists all of them, the last one running fastest.

    With `dealt`, as in `%r = tile.combine add %part across(%t) dealt : f32`, each point of the axes
    goes on at a share of the points that a thread has; nothing after it varies along the axes.

    Across block axes, `%r = tile.combine add %p across(%ks) cluster? whole? : f32` folds what
    blocks hold that differ in those only. One of them goes on from there, the last one that comes;
    or in a `cluster` all run at the same time, and each goes on at a share of the points. Nothing
    after it varies along the axes, and a launch has one such fold at most, beside its loops.

    In a `cluster whole` each block goes on with the whole, and with what it has of a row that they
    hold between them. A launch has any number of these, all across the same axes.
    """

    name = "tile.combine"
    monoid_name = prop_def(StringAttr, prop_name="monoid")
    values = var_operand_def(AnyAttr())
    axes = var_operand_def(IndexType())
    threads = var_operand_def(IndexType())
    cluster = opt_prop_def(UnitAttr)
    whole = opt_prop_def(UnitAttr)
    dealt = opt_prop_def(UnitAttr)
    results_ = var_result_def(AnyAttr())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (Name, SameType)
    assembly_format = (
        "custom<Name>($monoid) $values `across` `(` $axes `)` (`cluster` $cluster^)?"
        " (`whole` $whole^)? (`dealt` $dealt^)? (`among` `(` $threads^ `)`)? attr-dict"
        " `:` custom<SameType>(type($values), type($results_))"
    )
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        monoid: str,
        values: Sequence[SSAValue],
        axes: Sequence[SSAValue],
        threads: Sequence[SSAValue] = (),
        *,
        cluster: bool = False,
        whole: bool = False,
        dealt: bool = False,
    ) -> None:
        super().__init__(
            operands=[values, axes, threads],
            properties={
                "monoid": StringAttr(monoid),
                "cluster": UnitAttr() if cluster else None,
                "whole": UnitAttr() if whole else None,
                "dealt": UnitAttr() if dealt else None,
            },
            result_types=[[v.type for v in values]],
        )

    @property
    def monoid(self) -> Monoid:
        return MONOIDS[self.monoid_name.data]

    @property
    def is_of_blocks(self) -> bool:
        """True for a fold of what blocks hold."""
        return any(_kind_in_launch(axis) == BLOCK for axis in self.axes)

    def verify_(self) -> None:
        verify_monoid(self.monoid_name.data, [r.type for r in self.results])
        if [v.type for v in self.values] != [r.type for r in self.results]:
            raise VerifyException("expected results of the values' types")
        kinds = {_kind_in_launch(axis) for axis in self.axes if axis not in self.threads}
        if kinds not in (set(), {THREAD}, {BLOCK}):
            names = ", ".join(f"%{axis.name_hint}" for axis in self.axes)
            raise VerifyException(f"expected thread axes, or block axes, found {names}")
        if self.cluster is not None:
            self._verify_cluster()
        elif self.whole is not None:
            raise VerifyException("expected a cluster, of which each block goes on with the whole")
        if self.dealt is not None and (
            kinds != {THREAD} or self.threads or not isinstance(self.parent_op(), AxesOp)
        ):
            raise VerifyException("expected thread axes of a launch, over which points are dealt")
        for thread in self.threads:
            if least(thread) != 0 or most(thread) == inf:
                raise VerifyException(
                    f"expected values from 0 up to a known bound, found %{thread.name_hint}"
                )

    def _verify_cluster(self) -> None:
        launch = self.parent_op()
        if not self.is_of_blocks or not isinstance(launch, AxesOp):
            raise VerifyException("expected block axes, whose blocks are a cluster")
        if (count := prod(map(launch.most, self.axes))) > MAX_CLUSTER:  # pyright: ignore[reportArgumentType]
            raise VerifyException(
                f"expected at most {MAX_CLUSTER} blocks in a cluster, found {count}"
            )

    def bind(self, axes: Sequence[SSAValue], threads: Sequence[SSAValue]) -> None:
        """Replaces the axes by values, those among all that the threads compute of their number."""
        segments = [self.values, axes, threads]
        self.operands = [value for segment in segments for value in segment]
        sizes = segment_sizes(tuple([len(segment) for segment in segments]))
        self.properties["operandSegmentSizes"] = sizes
