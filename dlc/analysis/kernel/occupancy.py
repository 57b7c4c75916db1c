"""
Occupancy: the number of blocks of a kernel that an SM holds at once.

The rules are those of NVIDIA's occupancy calculator: registers are dealt to a warp in units of 256
and to warps in fours, shared memory in units of 128 bytes with 1 KiB of each block reserved
(CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dlc.target import REGISTER_UNIT, SHARED_UNIT, WARP_UNIT, Target


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps that an SM holds, and what keeps it from holding more."""

    blocks: int
    share: float
    """The share of the warps that an SM can hold, 0 to 1."""
    limit: str
    """`threads`, `blocks`, `registers` or `shared`."""


@lru_cache(maxsize=4096)
def occupancy(target: Target, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """
    For blocks of `threads` with `registers` per thread and `shared_bytes` per block; 0 blocks for
    a kernel that cannot be launched.
    """
    warps = -(-threads // target.warp)
    per_warp = _round_up(max(registers, 1) * target.warp, REGISTER_UNIT)
    register_warps = target.registers_per_sm // per_warp // WARP_UNIT * WARP_UNIT
    shared = _round_up(shared_bytes + target.reserved_shared, SHARED_UNIT)
    limits = {
        "threads": target.threads_per_sm // target.warp // warps,
        "blocks": target.blocks_per_sm,
        "registers": register_warps // warps,
        "shared": target.shared_per_sm // max(shared, SHARED_UNIT),
    }
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(blocks, blocks * warps * target.warp / target.threads_per_sm, limit)


def fill(target: Target, blocks: int) -> float:
    """
    The share of the SMs' time that is used if all blocks take equally long: the busiest SM works
    through ceil(blocks / SMs) of them.
    """
    return blocks / target.sms / -(-blocks // target.sms) if blocks else 0.0


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
