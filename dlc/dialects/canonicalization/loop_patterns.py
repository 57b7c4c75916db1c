"""The canonicalization patterns of the loop dialect."""

from __future__ import annotations

from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import (
    DropRoundings,
    DropSureDefault,
    DropUnreachableStore,
    FreeLoad,
    SelectOfLoad,
    SimplifyIndex,
)
from dlc.dialects.canonicalization.axes_patterns import DissolveLoop, DropEmptyLoop, DropUnitAxes
from dlc.dialects.canonicalization.scalar_patterns import FoldScalars
from dlc.dialects.canonicalization.signature_patterns import DropUnusedInputs, MergeEqualInputs
from dlc.dialects.loop import (
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
    KernelOp: (MergeEqualInputs(), DropUnusedInputs(), DropRoundings(), FoldScalars()),
    ForOp: _AXES,
    ReduceOp: _AXES,
    LoadOp: (SimplifyIndex(), DropSureDefault(), FreeLoad(SelectOp)),
    SelectOp: (SimplifyIndex(), SelectOfLoad()),
    StoreOp: (SimplifyIndex(), DropUnreachableStore()),
    IndexOp: (SimplifyIndex(),),
    YieldOp: (SimplifyIndex(),),
}
