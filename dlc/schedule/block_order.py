"""Which blocks an SM gets where some have more to do than others, and how long they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import heapify, heapreplace

MANY_BLOCKS = 1 << 12
"""Blocks up to which each is dealt; of more, no SM has notably more to do than another."""

Loads = tuple[tuple[float, ...], ...]
"""For each SM that has others to do than the rest, what its blocks have to do."""


def in_order(work: Sequence[int], waves: int) -> list[int]:
    """What blocks along an axis have to do, the last first, every second wave backwards."""
    size = len(work) // waves
    backwards = list(reversed(work))
    parts = [backwards[n * size : (n + 1) * size] for n in range(waves)]
    return [n for number, part in enumerate(parts) for n in (part[::-1] if number % 2 else part)]


@lru_cache(maxsize=1024)
def dealt(work: tuple[int, ...], beside: int, sms: int, resident: int, waves: int) -> Loads:
    """
    What the blocks of each SM have to do: of one axis, the last first in so many waves, `beside`
    others each.
    """
    blocks = [n for n in in_order(work, waves) for _ in range(beside)]
    if len(blocks) > MANY_BLOCKS:
        each = -(-sum(blocks) // sms)
        return ((*[each // resident] * resident,),)
    return dealt_in_order(blocks, sms, resident)


def dealt_in_order(blocks: Sequence[float], sms: int, resident: int) -> Loads:
    """
    What the blocks of each SM have to do, which come in this order to the SMs in turn, as many as
    run at once, and each of the others to the one that has the least to do.
    """
    slots = sms * resident
    found = [list(blocks[n:slots:sms]) for n in range(min(sms, len(blocks)))]
    least = [(sum(own), n) for n, own in enumerate(found)]
    heapify(least)
    for block in blocks[slots:]:
        total, number = least[0]
        found[number].append(block)
        heapreplace(least, (total + block, number))
    return tuple({tuple(sorted(own, reverse=True)) for own in found})


def slowest(loads: Loads, resident: int, one_each: Callable[[int], float]) -> float:
    """
    How long the slowest SM takes, which runs so many of its blocks at once; `one_each` says how
    long it takes for one more unit of work of each of some blocks.
    """
    steps = [0.0, *(one_each(n) for n in range(1, resident + 1))]
    return max(_time(list(own), resident, steps) for own in loads)


def _time(blocks: list[float], resident: int, steps: Sequence[float]) -> float:
    """Of blocks that run at once until the shortest ends, whose place the next takes."""
    running, waiting, time = sorted(blocks[:resident]), blocks[resident:], 0.0
    while running:
        done = running[0]
        time += done * steps[len(running)]
        running = [left for n in running if (left := n - done) > 0]
        while waiting and len(running) < resident:
            running.append(waiting.pop(0))
        running.sort()
    return time
