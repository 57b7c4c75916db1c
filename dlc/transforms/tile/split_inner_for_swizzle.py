"""Rings that TMA fills, or that warps read by rows of 16 bytes, are swizzled, panel by panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeGuard

from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.ir import Operation

from dlc.analysis.tile.fragment_rows import row_of_lane
from dlc.analysis.tile.fragments import Buffer, shared_by
from dlc.dialects import tile
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.layouts import WIDTHS
from dlc.dialects.ring_ops import TMA
from dlc.registry import OptionError
from dlc.schedule.swizzles import choose_swizzles, fitting_swizzles, misfit
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_options import by_name, looking_for
from dlc.transforms.step_space import Domain


@dataclass(frozen=True)
class SplitInnerForSwizzlePass(SchedulingPass):
    """
    The rows of rings are split into panels as wide as a swizzle, and swizzled: of those that TMA
    fills, and of those that warps read for tensor cores.

    *Legal when* rows are a multiple of the swizzle's width and their number a multiple of 8: a
    layout changes no subscript, and the tensor memory accelerator writes boxes in just this order,
    a box for each panel.
    *Faster because* a warp that reads 16 bytes of each of 8 rows finds them in distinct banks.

    ```
    %Ws = tile.ring tma %W(%n in 64)[%bj * 128, %n * 32] [128, 32] : … -> memref<3x128x32xf32, …>
    ```
    becomes, with `rings=Ws bytes=128`,
    ```
    … -> memref<3x128x32xf32, #kernel.swizzle<128>, #tile.shared>
    ```

    Default schedules name it where warpgroups multiply matrices. The rows that warps read for
    tensor cores are padded, as their places take fewer instructions.
    """

    name = "split-inner-for-swizzle"

    rings: tuple[str, ...] = ()
    """The rings to swizzle; all that can be and that a swizzle fits if none is named."""
    bytes: tuple[int, ...] | None = None
    """The width of the swizzle of each of the rings, or of all: 32, 64 or 128; 0 for none. What
    conflicts least (`dlc.schedule.swizzles`) if the step is bare."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "rings": Domain(((),)),
        "bytes": Domain((None, *((n,) for n in WIDTHS))),
    }

    def __post_init__(self) -> None:
        if wrong := [n for n in self.bytes or () if n not in (0, *WIDTHS)]:
            message = f"a swizzle is 32, 64 or 128 bytes wide, or 0 for none, not {wrong[0]}"
            raise OptionError("bytes", message)

    def decided(self, kernel: tile.KernelOp, module: ModuleOp) -> tuple[Self, str]:
        if self.bytes is not None:
            return self, ""
        rings = _rings(kernel)
        found = choose_swizzles(kernel, rings)
        if not found.chosen:
            raise Decline("; ".join(found.refused))
        bytes = tuple(found.chosen.get(ring, 0) for ring in rings)
        return type(self)(tuple(map(_name, rings)), bytes), "; ".join(
            [*found.notes, *found.refused]
        )

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        assert self.bytes is not None
        with looking_for(self.rings, "rings"):
            named = [(_name(ring), ring) for ring in _rings(kernel)]
        widths = by_name(named, "TMA ring", self.rings, self.bytes, ("rings", "bytes"))
        wanted = {ring: bytes for ring, bytes in widths.items() if bytes}
        if not wanted:
            raise Decline("no ring is swizzled")
        misfits = [misfit(r, [n]) for r, n in wanted.items() if n not in fitting_swizzles(r)]
        chosen = {r: n for r, n in wanted.items() if n in fitting_swizzles(r)}
        if misfits and (self.rings or (not chosen and any(map(fitting_swizzles, wanted)))):
            fitting = sorted({n for ring in wanted for n in fitting_swizzles(ring)})
            hint = f"what fits is {' or '.join(map(str, fitting))}" if fitting else None
            raise OptionError("bytes", "; ".join(misfits), hint)
        if not chosen:
            raise Decline("; ".join(misfits))
        for ring, bytes in chosen.items():
            ring.set_layout(fitting_swizzles(ring)[bytes].layout)
        done = [f"{_name(ring)} by {bytes} B" for ring, bytes in chosen.items()]
        return "; ".join([*done, *misfits])


def _name(ring: tile.RingOp) -> str:
    return ring.result.name_hint or "ring"


def _rings(kernel: tile.KernelOp) -> list[tile.RingOp]:
    """The rings that can be swizzled, and are not yet."""
    found = [op for op in kernel.launch.walk() if _is_plain(op)]
    by_rows = _read_by_rows(kernel)
    rings = [ring for ring in found if ring.fill_kind == TMA or ring in by_rows]
    if not rings:
        raise Decline("it has no TMA ring (tma-copy makes them)")
    return rings


def _is_plain(op: Operation) -> TypeGuard[tile.RingOp]:
    """True for a ring whose slots follow each other."""
    return isinstance(op, tile.RingOp) and isinstance(op.ring_type.layout, NoneAttr)


def _read_by_rows(kernel: tile.KernelOp) -> set[Buffer]:
    """The buffers of which warps read rows of 16 bytes for tensor cores."""
    loads = [op for op in kernel.launch.walk() if isinstance(op, tile.LoadOp)]
    rows = [op for op in loads if row_of_lane(op, op.subscripts, memref_of(op.ref)) is not None]
    return {buffer for op in rows if (buffer := shared_by(op.ref)) is not None}
