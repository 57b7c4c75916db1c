"""Threads ask for copies into shared memory and go on without waiting for each."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr

from dlc.analysis.tile.fragments import bytes_at_once
from dlc.dialects import tile
from dlc.dialects.ring_ops import ASYNC
from dlc.dialects.staging import SlabOpBase
from dlc.transforms.step import Decline, SchedulingPass


@dataclass(frozen=True)
class AsyncCopyPass(SchedulingPass):
    """
    Rings that threads fill themselves are filled by cp.async, 16 bytes at a time where strides and
    alignment allow; in a kernel without rings, so are stages.

    *Legal when* runs of 4, 8 or 16 bytes lie together; the target has cp.async (sm_80 and later).
    *Faster because* copies pass no registers and go on while the threads compute; those of a stage
    are all on their way at once, where a thread that loads may wait for each of them. Beside rings,
    to wait for a stage would be to wait for chunks that are asked for ahead.

    ```
    %A_ring = tile.ring %A(%n in 128)[%bi * 128, %n * 16] [128, 16] : …
    ```
    becomes
    ```
    %A_ring = tile.ring async %A(%n in 128)[%bi * 128, %n * 16] [128, 16] : …
    ```
    """

    name = "async-copy"
    needs = ("cp.async",)

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        ops = list(kernel.launch.walk())
        rings = [op for op in ops if isinstance(op, tile.RingOp)]
        stages = [op for op in ops if isinstance(op, tile.StageOp) and not rings]
        if not rings and not stages:
            raise Decline("it has no ring or stage (stage-inputs makes stages)")
        free = [op for op in (*rings, *stages) if not _is_asynchronous(op)]
        if not free:
            what = "rings are filled" if rings else "stages are copied"
            raise Decline(f"its {what} asynchronously already")
        widths = {op: bytes_at_once(kernel, _slab(op)) for op in free}
        narrow = [op for op, width in widths.items() if width < 4]
        if len(narrow) == len(free):
            names = ", ".join(str(_slab(op).source.name_hint) for op in narrow)
            raise Decline(f"cp.async copies 4 bytes at least, and of {names} fewer lie together")
        for op in free:
            if op in narrow:
                continue
            if isinstance(op, tile.RingOp):
                op.kind = StringAttr(ASYNC)
            else:
                op.asynchronous = UnitAttr()
        done = (
            f"{_slab(op).source.name_hint}: {'left, ' if op in narrow else ''}{width} B at once"
            for op, width in widths.items()
        )
        return ", ".join(done)


def _is_asynchronous(op: tile.RingOp | tile.StageOp) -> bool:
    return op.fill_kind is not None if isinstance(op, tile.RingOp) else op.is_async


def _slab(op: tile.RingOp | tile.StageOp) -> SlabOpBase:
    """What is copied."""
    return op.slab if isinstance(op, tile.RingOp) else op
