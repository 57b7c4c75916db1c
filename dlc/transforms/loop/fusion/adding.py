"""Readers of a product that add its parts up themselves; see `adding`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.merging import MAX_OPS, Merged, Merges
from dlc.transforms.loop.fusion.parting import parted


@dataclass(frozen=True)
class Adding:
    """A reader that adds parts up; seconds of all kernels concerned."""

    count: int
    """Of parts."""
    sums: KernelOp
    """What stores them, inserted nowhere."""
    whole: KernelOp
    """What would add them up alone, inserted nowhere."""
    consumer: KernelOp
    merged: Merged
    """`whole` and `consumer` in one."""
    seconds: float
    apart: float

    def told(self, reader: str) -> str:
        """A sentence of it, where what adds up is called so."""
        times = f"{self.seconds * 1e6:.1f} us instead of {self.apart * 1e6:.1f} us"
        return f"in {self.count} parts, which @{reader} adds up: {times}"

    def erase(self) -> None:
        """Gives up what was made for it."""
        self.whole.erase()
        self.sums.erase()


def adding(
    producer: KernelOp,
    readers: Iterable[KernelOp],
    merges: Merges,
    counts: Sequence[int],
    *,
    stores: bool,
) -> Adding | None:
    """
    The fastest way in which one of those that may read a product adds its parts up, one of some
    numbers, and stores the whole for others if `stores` says so, whether or not it pays.
    """
    found = list(_ways(producer, readers, merges, counts, stores=stores))
    best = min(found, key=lambda way: way.seconds - way.apart, default=None)
    for way in found:
        if way is not best:
            way.erase()
    return best


def _ways(
    producer: KernelOp,
    readers: Iterable[KernelOp],
    merges: Merges,
    counts: Sequence[int],
    *,
    stores: bool,
) -> Iterator[Adding]:
    """All of them. A product of what is read would compute it again and again."""
    (result,) = producer.outputs
    for consumer in readers:
        own = merges.facts(consumer)
        numbers = {n for n, value in enumerate(consumer.inputs) if value is result}
        if not own.reduces or own.scans or consumer.updated_refs or numbers & own.operands:
            continue
        for count in counts:
            sums, whole = parted(producer, count)
            mapping: dict[SSAValue, SSAValue] = {result: whole.outputs[0]}
            reading = consumer.clone(mapping)
            merged = merges.merge(whole, reading, stores=stores)
            reading.erase()
            if merged is None or merges.facts_of(merged).size > MAX_OPS:
                whole.erase()
                sums.erase()
                continue
            seconds = merges.facts(sums).seconds + merges.facts_of(merged).seconds
            apart = merges.facts(producer).seconds + own.seconds
            yield Adding(count, sums, whole, consumer, merged, seconds, apart)
