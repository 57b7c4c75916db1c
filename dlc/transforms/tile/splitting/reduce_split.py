"""The axis of a reduce that blocks share, and how it is dealt over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import BlockArgument

from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL
from dlc.ir.attributes import INDEX
from dlc.ir.expr import Expr
from dlc.ir.sizes import ceildiv
from dlc.schedule.rows import split_axis
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes


@dataclass(frozen=True)
class Split:
    """A reduce of a launch, a serial axis of it, and into how many parts this is split."""

    reduce: tile.ReduceOp
    axis: BlockArgument
    parts: int
    in_turns: bool = False
    """True if points are dealt in turns, not in runs."""

    @property
    def points(self) -> int:
        """The most points of a part."""
        return ceildiv(self.reduce.extent(self.axis), self.parts)

    def __str__(self) -> str:
        return (
            f"{self.parts} parts of %{self.axis.name_hint} in {self.reduce.extent(self.axis)}, "
            f"each of at most {self.points} points{', in turns' if self.in_turns else ''}"
        )

    def deal(self, launch: tile.LaunchOp) -> BlockArgument:
        """Deals the axis over a new outermost block axis of the launch, which is returned."""
        reduce, axis, points = self.reduce, self.axis, self.points
        extents, kinds = [*map(launch.extent, launch.axes)], [*map(launch.kind, launch.axes)]
        block = launch.body.block.insert_arg(INDEX, 0)
        name = axis.name_hint or "k"
        block.name_hint = f"{name.removesuffix('o') or name}s"
        launch.set_axes([self.parts, *extents], [BLOCK, *kinds])
        new = {a: keep(a, reduce) for a in reduce.axes}
        new[axis] = Axis(name, points, SERIAL)

        def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
            within = {a: e[k] for a, k in new.items()}
            if self.in_turns:
                return {**within, axis: within[axis] * self.parts + block}
            return {**within, axis: Expr.of(block) * points + within[axis]}

        replace_axes(reduce, [*new.values()], meaning)
        return block


def split_of(reduce: tile.ReduceOp, parts: int, *, in_turns: bool = False) -> Split:
    """The split of a reduce's first serial axis with a point for each part, else the longest."""
    axes = reduce.axes_of(SERIAL)
    axis = axes[split_axis([reduce.hint(a) for a in axes], parts)]
    return Split(reduce, axis, parts, in_turns)
