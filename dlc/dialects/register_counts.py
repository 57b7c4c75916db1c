"""How many registers a thread of a warpgroup can set itself, and what a product of one takes."""

from __future__ import annotations

from dlc.dialects.mma_layouts import MmaAttr
from dlc.target import FEWEST_SET_REGISTERS, MOST_SET_REGISTERS, REGISTER_STEP, Target

KEPT = 40
"""Registers that are enough for a thread that asks for boxes: addresses, a slot and a phase."""

BESIDE_SUMS = 26
"""Registers that a product by a warpgroup takes of a thread beside its sums: ptxas 13.0 for sm_90a
refuses it where the block leaves each thread fewer (C7602: 74 of 48 sums, 154 of 128)."""


def product_obstacle(mma: MmaAttr, threads: int, target: Target) -> str:
    """
    The reason why no thread of a block of so many has registers for a product by a warpgroup, if
    so; what a producer gives up comes after the sums have got theirs.
    """
    sums, entry = mma.sizes.c.width, target.entry_registers(threads)
    if not mma.is_of_warpgroup or sums + BESIDE_SUMS <= entry:
        return ""
    return (
        f"each of {threads} threads has {entry} registers, and the {sums} sums of "
        f"{mma.shape.data} take {sums + BESIDE_SUMS}"
    )


def set_obstacle(count: int) -> str:
    """What a number of registers has to be that a thread can set, if it is not."""
    if count % REGISTER_STEP or not FEWEST_SET_REGISTERS <= count <= MOST_SET_REGISTERS:
        return (
            f"a multiple of {REGISTER_STEP} registers, from {FEWEST_SET_REGISTERS} to "
            f"{MOST_SET_REGISTERS}"
        )
    return ""
