"""The canonicalization patterns of the operations that dialects share, for a dialect's module."""

from __future__ import annotations

from types import ModuleType

from xdsl.pattern_rewriter import RewritePattern

from dlc.dialects.canonical import Patterns
from dlc.dialects.canonicalization.access_patterns import (
    DropSureDefault,
    DropUnreachableLoad,
    DropUnreachableStore,
    SelectOfLoad,
    SimplifyIndex,
)
from dlc.dialects.canonicalization.axes_patterns import (
    DissolveLoop,
    DropEmptyLoop,
    DropScan,
    DropUnitAxes,
)

LOAD: tuple[RewritePattern, ...] = (SimplifyIndex(), DropSureDefault(), DropUnreachableLoad())
STORE: tuple[RewritePattern, ...] = (SimplifyIndex(), DropUnreachableStore())


def access_patterns(dialect: ModuleType) -> Patterns:
    """Those of loads, stores, selects and index values."""
    return {
        dialect.LoadOp: LOAD,
        dialect.StoreOp: STORE,
        dialect.SelectOp: (SimplifyIndex(), SelectOfLoad()),
        dialect.IndexOp: (SimplifyIndex(),),
    }


def nest_patterns(dialect: ModuleType) -> Patterns:
    """Those of accesses, loops, reduces, scans and sorts."""
    axes = (DropEmptyLoop(), DropUnitAxes(), DissolveLoop(dialect.SelectOp))
    return {
        **access_patterns(dialect),
        dialect.ForOp: axes,
        dialect.ReduceOp: axes,
        dialect.ScanOp: (SimplifyIndex(), DropScan()),
        dialect.SortOp: (SimplifyIndex(), DropScan()),
        dialect.YieldOp: (SimplifyIndex(),),
    }
