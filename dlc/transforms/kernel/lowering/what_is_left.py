"""What passes refuse that others lower."""

from __future__ import annotations

from xdsl.ir import Operation

from dlc.diagnostics import fail
from dlc.dialects import kernel, tile

_LOWERED_BY: dict[type[Operation], tuple[str, str]] = {
    **dict.fromkeys(
        (tile.StageOp, tile.ComputeOp, tile.HoldOp, tile.ShareOp, tile.RingOp),
        ("lower-stages", "stages and rings"),
    ),
    **dict.fromkeys(
        (tile.ReduceOp, tile.CombineOp, tile.ScanOp, tile.SortOp, tile.SoFarOp),
        ("lower-reduces", "reduces"),
    ),
}
"""The pass that lowers operations, and what they are together."""


def refuse_what_is_left(func: kernel.FuncOp, *passes: str) -> None:
    """OpError for a kernel in which one of these passes would find something to do."""
    for op in func.walk():
        if (known := _LOWERED_BY.get(type(op))) is not None and known[0] in passes:
            name, what = known
            fail(op, f"expected no {what}, found '{op.name}'", f"run {name} first")
