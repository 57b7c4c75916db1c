"""
The canonicalization patterns of the tile dialect. The axes of a launch are the grid and the
threads, and stay.
"""

from __future__ import annotations

from dlc.dialects import tile
from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import DropRoundings, SimplifyIndex
from dlc.dialects.canonicalization.scalar_patterns import FoldScalars
from dlc.dialects.canonicalization.shared_patterns import STORE, nest_patterns
from dlc.dialects.canonicalization.signature_patterns import DropUnusedInputs
from dlc.dialects.ring_ops import AcquireOp, FillOp, ReleaseOp, SlabOp
from dlc.dialects.staging import StageOp

PATTERNS: Patterns = {
    **nest_patterns(tile),
    tile.KernelOp: (DropUnusedInputs(), DropRoundings(), FoldScalars()),
    tile.AtomicAddOp: STORE,
    **dict.fromkeys((StageOp, SlabOp, FillOp, AcquireOp, ReleaseOp), (SimplifyIndex(),)),
}
