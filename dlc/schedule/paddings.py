"""
By how much the rows of shared buffers are padded: decided for `pad-smem`.

Rows grow by as little as leaves no conflict in the bank model (`dlc.analysis.kernel.banks`), reads
and writes counted; by whole accesses, so that what is 16 bytes wide stays so. Where that leaves
some, as where lanes read every fourth row, groups of rows are padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from dlc.analysis.kernel.bank_accesses import BankAccess, accesses_of, excess, reads_of, writes_of
from dlc.analysis.kernel.layout import group_padded, padded
from dlc.analysis.tile.fragments import Buffer, buffer_type
from dlc.analysis.tile.overwriting import overwritten
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import PaddedGroupsAttr, span_bytes, strides_of
from dlc.dialects.ring_ops import slot_type
from dlc.ir.analyses import Analyses
from dlc.target import BANK_BYTES, BANKS

Type = MemRefType[Attribute]


@dataclass(frozen=True)
class Padding:
    """So many elements after each row, or after each group of so many rows."""

    elements: int = 0
    rows: int = 1

    def of(self, type: Type) -> Type:
        """A buffer's type, padded."""
        return padded(type, self.elements, self.rows) if self.elements else type


@dataclass
class Paddings:
    """The padding of each buffer with its gain, and the reasons for leaving others as they are."""

    chosen: dict[Buffer, Padding] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def choose_paddings(kernel: tile.KernelOp, buffers: Iterable[Buffer], room: int) -> Paddings:
    """The paddings of those buffers that it spares conflicts, in so many bytes."""
    found, analyses = Paddings(), Analyses()
    for group in _in_one_place(list(buffers)):
        types = list(map(buffer_type, group))
        before = _accesses(kernel, group, types, analyses)
        if not excess(before):
            continue
        best, after = _best(kernel, group, before, analyses)
        name = " and ".join(buffer.result.name_hint or "a buffer" for buffer in group)
        more = span_bytes(best) - span_bytes(types[0])
        if best == types[0]:
            found.refused.append(f"no padding of {name} helps ({_ways(before)})")
        elif more > room:
            found.refused.append(f"{more} B of padding of {name} > {room} B of shared memory left")
        else:
            room -= more
            found.chosen.update(dict.fromkeys(group, _padding(types[0], best)))
            ways = f"{_ways(before)}, now {_ways(after)}"
            found.notes.append(f"rows of {name} {described(best)}: {ways}")
    return found


def _in_one_place(buffers: list[Buffer]) -> list[list[Buffer]]:
    """The buffers, those together of which one takes the place of another."""
    groups: dict[Buffer, list[Buffer]] = {}
    for buffer in buffers:
        taken = overwritten(buffer) if isinstance(buffer, tile.ComputeOp) else None
        group: list[Buffer] = []
        if taken is not None and taken.result.type == buffer.result.type:
            group = groups.get(taken, group)
        group.append(buffer)
        groups[buffer] = group
    return [group for buffer, group in groups.items() if group[0] is buffer]


def _accesses(
    kernel: tile.KernelOp, buffers: Sequence[Buffer], types: Sequence[Type], analyses: Analyses
) -> list[BankAccess]:
    found = [
        accesses_of(kernel, buffer, type, analyses)
        for buffer, type in zip(buffers, types, strict=True)
    ]
    return list(chain.from_iterable(found))


def described(type: Type) -> str:
    """The distances of a padded buffer's rows, in words for the report."""
    if isinstance(type.layout, PaddedGroupsAttr):
        rows, padding = type.layout.rows.data, type.layout.padding.data
        return f"in groups of {rows}, {padding} elements between them"
    return f"{strides_of(type)[-2]} elements apart"


def _padding(type: Type, best: Type) -> Padding:
    """The padding that makes one type another."""
    if isinstance(best.layout, PaddedGroupsAttr):
        return Padding(best.layout.padding.data, best.layout.rows.data)
    return Padding(strides_of(best)[-2] - strides_of(type)[-2])


def _ways(accesses: Sequence[BankAccess]) -> str:
    """The worst of each kind, as in `reads 4 ways, writes 1`."""
    reads = max((a.ways for a in accesses if not a.writes), default=1)
    writes = max((a.ways for a in accesses if a.writes), default=1)
    return f"reads {reads:.3g} ways, writes {writes:.3g}"


def _best(
    kernel: tile.KernelOp,
    buffers: Sequence[Buffer],
    before: Sequence[BankAccess],
    analyses: Analyses,
) -> tuple[Type, Sequence[BankAccess]]:
    """The first layout with no conflicts, or else that with the fewest; with its accesses."""
    plain = buffer_type(buffers[0])
    best, found = plain, before
    slab = slot_type(plain) if isinstance(buffers[0], tile.RingOp) else plain
    if slab.get_num_dims() < 2:
        return best, found
    unit = max(max(a.width for a in before) // element_bytes(plain.element_type), 1)
    for type in chain(_paddings(plain, unit), group_padded(plain, unit)):
        reads = [a for b in buffers for a in reads_of(kernel, b, type, analyses)]
        if excess(reads) >= excess(found):
            continue
        writes = [a for b in buffers for a in writes_of(kernel, b, type, analyses)]
        accesses = [*reads, *writes]
        if excess(accesses) < excess(found):
            best, found = type, accesses
        if not excess(found):
            break
    return best, found


def _paddings(type: Type, unit: int) -> Iterator[Type]:
    """The type with rows that are longer by a unit, by two, …, by less than all banks."""
    banks = BANKS * BANK_BYTES // element_bytes(type.element_type)
    return (padded(type, padding) for padding in range(unit, max(banks, unit + 1), unit))
