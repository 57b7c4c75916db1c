"""The canonicalization patterns of the kernel dialect; its loops and ifs are xDSL's."""

from __future__ import annotations

from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import (
    DropRoundings,
    DropSureDefault,
    DropUnreachableStore,
    SelectOfLoad,
    SimplifyIndex,
)
from dlc.dialects.canonicalization.scalar_patterns import FoldScalars
from dlc.dialects.kernel import (
    AtomicAddOp,
    FuncOp,
    IndexOp,
    LoadOp,
    SelectOp,
    StoreOp,
    TestOp,
)

PATTERNS: Patterns = {
    FuncOp: (DropRoundings(), FoldScalars()),
    LoadOp: (SimplifyIndex(), DropSureDefault()),
    SelectOp: (SimplifyIndex(), SelectOfLoad()),
    StoreOp: (SimplifyIndex(), DropUnreachableStore()),
    AtomicAddOp: (SimplifyIndex(), DropUnreachableStore()),
    IndexOp: (SimplifyIndex(),),
    TestOp: (SimplifyIndex(),),
}
