"""Threads ask for copies into rings and go on without waiting for them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr

from dlc.analysis.tile.fragments import copy_width
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.ring_ops import ASYNC
from dlc.transforms.step import Decline, SchedulingPass


@dataclass(frozen=True)
class AsyncCopyPass(SchedulingPass):
    """
    Rings that threads fill themselves are filled by cp.async, 16 bytes at a time where strides and
    alignment allow.

    *Legal when* runs of 4, 8 or 16 bytes lie together; the target has cp.async (sm_80 and later).
    *Faster because* copies pass no registers and go on while the threads compute.

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
        rings = [op for op in kernel.launch.walk() if isinstance(op, tile.RingOp)]
        if not rings:
            raise Decline("it has no ring (double-buffer makes them)")
        free = [ring for ring in rings if ring.fill_kind is None]
        if not free:
            raise Decline("its rings are filled asynchronously already")
        widths = {ring: _bytes_at_once(kernel, ring) for ring in free}
        narrow = [ring for ring, width in widths.items() if width < 4]
        if len(narrow) == len(free):
            names = ", ".join(str(ring.slab.source.name_hint) for ring in narrow)
            raise Decline(f"cp.async copies 4 bytes at least, and of {names} fewer lie together")
        for ring in free:
            if ring not in narrow:
                ring.kind = StringAttr(ASYNC)
        done = (
            f"{ring.slab.source.name_hint}: {'left, ' if ring in narrow else ''}{width} B at once"
            for ring, width in widths.items()
        )
        return ", ".join(done)


def _bytes_at_once(kernel: tile.KernelOp, ring: tile.RingOp) -> int:
    """The bytes that a thread copies of a ring's slab with one request."""
    alignment = kernel.alignment(ring.slab.source)  # pyright: ignore[reportArgumentType]
    width = copy_width(ring.slab, alignment, whole=True)
    return width * element_bytes(ring.slab.source_type.element_type)
