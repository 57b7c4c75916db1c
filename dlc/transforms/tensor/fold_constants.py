"""What does not depend on inputs is computed now."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker
from xdsl.transforms.dead_code_elimination import dce

from dlc.dialects.canonicalization.constant_patterns import (
    FoldElementwise,
    FoldIndexMap,
    FoldReduce,
)


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """
    Constants go into the bodies that use them; what is constant then is computed, and the rest of
    what nobody uses removed.

    *Legal always*: a sum or product of a constant is computed only where it is exact.
    *Faster because* what is known now is not computed at each element, nor loaded.

    ```
    %c = tensor_ir.constant 2.0 : f32 -> tensor<4xf32>
    %y = tensor_ir.elementwise (%a = %x, %b = %c) : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> {
      %0 = arith.mulf %a, %b : f32
      tensor_ir.yield %0 : f32
    }
    ```
    becomes
    ```
    %y = tensor_ir.elementwise (%a = %x) : tensor<4xf32> -> tensor<4xf32> {
      %b = arith.constant 2.0 : f32
      %0 = arith.mulf %a, %b : f32
      tensor_ir.yield %0 : f32
    }
    ```
    """

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = [FoldElementwise(), FoldReduce(), FoldIndexMap()]
        applier = GreedyRewritePatternApplier([*patterns], dce_enabled=False)
        # What an operation reads is folded before it, so that one walk does all.
        PatternRewriteWalker(applier, apply_recursively=False).rewrite_module(op)
        dce(op)
