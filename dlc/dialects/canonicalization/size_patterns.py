"""Patterns of sizes: a kernel says of each once what it is, before all else."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from dlc.dialects.canonical import Patterns
from dlc.dialects.kernel_op import KernelSignature
from dlc.dialects.size_index import SizeIndexOp


class NameOnce(RewritePattern):
    """A size that the kernel has said already is that one; another one is said at the beginning."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SizeIndexOp, rewriter: PatternRewriter, /) -> None:
        kernel = op.parent_op()
        while kernel is not None and not isinstance(kernel, KernelSignature):
            kernel = kernel.parent_op()
        if kernel is None:
            return
        block = kernel.body.block
        said = [o for o in block.ops if isinstance(o, SizeIndexOp) and o.size == op.size]
        if said and said[0] is not op:
            rewriter.replace(op, [], [said[0].result])
        elif not said:
            new = SizeIndexOp(op.symbol)
            new.location = op.location
            rewriter.insert(new, InsertPoint.at_start(block))
            rewriter.replace(op, [], [new.result])


PATTERNS: Patterns = {SizeIndexOp: (NameOnce(),)}
