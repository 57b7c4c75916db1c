"""Kernels that go point by point, to be merged in one step; see `chain_into`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.merge_order import chains
from dlc.transforms.loop.fusion.merging import MAX_OPS, Merges

Obstacle = Callable[[KernelOp, Sequence[KernelOp]], str | None]
"""The reason why a kernel is not merged into those that read its result, if any."""


def chain_into(
    last: KernelOp,
    first: KernelOp,
    places: Mapping[KernelOp, int],
    merges: Merges,
    obstacle: Obstacle,
) -> list[KernelOp]:
    """
    Kernels that can be merged into `last` in one step: `first`, which `last` reads, and those
    before it in their block that would be merged next, up to one that is to be looked at alone.

    The result of each is read by one of them or `last` alone, at one load, and has as many elements
    as that one stores: so no such merge repeats work, and each saves a launch and what is stored in
    between. None of them scans, which what reads it would have to follow. With `last` they have no
    more than MAX_OPS operations.
    """
    found: list[KernelOp] = []
    size = merges.facts(last).size
    left: dict[int, tuple[KernelOp, KernelOp]] = {}

    def look_behind(reader: KernelOp) -> None:
        for kernel in (value.owner for value in reader.inputs):
            if isinstance(kernel, KernelOp) and kernel in places:
                left[places[kernel]] = kernel, reader

    look_behind(last)
    while left:
        place = max(left)
        kernel, reader = left.pop(place)
        if place > places[first] or obstacle(kernel, [reader, last]):
            continue
        if not chains(merges, kernel, reader):
            continue
        facts = merges.facts(kernel)
        size += facts.size
        if facts.scans or size > MAX_OPS or facts.elements != merges.facts(reader).elements:
            break
        found.append(kernel)
        look_behind(kernel)
    return found
