"""
By which width slabs in shared memory are swizzled: decided for `split-inner-for-swizzle`.

A slab is swizzled if the bank model (`dlc.analysis.kernel.banks`) then shows fewer conflicts, by
the width that leaves least, the widest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from dlc.analysis.kernel.bank_accesses import accesses_of, excess
from dlc.analysis.kernel.layout import swizzled
from dlc.analysis.tile.fragments import Buffer, buffer_type
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import PERIOD, WIDTHS, SwizzleAttr, shape_of
from dlc.ir.analyses import Analyses

Type = MemRefType[Attribute]


@dataclass
class Swizzles:
    """The width of each slab's swizzle in bytes with its gain, and the reasons for having none."""

    chosen: dict[Buffer, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def choose_swizzles(kernel: tile.KernelOp, buffers: Iterable[Buffer]) -> Swizzles:
    """The swizzles of those rings and stages that it spares conflicts."""
    found, analyses = Swizzles(), Analyses()
    for ring in buffers:
        name = ring.result.name_hint or "a ring"
        best = before = accesses_of(kernel, ring, buffer_type(ring), analyses)
        if not excess(before):
            found.refused.append(f"{name} has no bank conflicts")
            continue
        fitting = fitting_swizzles(ring)
        for bytes, type in fitting.items():
            accesses = accesses_of(kernel, ring, type, analyses)
            if excess(accesses) < excess(best):
                best, found.chosen[ring] = accesses, bytes
        if ring in found.chosen:
            ways, now = (max(a.ways for a in accesses) for accesses in (before, best))
            found.notes.append(f"{name} by {found.chosen[ring]} B: {ways:.3g} ways, now {now:.3g}")
        elif fitting:
            found.refused.append(f"no swizzle of {name} leaves fewer bank conflicts")
        else:
            found.refused.append(misfit(ring, WIDTHS))
    return found


def fitting_swizzles(buffer: Buffer) -> dict[int, Type]:
    """
    The type of a ring, or of a stage, with each swizzle that fits it, the widest first. A box of
    more dimensions is one panel.
    """
    type = buffer_type(buffer)
    row, dims = shape_of(type)[-1] * element_bytes(type.element_type), len(_slab_shape(buffer))
    if dims < 2:
        return {}
    found = {
        new.layout.bytes.data: new for new in swizzled(type) if isinstance(new.layout, SwizzleAttr)
    }
    return found if dims == 2 else {n: new for n, new in found.items() if n == row}


def _slab_shape(buffer: Buffer) -> tuple[int, ...]:
    """Of a ring that of a slot."""
    return shape_of(buffer_type(buffer))[isinstance(buffer, tile.RingOp) :]


def misfit(ring: Buffer, widths: Iterable[int]) -> str:
    """The reason why none of some swizzles fits a ring, or a stage."""
    shape = " x ".join(map(str, _slab_shape(ring)))
    least, *_, most = sorted({min(widths), max(widths)}) * 2
    multiple = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"the slab of {shape} elements of {ring.result.name_hint or 'a ring'} has no rows of a "
        f"multiple of {multiple} B, {PERIOD} or a multiple of them"
    )
