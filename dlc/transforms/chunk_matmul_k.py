"""The scheduling step `chunk-matmul-k`: see `ChunkMatmulKPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Region
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.contraction import contractions
from dlc.dialects import tile
from dlc.dialects.axes import SERIAL, AxesOp, ReduceOpBase, new_body
from dlc.ir.axis_edit import Axis, replace_axes
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class ChunkMatmulKPass(SchedulingPass):
    """
    The K reduce of a contraction becomes a reduce over chunks of a reduce within a chunk.

    Legal always: points of a ragged last chunk beyond K fold the identity. Both reduces have one
    monoid and the inner one is only yielded, so they accumulate in place.
    Faster once `stage-inputs` fetches the chunk's slabs into shared memory.

    ```
    %acc = tile.reduce add serial(%k in 2048) -> f32 { … %k … }
    ```
    becomes, with `bk=16`,
    ```
    %acc = tile.reduce add serial(%ko in 128) -> f32 {
      %part = tile.reduce add serial(%ki in 16) -> f32 { … %ko * 16 + %ki … }
      tile.yield %part : f32
    }
    ```
    """

    name = "chunk-matmul-k"

    bk: int | None = None
    """Points of K in a chunk."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        if self.bk is None or self.bk < 1:
            raise Decline("it needs bk, the points of K in a chunk")
        reduces = [c.reduce for c in contractions(kernel.launch)]
        reduces = [r for r in reduces if not any(isinstance(o, AxesOp) for o in r.body.walk())]
        if not reduces:
            raise Decline("it has no contraction")
        long = [r for r in reduces if r.extent(r.axes[-1]) > self.bk]
        if not long:
            raise Decline(f"no K is longer than a chunk of {self.bk}")
        for reduce in long:
            chunk(reduce, self.bk)
        return f"{len(long)} reduce in chunks of {self.bk}"


def chunk(reduce: ReduceOpBase, size: int) -> None:
    """Splits the innermost axis of `reduce` into chunks; the other axes stay outside."""
    *outer, last = reduce.axes
    name = last.name_hint or "k"
    chunks = -(-reduce.extent(last) // size)
    new = [
        *(Axis(a.name_hint, reduce.extent(a), SERIAL) for a in outer),
        Axis(f"{name}o", chunks, SERIAL),
        Axis(f"{name}i", size, SERIAL),
    ]
    replace_axes(
        reduce,
        new,
        lambda e: {**dict(zip(outer, e, strict=False)), last: e[-2] * size + e[-1]},
    )
    _nest_last_axis(reduce)


def _nest_last_axis(reduce: ReduceOpBase) -> None:
    """`reduce (a, b) { … }` becomes `reduce a { reduce b { … } }`."""
    outer = reduce.axes[:-1]
    region = new_body(len(outer), [a.name_hint for a in outer])
    for axis, new in zip(outer, region.block.args, strict=True):
        axis.replace_all_uses_with(new)
    types = [r.type for r in reduce.results]
    extents = [reduce.extent(a) for a in reduce.axes]
    inner_region = reduce.detach_region(0)
    inner = tile.ReduceOp(reduce.monoid_name.data, extents[-1:], types, Region(), [SERIAL])
    inner.detach_region(0)
    inner.add_region(inner_region)
    for axis in outer:
        inner_region.block.erase_arg(axis)
    for old, result in zip(reduce.results, inner.results, strict=True):
        result.name_hint = "part" if old.name_hint is None else f"{old.name_hint}_part"
    region.block.add_ops([inner, tile.YieldOp(inner.results)])
    whole = tile.ReduceOp(
        reduce.monoid_name.data, extents[:-1], types, region, [SERIAL] * len(outer)
    )
    for old, result in zip(reduce.results, whole.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    Rewriter.insert_op(whole, InsertPoint.before(reduce))
    reduce.detach()
    reduce.erase()
