"""Networks that sort: what they do to zeros and ones they do to all values (Knuth, 5.3.4)."""

from __future__ import annotations

from itertools import chain, islice, pairwise, product

import pytest

from dlc.ir.expr import Expr
from dlc.ir.sorting_network import steps, windows


@pytest.mark.parametrize(("bits", "held"), [(0, 0), (1, 1), (3, 3), (2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("bitonic", [False, True])
def test_threads_sort_what_they_hold(bits: int, held: int, bitonic: bool) -> None:
    threads = range(1 << (bits - held))
    every = list(windows(bits, held, bitonic=bitonic))
    places = [
        [[window.place(Expr.of(t), n).constant for n in range(1 << held)] for t in threads]
        for window in every
    ]
    for at in places:
        assert sorted(chain(*at)) == list(range(1 << bits))
    side_by_side = [list(range(t << held, (t + 1) << held)) for t in threads]
    assert places[0] == places[-1] == side_by_side
    for given in given_to(bits, bitonic):
        values = list(given)
        for window, at in zip(every, places, strict=True):
            for own in at:
                for a, b in window.pairs:
                    lower, upper = own[a], own[b]
                    pair = values[lower], values[upper]
                    values[lower], values[upper] = min(pair), max(pair)
        assert values == sorted(given)


@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize(("bits", "held"), [(1, 1), (3, 3), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3)])
def test_threads_keep_what_comes_first(bits: int, held: int, first: int) -> None:
    """Each value is of one thread, which writes where it has read; what is not kept is gone."""
    every = list(windows(bits, held, first=min(first, bits)))
    places = [
        [
            [w.place(Expr.of(t), n).constant for n in range(1 << w.held)]
            for t in range(1 << w.threads)
        ]
        for w in every
    ]
    for at in places:
        assert len({*chain(*at)}) == len([*chain(*at)])
    for given in islice(product((0, 1), repeat=1 << bits), 0, None, 1 if bits < 4 else 61):
        values: list[int | None] = list(given)
        for window, at in zip(every, places, strict=True):
            kept: list[int | None] = [None] * len(values)
            for own in at:
                several = [value for place in own if (value := values[place]) is not None]
                assert len(several) == len(own)
                for a, b in window.pairs:
                    several[a], several[b] = sorted((several[a], several[b]))
                for place, value in zip(own[: 1 << window.kept], several, strict=False):
                    kept[place] = value
            values = kept
        assert values[: 1 << first] == sorted(given)[: 1 << first]


def given_to(bits: int, bitonic: bool) -> list[tuple[int, ...]]:
    """All zeros and ones, or those that rise and then fall, or fall and then rise."""
    every = list(product((0, 1), repeat=1 << bits))
    return [g for g in every if not bitonic or sum(a != b for a, b in pairwise(g)) <= 2]


@pytest.mark.parametrize("bitonic", [False, True])
@pytest.mark.parametrize("bits", range(4))
def test_a_thread_alone_sorts(bits: int, bitonic: bool) -> None:
    for given in given_to(bits, bitonic):
        values = list(given)
        for step in steps(bits, bitonic=bitonic):
            for pair in range(1 << (bits - 1)):
                lower, upper = (at.constant for at in step.places(Expr.of(pair)))
                two = values[lower], values[upper]
                values[lower], values[upper] = min(two), max(two)
        assert values == sorted(given)
