"""The points of thread and register axes are dealt out anew."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import BlockArgument

from dlc.dialects import tile
from dlc.dialects.axes import REGISTER
from dlc.ir.expr import Expr
from dlc.schedule.strips import Strips
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes


def deal_out(launch: tile.LaunchOp, strips: Strips) -> None:
    """Numbers the points of the pairs anew: each thread gets strips of so many."""
    axes = launch.axes
    extents, kinds = [launch.extent(a) for a in axes], [launch.kind(a) for a in axes]
    new = {axis: keep(axis, launch) for axis in axes}
    inner: dict[BlockArgument, Axis] = {}
    for pair, strip in strips.items():
        r = axes[pair.register]
        if strip > 1:
            new[r] = Axis(f"{r.name_hint}o", launch.extent(r) // strip, REGISTER)
            inner[r] = Axis(f"{r.name_hint}i", strip, REGISTER)
    order = [n for a in axes for n in (new[a], inner.get(a)) if n is not None]

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        result = {axis: e[n] for axis, n in new.items()}
        for pair, strip in strips.items():
            t, r = axes[pair.thread], axes[pair.register]
            points = e[new[r]] * (new[t].extent * strip) + e[new[t]] * strip
            result[t] = Expr()
            result[r] = points + e[inner[r]] if r in inner else points
        return result

    # With %t at rest, %t * R + %r is %r alone, if that numbers all T * R points.
    for pair in strips:
        t, r = pair.thread, pair.register
        extents[t], extents[r] = 1, extents[t] * extents[r]
    launch.set_axes(extents, kinds)
    replace_axes(launch, order, meaning)
