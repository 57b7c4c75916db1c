"""The canonicalization patterns of the kernel dialect; its loops and ifs are xDSL's."""

from __future__ import annotations

from dlc.dialects import kernel
from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import DropRoundings, SimplifyIndex
from dlc.dialects.canonicalization.scalar_patterns import FoldScalars
from dlc.dialects.canonicalization.shared_patterns import STORE, access_patterns

PATTERNS: Patterns = {
    **access_patterns(kernel),
    kernel.FuncOp: (DropRoundings(), FoldScalars()),
    kernel.AtomicAddOp: STORE,
    kernel.LastBlockOp: (SimplifyIndex(),),
    kernel.TestOp: (SimplifyIndex(),),
}
