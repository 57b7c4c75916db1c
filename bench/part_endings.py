"""How the schedules between which the group `choices` of bench/measured.py decides split K."""

from __future__ import annotations

from collections.abc import Sequence

from dlc.schedule.part_folds import combining
from dlc.target import get_target

CHIP = "sm_90"


def split_step(
    parts: int, ending: str, extents: Sequence[int], results: int = 1, deal: str = ""
) -> str:
    """
    The step that splits K into parts of so many results at points of such extents; what adds them
    is a `kernel`, the `last` block or a `cluster`.
    """
    then = combining(parts, extents, get_target(CHIP), results)
    how = f'then="{then}"' if ending == "kernel" else f"combine={ending}"
    return f"split-matmul-k{{splits={parts}{deal} {how}}},"
