"""
The rule by which a warp's accesses meet banks of shared memory and sectors of global memory.

Shared memory has 32 banks of 4 bytes; word w lies in bank w mod 32. A warp's access of 16 (8) bytes
a lane is served in four (two) phases of 8 (16) lanes; in a phase each bank gives one word in a
*wavefront*, to any number of lanes. Of 16 bytes a lane, phases have 16 lanes where each lane has
the address of a neighbour, of lane n ^ 1 or else of lane n ^ 2 throughout (said by NVIDIA of sm_70
and sm_75, forums.developer.nvidia.com/t/77228; measured for sm_86 and sm_90, /t/373160). An access
has as many *ways* as it takes wavefronts for one that it would take if no two words of a phase met
in a bank (CUDA C++ Programming Guide, "Shared Memory", of compute capability 5.x and later; the
phases are as measured).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from dlc.target import BANK_BYTES, BANKS, SECTOR_BYTES, WARP, WIDEST_ACCESS

Lanes = Sequence[int | None]
"""The byte address of each lane of a warp; None for lanes that take no part."""


def phases(lanes: Lanes, width: int) -> list[list[int]]:
    """The addresses of the lanes that are served together; phases without any are left out."""
    size = min(WARP, BANKS * BANK_BYTES // width)
    if width == WIDEST_ACCESS and any(_in_pairs(lanes, apart) for apart in (1, 2)):
        size *= 2
    groups = (lanes[at : at + size] for at in range(0, len(lanes), size))
    return [active for group in groups if (active := [a for a in group if a is not None])]


def _in_pairs(lanes: Lanes, apart: int) -> bool:
    """True if each lane has the address of the one so far apart, as far as both take part."""
    pairs = ((a, lanes[n ^ apart]) for n, a in enumerate(lanes) if n ^ apart < len(lanes))
    return all(a == b or a is None or b is None for a, b in pairs)


def wavefronts(lanes: Lanes, width: int) -> int:
    """The number of wavefronts that an access of `width` bytes a lane takes."""
    return served(lanes, width)[0]


def served(lanes: Lanes, width: int) -> tuple[int, int]:
    """The numbers of wavefronts that an access takes and of phases that it has."""
    first = next((a for a in lanes if a is not None), 0) // BANK_BYTES * BANK_BYTES
    return _served_from_0(tuple(None if a is None else a - first for a in lanes), width)


@lru_cache(maxsize=4096)
def _served_from_0(lanes: tuple[int | None, ...], width: int) -> tuple[int, int]:
    """The same; adding a whole number of words to all addresses only turns the banks."""
    total, served = 0, phases(lanes, width)
    for phase in served:
        words = {
            word
            for address in phase
            for word in range(address // BANK_BYTES, -(-(address + width) // BANK_BYTES))
        }
        total += max(Counter(word % BANKS for word in words).values())
    return total, len(served)


def ways(lanes: Lanes, width: int) -> float:
    """The wavefronts of an access for each of its phases; 1 is free of conflicts."""
    taken, phases = served(lanes, width)
    return taken / max(phases, 1)


def sectors(lanes: Lanes, width: int) -> int:
    """The number of sectors of 32 bytes of global memory that an access touches."""
    touched = {
        sector
        for address in lanes
        if address is not None
        for sector in range(address // SECTOR_BYTES, -(-(address + width) // SECTOR_BYTES))
    }
    return len(touched)
