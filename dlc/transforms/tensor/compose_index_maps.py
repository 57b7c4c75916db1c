"""Index maps of index maps become one."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker
from xdsl.transforms.dead_code_elimination import dce

from dlc.dialects.canonicalization.index_map_patterns import ComposeGather, ComposeIndexMap


@dataclass(frozen=True)
class ComposeIndexMapsPass(ModulePass):
    """
    An index map of index maps reads their sources itself; what is sure from extents is dropped.

    *Legal always*: a map computes nothing, and no element that is read changes.
    *Faster because* no tensor between two maps is ever in memory, and fewer conditions are tested.

    ```
    %a = tensor_ir.index_map (d0, d1) -> %x[d0 * 4 + d1] : tensor<12xf32> -> tensor<3x4xf32>
    %b = tensor_ir.index_map (d0) -> %a[d0 floordiv 4, d0 mod 4] : tensor<3x4xf32> -> tensor<12xf32>
    %c = tensor_ir.index_map (d0) -> %b[d0 + 2] : tensor<12xf32> -> tensor<5xf32>
    ```
    becomes
    ```
    %c = tensor_ir.index_map (d0) -> %x[d0 + 2] : tensor<12xf32> -> tensor<5xf32>
    ```

    Maps, conditions and final scalars compose; an index map that changes nothing is its source,
    and one of a constant is a constant.
    """

    name = "compose-index-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = [ComposeIndexMap(), ComposeGather()]
        applier = GreedyRewritePatternApplier([*patterns], dce_enabled=False)
        # What an operation reads is composed before it, so that one walk does all.
        PatternRewriteWalker(applier, apply_recursively=False).rewrite_module(op)
        dce(op)
