"""
The network by which threads sort 2^m values: comparisons of two that put the lesser one in front,
the same ones whatever the values are (Batcher, "Sorting networks and their applications", AFIPS
1968; its bitonic sorter, in the form whose comparisons all go one way).

Sorted runs are merged in pairs: each value of one run is compared with its mirror image in the
other, which leaves the lesser half in front, then with those half as far away, and so on. Threads
hold 2^held values each and exchange them between windows: so many steps need no exchange.

Where the first 2^kept values are asked for, runs of as many are sorted; of each two runs the lesser
half is kept and sorted, which leaves half as many runs, until there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlc.ir.expr import Expr


@dataclass(frozen=True)
class Window:
    """Some steps, and which values a thread holds for them: 2^held whose places differ in as many
    bits, the first of which is `low`."""

    low: int
    held: int
    mirrored: bool
    """True if the values in the upper half are the mirror images of those in the lower one."""
    pairs: tuple[tuple[int, int], ...]
    """The numbers of values of a thread to be compared, in their order."""
    threads: int
    """How many threads hold values: 2^threads."""
    kept: int
    """How many values of each are kept, the first ones: 2^kept."""
    run: int = 0
    apart: int = 0
    """Runs of 2^run values are left, 2^apart times as far from each other as they are long."""

    def place(self, thread: Expr, number: int) -> Expr:
        """The place of a value, by its number, of a thread."""
        place = self._number(thread, number)
        if not self.apart:
            return place
        length = 1 << self.run
        return place // length * (length << self.apart) + place % length

    def _number(self, thread: Expr, number: int) -> Expr:
        """Its place where runs are side by side."""
        apart = 1 << self.low
        within = thread % apart
        if self.mirrored and number >= 1 << (self.held - 1):
            within = Expr.of(apart - 1) - within
        return thread // apart * (apart << self.held) + number * apart + within


def windows(
    bits: int, held: int, *, bitonic: bool = False, first: int | None = None
) -> Iterator[Window]:
    """
    The windows that sort 2^bits values, of which a thread holds 2^held: in the first and the last
    one, those that stand side by side. It holds two at least, or there is one. Values that rise up
    to a place and fall from there need the last steps only: those that are half as far from each
    other as there are values, a quarter as far, and so on. If only the first 2^first values are
    asked for, the last window leaves these at their places, a part of the threads holding them.
    """
    assert held or not bits
    if bitonic:
        if bits > held or not bits:
            yield Window(0, held, False, (), bits - held, held)
        yield from _halving(bits, held, bits)
        return
    first = bits if first is None else first
    inside = [pair for run in range(1, min(held, first) + 1) for pair in _merged(held, run)]
    kept = held
    if first < held:
        inside += _lesser(held, first)
        kept = first
    yield Window(0, held, False, tuple(inside), bits - held, kept)
    for run in range(held + 1, first + 1):
        pairs = tuple(_merged(held, held))
        yield Window(run - held, held, True, pairs, bits - held, held)
        yield from _halving(run - held, held, bits)
    apart, left = held - kept, bits - held + kept
    while left > first:
        own = min(held, left)
        low, mirrored = max(0, first + 1 - own), own <= first + 1
        if mirrored:
            pairs, kept = tuple(_merged(own, own)), own - 1
        else:
            pairs, kept = tuple(_lesser(own, first)), first
        yield Window(low, own, mirrored, pairs, left - own, kept, first, apart)
        apart, left = apart + own - kept, left - own + kept
        yield from _halving(low, min(held, left), left, first, apart)


def _halving(left: int, held: int, bits: int, run: int = 0, apart: int = 0) -> Iterator[Window]:
    """The windows that sort each 2^left of 2^bits values, which rise and fall."""
    while left:
        count = min(held, left)
        left -= count
        pairs = tuple(pair for bit in reversed(range(count)) for pair in _apart(held, bit))
        yield Window(left, held, False, pairs, bits - held, held, run, apart)


def _lesser(held: int, run: int) -> Iterator[tuple[int, int]]:
    """The comparisons that leave the first 2^run of a thread's values, sorted runs of as many, in
    order in the first run."""
    length, step = 1 << run, 1 << run
    while step < 1 << held:
        for begin in range(0, 1 << held, 2 * step):
            yield from ((begin + n, begin + step + length - 1 - n) for n in range(length))
            for bit in reversed(range(run)):
                for number in range(length):
                    if not number >> bit & 1:
                        yield begin + number, begin + number | 1 << bit
        step *= 2


def _merged(held: int, run: int) -> Iterator[tuple[int, int]]:
    """The comparisons that merge the sorted halves of each run of 2^run of a thread's values."""
    for number in range(1 << held):
        mirror = number ^ ((1 << run) - 1)
        if number < mirror:
            yield number, mirror
    for bit in reversed(range(run - 1)):
        yield from _apart(held, bit)


def _apart(held: int, bit: int) -> Iterator[tuple[int, int]]:
    """All pairs of a thread's values whose numbers differ in one bit."""
    for number in range(1 << held):
        if not number >> bit & 1:
            yield number, number | 1 << bit


@dataclass(frozen=True)
class Step:
    """Comparisons of which none waits for another, of values in memory."""

    apart: int
    """How far the two are from each other, that stand side by side among others of their half."""
    mirrored: bool

    def places(self, pair: Expr) -> tuple[Expr, Expr]:
        """The places that are compared, by the number of the pair."""
        begin, within = pair // self.apart * (2 * self.apart), pair % self.apart
        other = Expr.of(self.apart - 1) - within if self.mirrored else within
        return begin + within, begin + self.apart + other


def steps(bits: int, *, bitonic: bool = False) -> Iterator[Step]:
    """The steps that sort 2^bits values, each of 2^(bits - 1) pairs; see `windows`."""
    if bitonic:
        yield from (Step(1 << bit, False) for bit in reversed(range(bits)))
        return
    for run in range(bits):
        yield Step(1 << run, True)
        for bit in reversed(range(run)):
            yield Step(1 << bit, False)
