"""The scheduling step `blockify-launch`: see `BlockifyLaunchPass`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, SERIAL, THREAD
from dlc.ir.axis_edit import Axis, keep, replace_axes
from dlc.ir.expr import Expr
from dlc.schedule.step import Decline, SchedulingPass


@dataclass(frozen=True)
class BlockifyLaunchPass(SchedulingPass):
    """
    Free axes are partitioned into block, thread and serial axes.

    Legal always: stores at points beyond an extent do nothing. Thread axes that a combine folds
    across stay as they are. An axis of block size b and t threads becomes
    `%block * b + %thread * (b / t) + %serial`.
    Faster because the points of a block can share what they read, and a thread's points its
    registers.

    ```
    tile.launch thread(%i in 100, %j in 5632) { … }
    ```
    becomes, with `block=128,128 thread=16,16`,
    ```
    tile.launch block(%bi in 1, %bj in 44) thread(%ti in 16, %tj in 16) serial(%ei in 8, %ej in 8)
    ```
    """

    name = "blockify-launch"

    block: tuple[int, ...] | None = None
    """Points of each free axis in a block, aligned from the right; axes further left get 1."""
    thread: tuple[int, ...] | None = None
    """Threads along each axis of a block, aligned likewise; must divide the points."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        combined = {a for op in launch.walk() if isinstance(op, tile.CombineOp) for a in op.axes}
        free = [a for a in launch.axes_of(THREAD) if a not in combined]
        self._check(launch, free, prod(launch.extent(a) for a in combined))
        assert self.block is not None
        assert self.thread is not None
        blocks, threads = _align(self.block, len(free)), _align(self.thread, len(free))
        new: list[Axis] = [keep(a, launch) for a in launch.axes_of(BLOCK)]
        split: dict[BlockArgument, tuple[int, int, int]] = {}
        for axis, b in zip(free, blocks, strict=True):
            split[axis] = (len(new), 0, 0)
            new.append(Axis(f"b{axis.name_hint}", -(-launch.extent(axis) // b), BLOCK))
        for axis, t in zip(free, threads, strict=True):
            split[axis] = (split[axis][0], len(new), 0)
            new.append(Axis(f"t{axis.name_hint}", t, THREAD))
        rest = [a for a in launch.axes if a not in split and launch.kind(a) != BLOCK]
        kept = {a: n for n, a in enumerate(launch.axes_of(BLOCK))}
        for axis in rest:
            kept[axis] = len(new)
            new.append(keep(axis, launch))
        for axis, b, t in zip(free, blocks, threads, strict=True):
            split[axis] = (*split[axis][:2], len(new))
            new.append(Axis(f"e{axis.name_hint}", b // t, SERIAL))

        def meaning(e: Sequence[Expr]) -> dict[BlockArgument, Expr]:
            result = {axis: e[n] for axis, n in kept.items()}
            for axis, b, t in zip(free, blocks, threads, strict=True):
                nb, nt, ns = split[axis]
                result[axis] = e[nb] * b + e[nt] * (b // t) + e[ns]
            return result

        replace_axes(launch, new, meaning)
        sizes = " x ".join(str(b) for b in blocks)
        return f"blocks of {sizes} points, {' x '.join(str(t) for t in threads)} threads"

    def _check(self, launch: tile.LaunchOp, free: list[BlockArgument], combined: int) -> None:
        if self.block is None or self.thread is None:
            raise Decline("it needs block and thread, the points and threads along each axis")
        if not free:
            raise Decline("it has no free thread axis")
        for b, t in zip(_align(self.block, len(free)), _align(self.thread, len(free)), strict=True):
            if b < 1 or t < 1 or b % t:
                raise Decline(f"{t} threads do not divide a block of {b} points")
        count = prod((*_align(self.thread, len(free)), combined))
        if count > 1024:
            raise Decline(f"{count} threads are more than the 1024 that a block can have")
        if any(isinstance(op, tile.StageOp) for op in launch.walk()):
            raise Decline("slabs are staged already for the blocks that there are")


def _align(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The last `count` sizes, with 1 for axes further left."""
    return ((1,) * count + sizes)[-count:] if count else ()
