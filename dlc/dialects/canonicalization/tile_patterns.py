"""
The canonicalization patterns of the tile dialect. The axes of a launch are the grid and the
threads, and stay.
"""

from __future__ import annotations

from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import (
    DropRoundings,
    DropSureDefault,
    DropUnreachableStore,
    SelectOfLoad,
    SimplifyIndex,
)
from dlc.dialects.canonicalization.axes_patterns import DissolveLoop, DropEmptyLoop, DropUnitAxes
from dlc.dialects.canonicalization.scalar_patterns import FoldScalars
from dlc.dialects.canonicalization.signature_patterns import DropUnusedInputs
from dlc.dialects.ring_ops import AcquireOp, FillOp, ReleaseOp, SlabOp
from dlc.dialects.staging import StageOp
from dlc.dialects.tile import (
    AtomicAddOp,
    ForOp,
    IndexOp,
    KernelOp,
    LoadOp,
    ReduceOp,
    SelectOp,
    StoreOp,
    YieldOp,
)

_AXES = (DropEmptyLoop(), DropUnitAxes(), DissolveLoop(SelectOp))

PATTERNS: Patterns = {
    KernelOp: (DropUnusedInputs(), DropRoundings(), FoldScalars()),
    ForOp: _AXES,
    ReduceOp: _AXES,
    LoadOp: (SimplifyIndex(), DropSureDefault()),
    SelectOp: (SimplifyIndex(), SelectOfLoad()),
    StoreOp: (SimplifyIndex(), DropUnreachableStore()),
    AtomicAddOp: (SimplifyIndex(), DropUnreachableStore()),
    **dict.fromkeys(
        (IndexOp, YieldOp, StageOp, SlabOp, FillOp, AcquireOp, ReleaseOp), (SimplifyIndex(),)
    ),
}
