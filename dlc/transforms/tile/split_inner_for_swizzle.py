"""Slabs that TMA fills, or that tensor cores read by rows of 16 bytes, are swizzled by panels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeGuard

from xdsl.dialects.builtin import ModuleOp, NoneAttr
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from dlc.analysis.tile.fragment_rows import read_of_lane
from dlc.analysis.tile.fragments import Buffer, buffer_type, shared_by
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
    fills, and of those that warps read for tensor cores; so are stages that warpgroups multiply
    beside them, as their descriptors tell of swizzled rows.

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
    """The rings and stages to swizzle; all that can be and that a swizzle fits if none is named."""
    bytes: tuple[int, ...] | None = None
    """The width of the swizzle of each of these, or of all: 32, 64 or 128; 0 for none. What
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
            type = fitting_swizzles(ring)[bytes]
            if isinstance(ring, tile.RingOp):
                ring.set_layout(type.layout)
            else:
                Rewriter.replace_value_with_new_type(ring.result, type)
        done = [f"{_name(ring)} by {bytes} B" for ring, bytes in chosen.items()]
        return "; ".join([*done, *misfits])


def _name(ring: Buffer) -> str:
    return ring.result.name_hint or "ring"


def _rings(kernel: tile.KernelOp) -> list[Buffer]:
    """The rings that can be swizzled, and are not yet, and the stages that are multiplied, too."""
    found = [op for op in kernel.launch.walk() if _is_plain(op)]
    by_warps, by_groups = _read_by_rows(kernel)
    rings = [
        op
        for op in found
        if isinstance(op, tile.RingOp)
        and (op.fill_kind == TMA or op in by_warps or op in by_groups)
    ]
    if not rings:
        raise Decline("it has no TMA ring (tma-copy makes them)")
    stages = [op for op in found if isinstance(op, tile.StageOp) and op in by_groups]
    return [*stages, *rings]


def _is_plain(op: Operation) -> TypeGuard[tile.RingOp | tile.StageOp]:
    """True for a ring whose slots follow each other, or a stage whose rows do."""
    return isinstance(op, tile.RingOp | tile.StageOp) and isinstance(
        buffer_type(op).layout, NoneAttr
    )


def _read_by_rows(kernel: tile.KernelOp) -> tuple[set[Buffer], set[Buffer]]:
    """
    The buffers of which warps read rows of 16 bytes for tensor cores, and those that warpgroups
    multiply.
    """
    by_warps, by_groups = set[Buffer](), set[Buffer]()
    for load in kernel.launch.walk():
        if not isinstance(load, tile.LoadOp) or (buffer := shared_by(load.ref)) is None:
            continue
        read = read_of_lane(load, load.subscripts, memref_of(load.ref))
        if read is not None and read.by_rows:
            reduce = load.parent_op()
            assert isinstance(reduce, tile.ReduceOp)
            assert reduce.mma is not None
            (by_groups if reduce.mma.is_of_warpgroup else by_warps).add(buffer)
    return by_warps, by_groups
