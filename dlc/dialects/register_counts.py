"""How many registers a thread of a warpgroup can set itself."""

from __future__ import annotations

from dlc.target import FEWEST_SET_REGISTERS, MOST_SET_REGISTERS, REGISTER_STEP

KEPT = 40
"""Registers that are enough for a thread that asks for boxes: addresses, a slot and a phase."""


def set_obstacle(count: int) -> str:
    """What a number of registers has to be that a thread can set, if it is not."""
    if count % REGISTER_STEP or not FEWEST_SET_REGISTERS <= count <= MOST_SET_REGISTERS:
        return (
            f"a multiple of {REGISTER_STEP} registers, from {FEWEST_SET_REGISTERS} to "
            f"{MOST_SET_REGISTERS}"
        )
    return ""
