"""The scheduling step `pad-smem`: see `PadSmemPass`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter

from dlc.analysis.kernel.banks import (
    BANK_BYTES,
    BANKS,
    BankAccess,
    accesses_of,
    reads_of,
    writes_of,
)
from dlc.analysis.kernel.layout import group_padded, padded
from dlc.analysis.tile.fragments import Buffer
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import PaddedGroupsAttr, span_bytes, strides_of
from dlc.dialects.staging import TMA, slot_type
from dlc.ir.expr import unchanged_ir
from dlc.target import target_of
from dlc.transforms.step import Decline, SchedulingPass

Type = MemRefType[Attribute]


@dataclass(frozen=True)
class PadSmemPass(SchedulingPass):
    """
    Rows of shared buffers are padded until the warps' accesses hit distinct banks.

    Legal always: a layout changes no subscript. Rows grow by as little as leaves no conflict in the
    bank model (`dlc.analysis.kernel.banks`), reads and writes counted; by whole accesses, so that
    what is 16 bytes wide stays so. Where that leaves some, as where lanes read every fourth row,
    groups of rows are padded. Buffers without conflicts stay as they are, as do those that TMA
    fills, whose boxes have no padding. Faster because conflicting accesses of a warp are served one
    after the other.

    ```
    %Ws = tile.stage %W[%bj * 128, %ko * 16] [128, 16] : … -> memref<128x16xf32, #tile.shared>
    %w = tile.load %Ws[%rj * 16 + %tj, %ki * 4 + %kv]
    ```
    becomes
    ```
    %Ws = tile.stage … -> memref<128x16xf32, strided<[20, 1]>, #tile.shared>
    %w = tile.load %Ws[%rj * 16 + %tj, %ki * 4 + %kv]
    ```
    """

    name = "pad-smem"

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        found = [op for op in kernel.launch.walk() if isinstance(op, Buffer)]
        if not found:
            raise Decline("it has no buffer in shared memory (stage-inputs makes them)")
        buffers = [b for b in found if not isinstance(b, tile.RingOp) or b.fill_kind != TMA]
        if not buffers:
            raise Decline("its buffers are filled by TMA, which writes rows without padding")
        room = target_of(module).shared_per_block - sum(span_bytes(_type(b)) for b in found)
        padded: dict[Buffer, Type] = {}
        notes: list[str] = []
        refused: list[str] = []
        for buffer in buffers:
            with unchanged_ir():
                type, before = _type(buffer), accesses_of(kernel, buffer, _type(buffer))
                if not _excess(before):
                    continue
                best, after = _best(kernel, buffer, before)
            name = buffer.result.name_hint or "a buffer"
            more = span_bytes(best) - span_bytes(type)
            if best == type:
                refused.append(f"no padding of {name} helps ({_ways(before)})")
            elif more > room:
                refused.append(f"{more} B of padding of {name} > {room} B of shared memory left")
            else:
                room -= more
                padded[buffer] = best
                notes.append(
                    f"rows of {name} {_described(best)}: {_ways(before)}, now {_ways(after)}"
                )
        if not padded:
            raise Decline("; ".join(refused) or "its buffers have no bank conflicts")
        for buffer, type in padded.items():
            if isinstance(buffer, tile.RingOp):
                buffer.set_layout(type.layout)
            else:
                Rewriter.replace_value_with_new_type(buffer.result, type)
        return "; ".join([*notes, *refused])


def _type(buffer: Buffer) -> Type:
    assert isinstance(buffer.result.type, MemRefType)
    return buffer.result.type


def _described(type: Type) -> str:
    match type.layout:
        case PaddedGroupsAttr(rows=rows, padding=padding):
            return f"in groups of {rows.data}, {padding.data} elements between them"
        case _:
            return f"{strides_of(type)[-2]} elements apart"


def _excess(accesses: Sequence[BankAccess]) -> float:
    """Wavefronts lost to conflicts."""
    return sum(a.excess for a in accesses)


def _ways(accesses: Sequence[BankAccess]) -> str:
    """The worst of each kind, as in `reads 4 ways, writes 1`."""
    reads = max((a.ways for a in accesses if not a.writes), default=1)
    writes = max((a.ways for a in accesses if a.writes), default=1)
    return f"reads {reads:.3g} ways, writes {writes:.3g}"


def _best(
    kernel: tile.KernelOp, buffer: Buffer, before: Sequence[BankAccess]
) -> tuple[Type, Sequence[BankAccess]]:
    """The first layout with no conflicts, or else that with the fewest; with its accesses."""
    plain = _type(buffer)
    best, found = plain, before
    slab = slot_type(plain) if isinstance(buffer, tile.RingOp) else plain
    if slab.get_num_dims() < 2:
        return best, found
    unit = max(max(a.width for a in before) // element_bytes(plain.element_type), 1)
    for type in chain(_paddings(plain, unit), group_padded(plain, unit)):
        reads = reads_of(kernel, buffer, type)
        if _excess(reads) >= _excess(found):
            continue
        accesses = [*reads, *writes_of(kernel, buffer, type)]
        if _excess(accesses) < _excess(found):
            best, found = type, accesses
        if not _excess(found):
            break
    return best, found


def _paddings(type: Type, unit: int) -> Iterator[Type]:
    """The type with rows that are longer by a unit, by two, …, by less than all banks."""
    banks = BANKS * BANK_BYTES // element_bytes(type.element_type)
    return (padded(type, padding) for padding in range(unit, max(banks, unit + 1), unit))
