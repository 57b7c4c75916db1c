"""Patterns of a kernel's inputs."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from dlc.dialects.kernel_op import KernelOpBase


class MergeEqualInputs(RewritePattern):
    """A tensor that is passed twice is one memref, if the layouts are the same."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOpBase, rewriter: PatternRewriter, /) -> None:
        if merge_equal_inputs(op):
            rewriter.notify_op_modified(op)


class DropUnusedInputs(RewritePattern):
    """An input that a kernel neither reads nor updates is none."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOpBase, rewriter: PatternRewriter, /) -> None:
        if drop_unused_inputs(op):
            rewriter.notify_op_modified(op)


def merge_equal_inputs(kernel: KernelOpBase) -> bool:
    """Makes one of inputs that are the same tensor in the same layout; says if there are any."""
    changed = False
    first: dict[tuple[SSAValue, Attribute, int], BlockArgument] = {}
    for ref, tensor in zip(kernel.input_refs, kernel.inputs, strict=True):
        kept = first.setdefault((tensor, ref.type, kernel.alignment(ref)), ref)
        if kept is not ref and ref.uses:
            ref.replace_all_uses_with(kept)
            changed = True
    return changed


def drop_unused_inputs(kernel: KernelOpBase) -> bool:
    """Erases inputs without uses; says if there are any."""
    updated, partial = kernel.updated_refs, kernel.partial_refs
    used = [bool(ref.uses) or ref in updated.values() for ref in kernel.input_refs]
    if all(used):
        return False
    alignments = [int(a) for a in kernel.alignments.get_values()]
    kept = [a for a, keep in zip(alignments, used, strict=True) if keep]
    unused = [r for r, keep in zip(kernel.input_refs, used, strict=True) if not keep]
    kernel.alignments = DenseArrayBase.from_list(i64, kept)
    kernel.operands = [v for v, keep in zip(kernel.inputs, used, strict=True) if keep]
    for ref in unused:
        kernel.body.block.erase_arg(ref)
    kernel.set_updates(updated, partial)
    return True
