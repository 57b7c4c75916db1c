"""The scheduling step `split-inner-for-swizzle`: see `SplitInnerForSwizzlePass`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr
from xdsl.ir import Attribute, Operation

from dlc.analysis.kernel.banks import accesses_of
from dlc.analysis.kernel.layout import swizzled
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import PERIOD, WIDTHS, SwizzleAttr
from dlc.dialects.staging import TMA
from dlc.transforms.step import Decline, SchedulingPass


@dataclass(frozen=True)
class SplitInnerForSwizzlePass(SchedulingPass):
    """
    The rows of TMA rings are split into panels as wide as a swizzle, and swizzled.

    Legal where rows are a multiple of the swizzle's width and their number a multiple of 8: a
    layout changes no subscript, and the tensor memory accelerator writes boxes in just this order,
    a box for each panel. A ring is swizzled if the bank model (`dlc.analysis.kernel.banks`) then
    shows fewer conflicts, by the width that leaves least, the widest first. Faster because a warp
    that reads 16 bytes of each of 8 rows finds them in distinct banks.

    ```
    %Ws = tile.ring tma %W(%n in 64)[%bj * 128, %n * 32] [128, 32] : … -> memref<3x128x32xf32, …>
    ```
    becomes, with `bytes=128`,
    ```
    … -> memref<3x128x32xf32, #kernel.swizzle<128>, #tile.shared>
    ```
    """

    name = "split-inner-for-swizzle"

    bytes: int | None = None
    """The widest swizzle to use: 32, 64 or 128."""

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        if self.bytes not in WIDTHS:
            given = "" if self.bytes is None else f", not {self.bytes}"
            raise Decline(f"it needs bytes, a swizzle of 32, 64 or 128{given}")
        rings = [op for op in kernel.launch.walk() if _is_plain(op)]
        if not rings:
            raise Decline("it has no TMA ring (tma-copy makes them)")
        chosen: dict[tile.RingOp, MemRefType[Attribute]] = {}
        notes: list[str] = []
        refused: list[str] = []
        for ring in rings:
            name = ring.result.name_hint or "a ring"
            best, fewest = ring.ring_type, _excess(kernel, ring, ring.ring_type)
            if not fewest:
                refused.append(f"{name} has no bank conflicts")
                continue
            candidates = _fitting(ring, self.bytes)
            for type in candidates:
                if (excess := _excess(kernel, ring, type)) < fewest:
                    best, fewest = type, excess
            if isinstance(best.layout, SwizzleAttr):
                chosen[ring] = best
                before = max(a.ways for a in accesses_of(kernel, ring, ring.ring_type))
                after = max(a.ways for a in accesses_of(kernel, ring, best))
                notes.append(
                    f"{name} by {best.layout.bytes.data} B: {before:.3g} ways, now {after:.3g}"
                )
            elif candidates:
                refused.append(f"no swizzle of {name} leaves fewer bank conflicts")
            else:
                refused.append(_misfit(ring, self.bytes))
        if not chosen:
            raise Decline("; ".join(refused))
        for ring, type in chosen.items():
            ring.set_layout(type.layout)
        return "; ".join([*notes, *refused])


def _is_plain(op: Operation) -> TypeGuard[tile.RingOp]:
    """Is `op` a ring that TMA fills, whose slots follow each other?"""
    if not isinstance(op, tile.RingOp) or op.fill_kind != TMA:
        return False
    return isinstance(op.ring_type.layout, NoneAttr)


def _excess(kernel: tile.KernelOp, ring: tile.RingOp, type: MemRefType[Attribute]) -> float:
    """Wavefronts lost to conflicts if a ring has a type."""
    return sum(a.excess for a in accesses_of(kernel, ring, type))


def _fitting(ring: tile.RingOp, at_most: int) -> list[MemRefType[Attribute]]:
    """The ring's type with each swizzle that fits it. A box of more dimensions is one panel."""
    type = ring.ring_type
    row = type.get_shape()[-1] * element_bytes(type.element_type)
    if type.get_num_dims() < 3:
        return []
    return [
        new
        for new in swizzled(type, at_most)
        if type.get_num_dims() == 3
        or (isinstance(new.layout, SwizzleAttr) and new.layout.bytes.data == row)
    ]


def _misfit(ring: tile.RingOp, bytes: int) -> str:
    shape = " x ".join(map(str, ring.ring_type.get_shape()[1:]))
    return (
        f"the slab of {shape} elements of {ring.result.name_hint or 'a ring'} has no rows of a "
        f"multiple of 32 to {bytes} B, {PERIOD} or a multiple of them"
    )
