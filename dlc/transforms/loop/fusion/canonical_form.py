"""Canonicalization of one loop kernel; see `canonicalize_kernel`."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)

from dlc.dialects.canonical import patterns_of
from dlc.dialects.canonicalization.access_patterns import DropRounding, FoldAccess, SimplifyIndex
from dlc.dialects.canonicalization.axes_patterns import DropUnitAxes
from dlc.dialects.canonicalization.signature_patterns import drop_unused_inputs, merge_equal_inputs
from dlc.dialects.loop import KernelOp, LoadOp, SelectOp


class _Patterns(RewritePattern):
    """Those of the loop dialect, of sizes, and of the casts that memory asks for."""

    def __init__(self, *without: type[RewritePattern]) -> None:
        self.patterns: dict[type[Operation], tuple[RewritePattern, ...]] = {
            arith.ExtFOp: (DropRounding(),)
        }
        self.patterns |= patterns_of("size")
        for op, patterns in patterns_of("loop").items():
            folds = (FoldAccess(),) if op in (LoadOp, SelectOp) else ()
            kept = [pattern for pattern in patterns if not isinstance(pattern, without)]
            self.patterns[op] = (*folds, *kept)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for pattern in self.patterns.get(type(op), ()):
            pattern.match_and_rewrite(op, rewriter)
            if rewriter.has_done_action:
                return


_ALL = _Patterns()
_CLEAN = _Patterns(SimplifyIndex, DropUnitAxes)


def canonicalize_kernel(kernel: KernelOp, *, clean: bool = False) -> None:
    """
    Applies the canonicalization patterns to a kernel, and removes what is dead and inputs that it
    does not read. `clean` says that its subscripts are simplified and that no axis has fewer than
    two points, so that these need not be looked at again.
    """
    merge_equal_inputs(kernel)
    pattern = GreedyRewritePatternApplier([_CLEAN if clean else _ALL])
    PatternRewriteWalker(pattern).rewrite_region(kernel.body)
    drop_unused_inputs(kernel)
