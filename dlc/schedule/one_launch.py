"""
Tilings of products that one launch may hold: those that read the same, such as queries, keys and
values.

Each alone may be the fastest in parts that a second kernel combines. Side by side they fill the
chip with fewer parts, so that clusters or last blocks end all of them in their only launch, if the
blocks of each fit where those of the others run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf

from dlc.analysis.kernel.occupancy import occupancy
from dlc.schedule.candidate import Candidate
from dlc.schedule.problem import Problem
from dlc.schedule.tiling import best_candidate, ranked_in_one_launch
from dlc.schedule.warpgroup_candidate import WarpgroupCandidate
from dlc.target import Target
from dlc.text import microseconds

LOOKED_AT = 96
"""The tilings of each product that are looked at, the fastest first."""
TRIED = 6
"""Those of them that are tried with those of others, of each number of parts."""
MOST_PRODUCTS = 8
"""Products up to which such tilings are looked for: more fill the chip without parts."""


@dataclass(frozen=True)
class Together:
    """Tilings of products that run in one launch, and their time and that of their own ones."""

    tilings: Sequence[Candidate]
    seconds: float
    apart: float

    @property
    def told(self) -> str:
        """The times in words."""
        return f"{microseconds(self.seconds)} us instead of {microseconds(self.apart)} us"


def fastest_together(problems: Sequence[Problem], target: Target) -> Together | None:
    """
    The tilings of products by which one launch of all ends without a second kernel; none where no
    product's own is followed by one, or these and what combines them are faster.
    """
    own = [c for problem in problems if (c := best_candidate(problem, target)) is not None]
    if not 1 < len(problems) <= MOST_PRODUCTS or len(own) < len(problems):
        return None
    if not any(c.combine_seconds for c in own):
        return None
    most = max(range(len(own)), key=lambda n: own[n].issue_seconds)
    rest = [n for n in range(len(own)) if n != most]
    apart = together_seconds([own[most]]) + together_seconds([own[n] for n in rest])
    apart = least = min(apart, together_seconds(own))
    ways = [_in_one_launch(c) for c in own]
    found: list[Candidate] | None = None
    for first in ways[most]:
        if together_seconds([first]) >= least:
            continue
        chosen = {most: first}
        for n in rest:
            beside = (c for c in ways[n] if fit([*chosen.values(), c]))
            best = min(beside, key=lambda c: together_seconds([*chosen.values(), c]), default=None)
            if best is None:
                break
            chosen[n] = best
        if len(chosen) == len(own) and (seconds := together_seconds([*chosen.values()])) < least:
            least, found = seconds, [chosen[n] for n in range(len(own))]
    return None if found is None else Together(found, least, apart)


def together_seconds(tilings: Sequence[Candidate]) -> float:
    """
    The predicted time of one launch of several products, and of one more of all that combine parts.
    The blocks of each wait by themselves, and all of them for the units of SMs, if these run all at
    once; else one product's run after another's. Infinite if an SM has no room for some.
    """
    target = tilings[0].target
    threads = max(c.block_threads for c in tilings)
    registers = min(max(c.registers_held for c in tilings), target.entry_registers(threads))
    shared = max(c.shared_held for c in tilings)
    if shared > target.shared_per_block:
        return inf
    resident = occupancy(target, threads, registers, shared).blocks
    if resident < 1:
        return inf
    blocks = sum(c.blocks for c in tilings)
    if blocks <= resident * target.sms:
        busy = sum(c.blocks / target.sms * c.chunks * c.chunk_clocks for c in tilings)
        issue = max(busy / target.clock, *(c.issue_seconds for c in tilings))
    else:
        issue = sum(c.issue_seconds * _rounds(c, resident) for c in tilings)
    drawn = max(sum(c.memory_seconds for c in tilings), sum(c.l2_seconds for c in tilings))
    seconds = target.launch_seconds + max(issue, target.start_seconds + drawn)
    seconds += sum(c.stored_seconds for c in tilings)
    seconds += max(c.ending_seconds - c.combine_seconds for c in tilings)
    beside = target.launch_seconds + target.start_seconds
    combined = [c.combine_seconds - beside for c in tilings if c.combine_seconds]
    return seconds + (beside + sum(combined) if combined else 0)


def _rounds(tiling: Candidate, resident: int) -> float:
    """How often blocks take turns on an SM that runs so many, by how often where there is room."""
    share = ceil(tiling.blocks / tiling.target.sms)
    return ceil(share / resident) / ceil(share / min(tiling.resident, share))


def fit(tilings: Iterable[Candidate]) -> bool:
    """
    True if a block of the most threads has the most registers, and those that run in clusters are
    whole ones of the largest size.
    """
    tilings = list(tilings)
    target, threads = tilings[0].target, max(c.block_threads for c in tilings)
    if max(c.registers_held for c in tilings) > target.entry_registers(threads):
        return False
    clusters = [c for c in tilings if c.cluster > 1]
    largest = max((c.cluster for c in clusters), default=1)
    return not any(largest % c.cluster or c.blocks % largest for c in clusters)


def _in_one_launch(own: Candidate) -> list[Candidate]:
    """
    Those of the fastest tilings of what has one of its own that no second kernel follows, some of
    each number of parts; none whose threads issue more beside multiply-adds, which the estimate
    leaves out.
    """
    found: dict[object, list[Candidate]] = {}
    for c in ranked_in_one_launch(own.problem, own.target, LOOKED_AT):
        of_parts = found.setdefault(c.splits, [])
        gives = isinstance(c, WarpgroupCandidate) and c.gives_registers
        if len(of_parts) < TRIED and not gives and (c.is_dense or not own.is_dense):
            of_parts.append(c)
    return [c for of_parts in found.values() for c in of_parts]
