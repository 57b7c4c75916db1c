"""
How the first elements of lines are put in order, and when that pays: what takes least time by the
estimate of sorts, of bytes and of launches. What depends on sizes is decided for likely ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Literal

from dlc.schedule.estimate import LOADED
from dlc.schedule.rows import power_of_two
from dlc.schedule.sorted_rows import Network, block_plan, block_seconds, sorted_bytes
from dlc.schedule.table_sums import least_seconds
from dlc.target import BANK_BYTES, SECTOR_BYTES, Target

COUNTED_RUN = 16
"""The elements that are ordered by counting those before each, in the kernels around."""
LONGEST_RUN = 4096
"""The most elements that are sorted at once where shared memory has room for them: longer runs,
which would save merges and wait longer, are not tried."""
SHORTEST_RUN, LARGEST_GROUP = 64, 1024
"""The shortest runs and the largest groups that are tried."""
COMPARED = 4 * LOADED
"""Operations of multiply-adds in the time in which an element is compared with another one and what
comes of it is folded: two loads and as much again."""
EQUAL = 3
"""The same where threads keep elements to ask whether others are equal, as factors of a product."""
KEYED = 8
"""Instructions to make an integer of an element which is ordered as it is, and to fold it."""
LAUNCHES = 2
"""Those of a program that searches what is ordered, beside those that order it."""

Way = Literal["counted", "at once", "runs", "merges", "groups"]


@dataclass(frozen=True)
class Order:
    """
    How the first elements of lines are put in order:

    - counted: by how many come before each.
    - at once: a block sorts a line.
    - runs: blocks sort runs, and `then` orders the first elements of these.
    - merges: blocks sort runs, which are merged in pairs.
    - groups: neighbours are groups, and `first` orders the least elements of these. The first
      elements are in as many of the first groups, which `then` orders: what is in another group
      comes behind the least elements of all of those.
    """

    way: Way
    seconds: float
    size: int = 0
    """The elements of a run, or of a group, a power of two."""
    first: Order | None = None
    then: Order | None = None


def fastest_order(n: int, count: int, lines: int, bits: int, target: Target) -> Order:
    """How the first `count` of each of `lines` of `n` elements are found, whose keys have so many
    bits."""
    return _fastest(n, count, max(lines, 1), bits, target)


def ordering_pays(
    n: int, lines: int, results: int, searches: int, bits: int, target: Target, *, folds: bool
) -> bool:
    """
    True if to order all of each of some lines of `n` elements, and to search them so often, is
    faster than to compare each of the results with `n` elements, and to fold what belongs to those
    that it equals if `folds`. Searches and what uses them are launches more.
    """
    comparing = results * n * (COMPARED if folds else EQUAL) / target.flops
    beside = LAUNCHES * _launch(target) + searches * _searching(n, target)
    if comparing <= beside:
        return False
    return comparing > beside + _fastest(n, n, max(lines, 1), bits, target).seconds


def adding_pays(n: int, places: int, compared: int, size: int, fits: bool, target: Target) -> bool:
    """
    True if to add `n` numbers of so many bytes at places that are data, zeros before, is faster
    than to compare each place with `compared` of them, or to put all in order: see `table_sums`.
    """
    adding = 2 * _launch(target) + least_seconds(n, places, size, fits, target)
    comparing = places * compared * COMPARED / target.flops
    if comparing <= adding:
        return False
    bits = places.bit_length() + 1
    beside = LAUNCHES * _launch(target) + places * _searching(n, target)
    return adding < beside + _fastest(n, n, 1, bits, target).seconds


def searching_pays(n: int, target: Target) -> bool:
    """True if a search among `n` elements is faster than comparisons with all of them."""
    return _searching(n, target) < n * COMPARED / target.flops


def _searching(n: int, target: Target) -> float:
    """A search, of which each step loads an element from L2."""
    return n.bit_length() * SECTOR_BYTES / target.l2_bandwidth


@lru_cache(maxsize=4096)
def _fastest(n: int, count: int, lines: int, bits: int, target: Target) -> Order:
    if n <= COUNTED_RUN:
        comparing = lines * n * n * COMPARED / target.flops
        return Order("counted", _launch(target) + comparing)
    words = _words(n, bits)
    found = [_numbered(n, count, lines, words, target)]
    group = 4
    while group <= LARGEST_GROUP and 2 * count * group <= n:
        groups = ceil(n / group)
        moved = lines * (n + groups) * BANK_BYTES / target.memory_rate
        folding = lines * n * KEYED / target.issue_rate
        first = _fastest(groups, count, lines, bits, target)
        then = _numbered(count * group, count, lines, words, target)
        seconds = _launch(target) + max(moved, folding) + first.seconds + then.seconds
        found.append(Order("groups", seconds, group, first, then))
        group *= 2
    return min(found, key=lambda order: order.seconds)


@lru_cache(maxsize=4096)
def _numbered(n: int, count: int, lines: int, words: int, target: Target) -> Order:
    """The same of elements and their places as numbers of so many registers."""
    longest = longest_run(words, target)
    if n > longest < 4 * count:
        return Order("merges", _merging(n, count, lines, words, target), longest)
    found = []
    if n <= longest:
        found.append(Order("at once", _sorting(n, count, lines, words, target), n))
    length = power_of_two(max(SHORTEST_RUN, 2 * count))
    while length <= min(longest, n - 1):
        runs = ceil(n / length)
        then = _numbered(runs * count, count, lines, words, target)
        sorting = _sorting(length, count, lines * runs, words, target)
        found.append(Order("runs", sorting + then.seconds, length, then=then))
        length *= 2
    return min(found, key=lambda order: order.seconds)


def longest_run(words: int, target: Target) -> int:
    """The most numbers of so many registers, a power of two, that a block of a chip sorts."""
    length = LONGEST_RUN
    while sorted_bytes(length, words) > target.shared_per_block:
        length //= 2
    return length


def _words(n: int, bits: int) -> int:
    """The registers of a number that has a key and a place among `n`."""
    if bits > 8 * BANK_BYTES:
        return 4
    return 1 if bits + (n - 1).bit_length() <= 8 * BANK_BYTES else 2


def _launch(target: Target) -> float:
    return target.launch_seconds + target.start_seconds


def _sorting(n: int, count: int, lines: int, words: int, target: Target) -> float:
    """A launch in which blocks sort each of some lines of `n` elements, of which the first `count`
    are kept; or in which they merge if that is 0."""
    points, first = power_of_two(n), power_of_two(count)
    plan = block_plan(points, lines, lines, target)
    network = Network(words, not count, first if count and first < points else None)
    sorting = block_seconds(plan, lines, [network], [], target) if plan else 0
    moved = lines * (points + (count or points)) * words * BANK_BYTES / target.memory_rate
    return target.launch_seconds + max(sorting, target.start_seconds + moved)


def _merging(n: int, count: int, lines: int, words: int, target: Target) -> float:
    """Runs are sorted and then merged in pairs, each level of which is a launch."""
    length = longest = longest_run(words, target)
    runs = power_of_two(ceil(n / longest))
    seconds = _sorting(longest, longest, lines * runs, words, target)
    while runs > 1:
        runs, length = runs // 2, min(2 * length, count)
        tiles = ceil(length / longest)
        seconds += _sorting(longest, 0, lines * runs * tiles, words, target)
    return seconds
