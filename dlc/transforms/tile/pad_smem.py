"""Rows of shared buffers are set apart, so that a warp's accesses meet distinct banks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter

from dlc.analysis.tile.fragments import Buffer, buffer_type, bytes_at_once
from dlc.analysis.tile.tile_state import tile_state
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.ring_ops import ASYNC, TMA
from dlc.registry import OptionError
from dlc.schedule.paddings import Padding, choose_paddings, described
from dlc.target import target_of
from dlc.transforms.step import Decline, SchedulingPass
from dlc.transforms.step_options import by_name, looking_for
from dlc.transforms.step_space import Domain


@dataclass(frozen=True)
class PadSmemPass(SchedulingPass):
    """
    Rows of shared buffers are padded until the warps' accesses hit distinct banks.

    *Legal when* the padding fits in shared memory: a layout changes no subscript. Rows that
    cp.async fills stay apart by multiples of what it copies at once. Buffers that TMA fills stay as
    they are: its boxes have no padding.
    *Faster because* conflicting accesses of a warp are served one after the other.

    ```
    %Ws = tile.stage %W[%bj * 128, %ko * 16] [128, 16] : … -> memref<128x16xf32, #tile.shared>
    %w = tile.load %Ws[%rj * 16 + %tj, %ki * 4 + %kv]
    ```
    becomes, with `buffers=Ws padding=4`,
    ```
    %Ws = tile.stage … -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
    %w = tile.load %Ws[%rj * 16 + %tj, %ki * 4 + %kv]
    ```
    """

    name = "pad-smem"

    buffers: tuple[str, ...] = ()
    """The buffers to pad; all that threads fill if none is named."""
    padding: tuple[int, ...] | None = None
    """Elements after each row, for each of the buffers or for all. As few as leave the fewest
    conflicts (`dlc.schedule.paddings`) if the step is bare."""
    every: tuple[int, ...] = (1,)
    """Rows after which there is padding: 1, or groups of 2, 4 or 8 rows."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "buffers": Domain(((),)),
        "padding": Domain((None, (4,), (8,)), least=0),
        "every": Domain(
            ((1,), (2,), (4,), (8,)),
            least=1,
            narrowed=lambda s: ((1,),) if s.given["padding"] is None else ((1,), (2,), (4,), (8,)),
        ),
    }

    def decided(self, kernel: tile.KernelOp, module: ModuleOp) -> tuple[Self, str]:
        if self.padding is not None:
            return self, ""
        buffers = _buffers(kernel)
        found = choose_paddings(kernel, buffers, _room(kernel, module))
        if not found.chosen:
            raise Decline("; ".join(found.refused) or "its buffers have no bank conflicts")
        paddings = [found.chosen.get(buffer, Padding()) for buffer in buffers]
        every = tuple(p.rows for p in paddings)
        step = type(self)(
            tuple(map(_name, buffers)),
            tuple(p.elements for p in paddings),
            every if set(every) != {1} else (1,),
        )
        return step, "; ".join([*found.notes, *found.refused])

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        assert self.padding is not None
        with looking_for(self.buffers, "buffers"):
            named = [(_name(buffer), buffer) for buffer in _buffers(kernel)]
        elements = by_name(named, "buffer", self.buffers, self.padding, ("buffers", "padding"))
        rows = by_name(named, "buffer", self.buffers, self.every, ("buffers", "every"))
        types = {b: _padded(b, Padding(n, rows[b])) for b, n in elements.items() if n}
        if not types:
            raise Decline("no buffer is padded")
        for buffer in types:
            _check_requests(kernel, buffer, elements[buffer])
        state = tile_state(kernel.launch)
        more = state.bytes_with(types) - state.shared_bytes
        if more > (room := _room(kernel, module)):
            message = f"{more} B of padding > {room} B of shared memory left"
            raise OptionError("padding", message, "take less, or stage smaller slabs")
        for buffer, type in types.items():
            if isinstance(buffer, tile.RingOp):
                buffer.set_layout(type.layout)
            else:
                Rewriter.replace_value_with_new_type(buffer.result, type)
        return "; ".join(f"rows of {_name(b)} {described(type)}" for b, type in types.items())


def _padded(buffer: Buffer, padding: Padding) -> MemRefType[Attribute]:
    """The type of a buffer with padding."""
    type = buffer_type(buffer)
    shape = shape_of(type)[isinstance(buffer, tile.RingOp) :]
    if len(shape) < 2:
        hint = "leave its padding at 0, or name the buffers that have rows"
        raise OptionError("padding", f"{_name(buffer)} has no rows to set apart", hint)
    if shape[-2] % padding.rows:
        raise OptionError(
            "every",
            f"expected padding after groups of rows that divide {shape[-2]} rows, found "
            f"{padding.elements} elements every {padding.rows}",
        )
    return padding.of(type)


def _check_requests(kernel: tile.KernelOp, buffer: Buffer, padding: int) -> None:
    """OptionError if padding puts rows where cp.async does not write as much as it is asked to."""
    size = element_bytes(buffer_type(buffer).element_type)
    match buffer:
        case tile.RingOp() if buffer.fill_kind == ASYNC:
            request = bytes_at_once(kernel, buffer.slab)
        case tile.StageOp() if buffer.is_async:
            request = bytes_at_once(kernel, buffer)
        case _:
            return
    if padding * size % request:
        raise OptionError(
            "padding",
            f"{_name(buffer)} is copied {request} B at once, to multiples of that, and {padding} "
            f"{'elements are' if padding > 1 else 'element is'} {padding * size} B",
            f"take a multiple of {request // size}, or leave async-copy out",
        )


def _name(buffer: Buffer) -> str:
    return buffer.result.name_hint or "buffer"


def _buffers(kernel: tile.KernelOp) -> list[Buffer]:
    """The buffers in shared memory that threads fill."""
    found = tile_state(kernel.launch).buffers
    if not found:
        raise Decline("it has no buffer in shared memory (stage-inputs makes them)")
    filled = [b for b in found if not isinstance(b, tile.RingOp) or b.fill_kind != TMA]
    if not filled:
        raise Decline("its buffers are filled by TMA, which writes rows without padding")
    return filled


def _room(kernel: tile.KernelOp, module: ModuleOp) -> int:
    """Bytes of shared memory that are left."""
    return target_of(module).shared_per_block - tile_state(kernel.launch).shared_bytes
