"""The canonicalization patterns of the loop dialect."""

from __future__ import annotations

from dlc.dialects import loop
from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import DropRoundings, FreeLoad
from dlc.dialects.canonicalization.scalar_patterns import FoldScalars
from dlc.dialects.canonicalization.shared_patterns import LOAD, STORE, nest_patterns
from dlc.dialects.canonicalization.signature_patterns import DropUnusedInputs, MergeEqualInputs
from dlc.dialects.canonicalization.sum_patterns import GuardSum

_NEST = nest_patterns(loop)

PATTERNS: Patterns = {
    **_NEST,
    loop.ReduceOp: (*_NEST[loop.ReduceOp], GuardSum()),
    loop.KernelOp: (MergeEqualInputs(), DropUnusedInputs(), DropRoundings(), FoldScalars()),
    loop.AtomicAddOp: STORE,
    loop.LoadOp: (*LOAD, FreeLoad(loop.SelectOp)),
}
